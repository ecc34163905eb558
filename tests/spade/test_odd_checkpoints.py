"""Checkpoints of others with a fault, each refused in one line that names it."""

import json
import os
import shutil
from functools import partial

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from learner.weights import publish
from spade.errors import RunError, WeightsError
from spade.policy import canary
from spade.policy.checkpoint_files import check_files
from spade.policy.model import load
from spade.tokens import Tokenizer
from tests.conftest import TEMPLATE, write_checkpoint, write_tokenizer

LLAMA = transformers.LlamaConfig(
    hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
    vocab_size=320,
)  # fmt: skip
load_here = partial(load, dtype="float32", device=torch.device("cpu"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    transformers.AutoModelForCausalLM.from_config(LLAMA).save_pretrained(folder)
    return folder


@pytest.fixture
def folder(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "odd")
    return tmp_path / "odd"


def configured(folder, **fields):
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **fields}))


def rewritten(folder, change):
    tensors = load_file(folder / "model.safetensors")
    save_file(change(tensors), folder / "model.safetensors", metadata={"format": "pt"})


def without(name):
    return lambda tensors: {key: value for key, value in tensors.items() if name not in key}


ODD = {
    "lm_head.weight": lambda folder: rewritten(folder, without("lm_head")),
    "9 are missing, the first is model.layers.1": lambda folder: rewritten(folder, without("layers.1.")),
    "9 are missing, the first is model.layers.2": lambda folder: configured(folder, num_hidden_layers=3),
    "9 are of more than its 1 layers": lambda folder: configured(folder, num_hidden_layers=1),
    "do not have the shapes": lambda folder: configured(folder, vocab_size=400),
    "lm_head.weight holds numbers that are not finite": lambda folder: rewritten(
        folder, lambda tensors: {**tensors, "lm_head.weight": tensors["lm_head.weight"] / 0}
    ),
    "not fully covered": lambda folder: (folder / "model.safetensors").write_bytes(
        (folder / "model.safetensors").read_bytes()[:-100]
    ),
    "header too small": lambda folder: (folder / "model.safetensors").write_bytes(b""),
    "no file named": lambda folder: (folder / "model.safetensors").unlink(),
    "'spiral'": lambda folder: configured(folder, rope_parameters={"rope_type": "spiral"}),
    "hidden_size": lambda folder: configured(folder, hidden_size="wide"),
    "nonsense": lambda folder: configured(folder, model_type="nonsense"),
    "1 are further parts of its modules, the first is model.layers.0.self_attn.q_proj.bias": lambda folder: rewritten(
        folder, lambda tensors: {**tensors, "model.layers.0.self_attn.q_proj.bias": torch.ones(32)}
    ),
    "1 are further parts of its modules, the first is model.layers.1.mlp.up_proj.lora_A": lambda folder: rewritten(
        folder, lambda tensors: {**tensors, "model.layers.1.mlp.up_proj.lora_A.weight": torch.ones(4, 32)}
    ),
}


@pytest.mark.parametrize("fault", ODD)
def test_a_checkpoint_with_a_fault_is_refused(fault, folder):
    ODD[fault](folder)
    with pytest.raises(RunError, match=str(folder)) as refused:
        load_here(folder)
    assert fault in str(refused.value)
    assert "\n" not in str(refused.value)


def test_code_of_a_checkpoint_is_never_run_and_nobody_is_asked(folder, tmp_path, monkeypatch):
    """Transformers asks a person at a terminal, and ran the code after a "y"."""
    ran = tmp_path / "ran"
    (folder / "foreign.py").write_text(f"open({str(ran)!r}, 'w')\nclass Own: pass\n")
    configured(
        folder,
        model_type="foreign",
        auto_map={"AutoConfig": "foreign.Own", "AutoModelForCausalLM": "foreign.Own"},
    )
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    with pytest.raises(RunError, match="needs code of its own, which is never run") as refused:
        load_here(folder)
    assert "\n" not in str(refused.value)
    assert not ran.exists()


