"""Policies as GGUF files: Transformers and our own import read them back with equal log-probabilities."""

import json

import pytest
import torch
from gguf import GGUFReader
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GenerationConfig,
    GgufConfig,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from spade.app.commands import model as commands
from spade.app.models import gguf_export
from spade.app.models.convert import convert
from spade.app.models.gguf_export import write_gguf
from spade.app.rundir import RunDir
from spade.app.supervisor import kept
from spade.app.supervisor.kept import KeptPolicy
from spade.config import load
from spade.errors import RunError
from spade.policy import manifest
from spade.policy.model import compute_parameters_digest
from spade.policy.model_folder import NANO
from spade.tokens.files import end_ids, read_settings, read_template, read_tokenizer
from tests.conftest import write_tokenizer

SHAPE = {
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 512, "initializer_range": 0.2,
}  # fmt: skip
KINDS = {
    "llama": (LlamaForCausalLM, LlamaConfig, {"tie_word_embeddings": False}, torch.bfloat16),
    "llama tied": (LlamaForCausalLM, LlamaConfig, {"tie_word_embeddings": True, "rope_theta": 5e5}, torch.float32),
    "qwen2": (Qwen2ForCausalLM, Qwen2Config, {"tie_word_embeddings": False}, torch.float32),
    "qwen3": (Qwen3ForCausalLM, Qwen3Config, {"tie_word_embeddings": True, "head_dim": 128}, torch.bfloat16),
}
SCALED = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e4, "original_max_position_embeddings": 128}
REFUSED = {
    "is a gemma3_text": (Gemma3ForCausalLM, Gemma3TextConfig, {"head_dim": 16}, torch.float32),
    "rotary embeddings of the type yarn": (Qwen3ForCausalLM, Qwen3Config, {"rope_parameters": SCALED}, torch.float32),
    "log-probabilities of the file differ": (LlamaForCausalLM, LlamaConfig, {"hidden_act": "gelu"}, torch.float32),
}
IDS = torch.arange(60)[None] * 5


def write_model(folder, kind, config, settings, dtype):
    """Write a random checkpoint with a tokenizer; two tokens end a turn, and the model embeds more than there are."""
    folder.mkdir()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    made = kind(config(vocab_size=write_tokenizer(folder) + 3, **(SHAPE | settings)))
    for name, value in made.named_parameters():
        if value.dim() == 1:
            torch.nn.init.normal_(value, 1.0 if "norm" in name else 0.0, 0.3)
    made.generation_config = GenerationConfig(eos_token_id=[0, 2])
    made.to(dtype).save_pretrained(folder)
    manifest.write(folder)
    return folder


def read_with_transformers(file):
    read = AutoModelForCausalLM.from_pretrained(
        file.parent, gguf_file=file.name, quantization_config=GgufConfig(dequantize=True), dtype=torch.float32
    )
    return compute_logprobs(read)


@torch.no_grad()
def compute_logprobs(model):
    return model(IDS).logits.log_softmax(-1)


@pytest.mark.parametrize("kind", KINDS)
def test_transformers_gives_the_log_probabilities_of_the_policy(kind, tmp_path):
    folder, file = write_model(tmp_path / "model", *KINDS[kind]), tmp_path / "model.gguf"
    assert write_gguf(folder, file, "a run") == ""
    own = compute_logprobs(AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32))
    assert torch.allclose(read_with_transformers(file), own, atol=1e-4)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path, gguf_file=file.name)
    text = "<|im_start|>open the left door, 12345 times\n\n  Ünïcode<|im_end|>"
    assert tokenizer(text).input_ids == read_tokenizer(folder / "tokenizer.json").encode(text).ids
    assert tokenizer.eos_token == "<|im_end|>"
    assert tokenizer.chat_template == read_template(folder, read_settings(folder))


@pytest.mark.parametrize("kind", [*KINDS, "nano"])
def test_our_import_makes_the_same_checkpoint_of_the_file(kind, tmp_path):
    folder = NANO if kind == "nano" else write_model(tmp_path / "model", *KINDS[kind])
    file, back = tmp_path / "model.gguf", tmp_path / "back"
    note = write_gguf(folder, file, "a run")
    assert ("knows how its tokenizer splits text" in note) == (kind == "nano")
    back.mkdir()
    dtype = "bfloat16" if KINDS.get(kind, [torch.float32])[-1] == torch.bfloat16 else "float32"
    convert(file, back, dtype)
    assert compute_parameters_digest(back) == compute_parameters_digest(folder)
    assert (back / "tokenizer.json").read_bytes() == (folder / "tokenizer.json").read_bytes()
    assert end_ids(back) == end_ids(folder)
    assert read_template(back, read_settings(back)) == read_template(folder, read_settings(folder))


@pytest.mark.parametrize("says", REFUSED)
def test_what_a_file_cannot_hold_is_refused(says, tmp_path):
    folder = write_model(tmp_path / "model", *REFUSED[says])
    with pytest.raises(RunError, match=f"--gguf: .*{says}.*; leave --gguf out"):
        write_gguf(folder, tmp_path / "model.gguf", "a run")


def test_a_tokenizer_of_characters_and_a_fourth_end_are_refused(tmp_path):
    folder = write_model(tmp_path / "model", *KINDS["llama"])
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [0, 2, 5, 6]}))
    with pytest.raises(RunError, match=r"three tokens .* has 4"):
        write_gguf(folder, tmp_path / "model.gguf", "a run")
    whole = json.loads((folder / "tokenizer.json").read_text())
    (folder / "tokenizer.json").write_text(json.dumps(whole | {"pre_tokenizer": {"type": "Whitespace"}}))
    with pytest.raises(RunError, match="--gguf: writes only byte-level BPE tokenizers"):
        write_gguf(folder, tmp_path / "model.gguf", "a run")


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A run whose newest policy is a Llama."""
    made = RunDir(tmp_path / "run")
    made.create(load("nano"))
    folder = write_model(tmp_path / "model", *KINDS["llama"])
    there = KeptPolicy(7, "published", folder, (manifest.verify_parameters(folder),))
    monkeypatch.setattr(kept, "find_newest_policy", lambda run: there)
    return made


def test_the_command_writes_the_file_whole_or_not_at_all(run, tmp_path, capsys, monkeypatch):
    commands.export(run.path, tmp_path / "out", gguf=True)
    assert capsys.readouterr().out == f"{tmp_path / 'out'}: the newest policy of {run.path}, after step 7\n"
    assert GGUFReader(tmp_path / "out" / "model.gguf").fields["general.name"].contents() == "run"
    commands.import_model(str(tmp_path / "out"), tmp_path / "back")
    assert "✗" not in capsys.readouterr().out
    monkeypatch.setattr(gguf_export, "_TOLERANCE", -1.0)
    with pytest.raises(RunError, match=r"log-probabilities of the file differ from the policy.s by 0"):
        commands.export(run.path, tmp_path / "again", gguf=True)
    assert not (tmp_path / "again").exists()