def test_a_tensor_that_no_module_takes_is_no_fault(folder):
    rewritten(folder, lambda tensors: {**tensors, "model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(4)})
    load_here(folder)


def test_generation_settings_that_transformers_does_not_save_are_published_as_they_are(folder, tmp_path):
    settings = '{"temperature": 0.6, "do_sample": false, "eos_token_id": 2}'
    (folder / "generation_config.json").write_text(settings)
    model = load_here(folder)
    _, published = publish(model, "float32", folder, tmp_path / "weights")
    assert (published / "generation_config.json").read_text() == settings
    load_here(published)


def test_a_turn_ends_at_the_token_that_the_template_writes(tmp_path):
    """Its files name another token alone. Unmended, answers ran to their limit, and their history got a second end."""
    write_tokenizer(tmp_path)
    settings = json.loads((tmp_path / "tokenizer_config.json").read_text())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({**settings, "eos_token": "<|endoftext|>"}))
    tokenizer = Tokenizer.load(tmp_path)
    assert tokenizer.end_ids == {0, 2}
    [end] = tokenizer.encode("<|im_end|>")
    sampled = [*tokenizer.encode("left"), end]
    assert end not in tokenizer.turn_ids(sampled, [])


def test_a_template_that_holds_no_second_turn_adds_no_end(tmp_path):
    write_tokenizer(tmp_path, TEMPLATE + "{{ raise_exception('one turn') if messages | length > 1 }}")
    assert Tokenizer.load(tmp_path).end_ids == {2}


def placed(folder, places):
    (folder / "model.safetensors").rename(folder / "model-1.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))


INCOMPLETE = {
    "no tensor of layer 1": lambda folder: rewritten(folder, without("layers.1.")),
    "no tensor of layer 2": lambda folder: configured(folder, num_hidden_layers=3),
    "its model embeds 64": lambda folder: (
        configured(folder, vocab_size=None),
        rewritten(folder, lambda tensors: {**tensors, "model.embed_tokens.weight": torch.zeros(64, 4)}),
    ),
    "Expected `int` >= 1 - at `$.vocab_size`": lambda folder: configured(folder, vocab_size=0),
    "max_position_embeddings": lambda folder: configured(folder, max_position_embeddings=-5),
    "ends a turn with the token 99999": lambda folder: (folder / "generation_config.json").write_text(
        '{"eos_token_id": [2, 99999]}'
    ),
    "ends a turn with the token -1": lambda folder: (folder / "generation_config.json").write_text(
        '{"eos_token_id": -1}'
    ),
    "hold no tensor": lambda folder: placed(folder, {}),
    "model-1.safetensors: has no tensor model.lost": lambda folder: placed(
        folder, {"model.lost": "model-1.safetensors"}
    ),
    "tokens, and its model embeds 64": lambda folder: configured(folder, vocab_size=64),
    "tokenizer.json": lambda folder: (folder / "tokenizer.json").unlink(),
    "tokenizer_config.json": lambda folder: (folder / "tokenizer_config.json").write_text("<html>429</html>"),
    "generation_config.json": lambda folder: (folder / "generation_config.json").write_text("<html>429</html>"),
    "config.json": lambda folder: (folder / "config.json").write_text(""),
    "model.safetensors: ": lambda folder: (folder / "model.safetensors").write_bytes(b"<html>"),
    "model-00002-of-00002.safetensors": lambda folder: (
        (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors"),
        (folder / "model.safetensors.index.json").write_text(
            json.dumps(
                {
                    "weight_map": {
                        "model.norm.weight": "model-00001-of-00002.safetensors",
                        "b": "model-00002-of-00002.safetensors",
                    }
                }
            )
        ),
    ),
    "'../model.safetensors'": lambda folder: (
        (folder / "model.safetensors").unlink(),
        (folder / "model.safetensors.index.json").write_text('{"weight_map": {"a": "../model.safetensors"}}'),
    ),
}


@pytest.mark.parametrize("fault", INCOMPLETE)
def test_files_that_do_not_fit_are_found_without_loading_them(fault, tmp_path):
    folder = write_checkpoint(tmp_path)
    check_files(folder)
    INCOMPLETE[fault](folder)
    with pytest.raises(RunError, match=str(folder)) as refused:
        check_files(folder)
    assert fault in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "name",
    ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors",
     "canary.json", "manifest.json"],
)  # fmt: skip
def test_a_fifo_in_place_of_a_file_is_named_and_not_waited_for(folder, name):
    write_tokenizer(folder)
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    with pytest.raises(RunError, match=rf"{name}: .*not a regular file"):
        check_files(folder)


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo, lambda file: file.symlink_to(file.name)])
def test_a_canary_that_is_no_file_is_an_error_of_the_weights(folder, make):
    make(folder / canary.FILE)
    with pytest.raises(WeightsError, match=r"canary\.json: cannot be read: \w"):
        canary.read(folder)
