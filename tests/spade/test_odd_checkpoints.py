"""Checkpoints of others with a fault, each refused in one line that names it."""

import json
import os
import shutil
from contextlib import nullcontext
from functools import partial

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from learner.weights import publish
from spade import config
from spade.app.evaluation.measuring import Subject
from spade.errors import RunError, SpadeError, WeightsError
from spade.policy import canary, structure
from spade.policy.checkpoint_files import Demands, check_checkpoint, check_files, check_structure, count_tensors
from spade.policy.model import load
from spade.policy.model_folder import read_facts, resolve
from spade.tokens import Tokenizer
from tests.conftest import TEMPLATE, write_checkpoint, write_tokenizer

LLAMA = transformers.LlamaConfig(
    hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
    vocab_size=320,
)  # fmt: skip
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 320}
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


def check_here(folder, **demands):
    """Check the structure in this process, as another process does it before a run."""
    structure.check_structure(folder, count_tensors(folder), Demands(**demands))


ODD = {
    "1 are missing, the first is lm_head.weight": lambda folder: rewritten(folder, without("lm_head")),
    "9 are missing, the first is model.layers.1": lambda folder: rewritten(folder, without("layers.1.")),
    "9 are missing, the first is model.layers.2": lambda folder: configured(folder, num_hidden_layers=3),
    "9 are of further layers, the first is model.layers.1": lambda folder: configured(folder, num_hidden_layers=1),
    "2 have other shapes, the first is lm_head.weight (320, 32) instead of (400, 32)": lambda folder: configured(
        folder, vocab_size=400
    ),
    "the first is model.norm.weight (8,) instead of (32,)": lambda folder: rewritten(
        folder, lambda tensors: {**tensors, "model.norm.weight": torch.ones(8)}
    ),
    "'spiral'": lambda folder: configured(folder, rope_parameters={"rope_type": "spiral"}),
    "'factor'": lambda folder: configured(folder, rope_parameters={"rope_type": "linear", "rope_theta": 1e4}),
    "hidden_size": lambda folder: configured(folder, hidden_size="wide"),
    "ZeroDivisionError": lambda folder: configured(folder, num_attention_heads=0, head_dim=None),
    "nonsense": lambda folder: configured(folder, model_type="nonsense"),
    "1 are further parts of its modules, the first is model.layers.0.self_attn.q_proj.bias": lambda folder: rewritten(
        folder, lambda tensors: {**tensors, "model.layers.0.self_attn.q_proj.bias": torch.ones(32)}
    ),
    "1 are further parts of its modules, the first is model.layers.1.mlp.up_proj.lora_A": lambda folder: rewritten(
        folder, lambda tensors: {**tensors, "model.layers.1.mlp.up_proj.lora_A.weight": torch.ones(4, 32)}
    ),
}


@pytest.mark.parametrize("look", [load_here, check_here])
@pytest.mark.parametrize("fault", ODD)
def test_a_checkpoint_with_a_fault_is_refused(fault, look, folder):
    ODD[fault](folder)
    with pytest.raises(RunError, match=str(folder)) as refused:
        look(folder)
    assert fault in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_number_that_is_not_finite_is_found_by_loading(folder):
    rewritten(folder, lambda tensors: {**tensors, "lm_head.weight": tensors["lm_head.weight"] / 0})
    check_here(folder)
    with pytest.raises(RunError, match=r"lm_head.weight holds numbers that are not finite"):
        load_here(folder)


UNBUILT = {
    "1000000 layers, and 21 tensors are there": lambda folder: configured(folder, num_hidden_layers=1_000_000),
    "many more tensors than the 21": lambda folder: (folder / "config.json").write_text(
        '{"model_type": "gpt2", "n_layer": 1000000}'
    ),
    "rotary_emb numbers that are not finite": lambda folder: configured(
        folder, rope_parameters={"rope_type": "default", "rope_theta": 0.0}
    ),
    "its tokenizer has 320 tokens, and its model embeds 64": lambda folder: (
        configured(folder, vocab_size=64),
        rewritten(
            folder,
            lambda tensors: {
                name: value[:64].clone() if len(value) == 320 else value for name, value in tensors.items()
            },
        ),
    ),
}
"""Faults that a load finds late, or not at all."""


@pytest.mark.parametrize("fault", UNBUILT)
def test_a_model_that_no_run_should_load_is_refused(fault, folder):
    check_here(folder, tokens=320)
    UNBUILT[fault](folder)
    with pytest.raises(RunError, match=str(folder)) as refused:
        check_here(folder, tokens=320)
    assert fault in str(refused.value)


@pytest.mark.parametrize("look", [load_here, check_here])
def test_code_of_a_checkpoint_is_never_run_and_nobody_is_asked(look, folder, tmp_path, monkeypatch):
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
        look(folder)
    assert "\n" not in str(refused.value)
    configured(folder, model_type="llama")  # Transformers has such a model
    look(folder)
    assert not ran.exists()


@pytest.mark.parametrize("look", [load_here, check_here])
@pytest.mark.parametrize("key", ["attn_implementation", "_attn_implementation", "experts_implementation"])
def test_a_config_does_not_choose_the_kernels_of_a_model(key, look, folder):
    """Transformers downloads such a kernel from the hub and runs its code, or waits minutes for a compiler."""
    for value in ("kernels-community/flash-attn3", "flash_attention_2", "flex_attention"):
        configured(folder, **{key: value})
        look(folder)
    assert load_here(folder).config._attn_implementation == "sdpa"


def test_a_config_does_not_choose_the_type_of_an_output(folder):
    configured(folder, return_dict=False)
    assert load_here(folder)(torch.tensor([[1, 2]])).logits.shape == (1, 2, 320)


SOUND = {
    "tied": lambda: transformers.LlamaConfig(**SMALL, tie_word_embeddings=True),
    "sliding": lambda: transformers.Gemma3TextConfig(**SMALL, num_key_value_heads=2, head_dim=8, sliding_window=4),
    "experts": lambda: transformers.MixtralConfig(**SMALL, num_key_value_heads=2, num_local_experts=4),
    "other names": lambda: transformers.GPT2Config(**SMALL, n_positions=512),
    "a fault of Transformers": lambda: transformers.Gemma3nTextConfig(
        **{**SMALL, "num_hidden_layers": 5},
        num_key_value_heads=2,
        head_dim=8,
        intermediate_size=48,
        laurel_rank=4,
        vocab_size_per_layer_input=320,
        hidden_size_per_layer_input=8,
        num_kv_shared_layers=0,
        activation_sparsity_pattern=None,
    ),
}


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_checkpoint_passes_whole_and_in_parts(name, tmp_path):
    model = transformers.AutoModelForCausalLM.from_config(SOUND[name]())
    for size in ("1GB", "30KB"):
        folder = tmp_path / size
        model.save_pretrained(folder, max_shard_size=size)
        check_here(folder, context_tokens=512, trained="fault" not in name)
        load_here(folder)
    assert len(list(folder.glob("*.safetensors"))) > 1


@pytest.mark.parametrize("look", [load_here, check_here])
def test_experts_that_cannot_be_joined_are_refused(look, tmp_path):
    transformers.AutoModelForCausalLM.from_config(SOUND["experts"]()).save_pretrained(tmp_path)
    rewritten(tmp_path, without("layers.1.block_sparse_moe.experts.2.w1"))
    with pytest.raises(RunError, match=r"a tensor is missing or has another shape than its neighbours"):
        look(tmp_path)


@pytest.mark.parametrize("look", [load_here, check_here])
def test_names_without_their_prefix_are_read_as_transformers_reads_them(look, tmp_path):
    transformers.GPT2LMHeadModel(transformers.GPT2Config(**SMALL)).save_pretrained(tmp_path)
    rewritten(tmp_path, lambda tensors: {name.removeprefix("transformer."): each for name, each in tensors.items()})
    look(tmp_path)
    assert read_facts(tmp_path).context_tokens == 1024
    configured(tmp_path, n_layer=1)
    with pytest.raises(RunError, match=r"are of further layers, the first is transformer.h.1.attn"):
        look(tmp_path)


UNFIT = {
    "engine cannot run bert: its attention is not causal": lambda: transformers.BertConfig(**SMALL),
    "engine cannot run gpt_oss: its attention has sinks": lambda: transformers.GptOssConfig(
        **SMALL, intermediate_size=48, num_key_value_heads=2, head_dim=8, num_local_experts=4
    ),
    "engine cannot run mamba: it has no plain key-value cache": lambda: transformers.MambaConfig(**SMALL, state_size=4),
    "512 are more than the model's 128 positions": lambda: transformers.GPT2Config(**SMALL, n_positions=128),
    "llama turns its positions with the longest sequence": lambda: transformers.LlamaConfig(
        **SMALL, rope_parameters={"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10_000.0}
    ),
    "engine cannot run deepseek_v3: it caches something else": lambda: transformers.DeepseekV3Config(
        **SMALL,
        intermediate_size=48,
        q_lora_rank=16,
        kv_lora_rank=16,
        qk_rope_head_dim=8,
        qk_nope_head_dim=8,
        v_head_dim=8,
        n_routed_experts=8,
        moe_intermediate_size=16,
        n_group=2,
        topk_group=1,
        num_experts_per_tok=2,
    ),
    "cohere changes its logits after the output head": lambda: transformers.CohereConfig(**SMALL, intermediate_size=48),
    "gemma2 changes its logits after the output head": lambda: transformers.Gemma2Config(
        **SMALL, num_key_value_heads=2, head_dim=8
    ),
    "engine cannot run llama: its attention is not causal": lambda: transformers.LlamaConfig(**SMALL, is_causal=False),
    "engine cannot run ministral: its sliding window is of 0 tokens": lambda: transformers.MinistralConfig(
        **SMALL, num_key_value_heads=2, head_dim=8, sliding_window=0, layer_types=["sliding_attention"] * 2
    ),
    "learner cannot train bert: its attention is not causal": lambda: transformers.BertConfig(**SMALL),
}


@pytest.mark.parametrize("fault", UNFIT)
def test_a_model_that_the_engine_or_the_learner_cannot_compute_is_refused(fault, tmp_path):
    transformers.AutoModelForCausalLM.from_config(UNFIT[fault]()).save_pretrained(tmp_path)
    check_here(tmp_path)
    with pytest.raises(SpadeError) as refused:
        check_here(tmp_path, context_tokens=512 if "learner" not in fault and "turns" not in fault else 0, trained=True)
    assert fault in str(refused.value)


@pytest.mark.parametrize("name", ["self_attn.rotary_emb.inv_freq", "self_attn.k_proj.k_scale", "self_attn.v_scale"])
def test_a_tensor_that_changes_nothing_is_no_fault(name, folder):
    """Transformers leaves out the scales of keys and values, which are for caches of 8 bits."""
    rewritten(folder, lambda tensors: {**tensors, f"model.layers.0.{name}": torch.ones(4)})
    check_here(folder)
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


def placed(folder, index):
    (folder / "model.safetensors").rename(folder / "model-1.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


WHOLE = {"metadata": {}, "weight_map": {"model.norm.weight": "model-1.safetensors"}}

INCOMPLETE = {
    "max_position_embeddings": lambda folder: configured(folder, max_position_embeddings=-5),
    "ends a turn with the token 99999": lambda folder: (folder / "generation_config.json").write_text(
        '{"eos_token_id": [2, 99999]}'
    ),
    "ends a turn with the token -1": lambda folder: (folder / "generation_config.json").write_text(
        '{"eos_token_id": -1}'
    ),
    "generation_config.json: Expected `object`": lambda folder: (folder / "generation_config.json").write_text("[]"),
    "hold no tensor": lambda folder: placed(folder, {"metadata": {}, "weight_map": {}}),
    "missing required field `metadata`": lambda folder: placed(folder, {"weight_map": WHOLE["weight_map"]}),
    "index.json: Expected `object`": lambda folder: placed(folder, [WHOLE]),
    "index.json: Expected `str`, got `int` - at `$.weight_map[...]`": lambda folder: placed(
        folder, {**WHOLE, "weight_map": {"model.norm.weight": 1}}
    ),
    "model-1.safetensors: has no tensor model.lost": lambda folder: placed(
        folder, {**WHOLE, "weight_map": {"model.lost": "model-1.safetensors"}}
    ),
    "model-00002.safetensors": lambda folder: placed(
        folder, {**WHOLE, "weight_map": {**WHOLE["weight_map"], "b": "model-00002.safetensors"}}
    ),
    "which is no file of this folder": lambda folder: placed(folder, {**WHOLE, "weight_map": {"a": "a" * 300}}),
    "index.json: names ''": lambda folder: placed(folder, {**WHOLE, "weight_map": {"a": ""}}),
    "f0.safetensors: No such file": lambda folder: placed(  # took minutes
        folder, {**WHOLE, "weight_map": {f"t{number}": f"f{number}.safetensors" for number in range(40_000)}}
    ),
    "'../model.safetensors'": lambda folder: placed(folder, {**WHOLE, "weight_map": {"a": "../model.safetensors"}}),
    "tokenizer.json": lambda folder: (folder / "tokenizer.json").unlink(),
    "tokenizer_config.json": lambda folder: (folder / "tokenizer_config.json").write_text("<html>429</html>"),
    "generation_config.json": lambda folder: (folder / "generation_config.json").write_text("<html>429</html>"),
    "config.json": lambda folder: (folder / "config.json").write_text(""),
    "model.safetensors: ": lambda folder: (folder / "model.safetensors").write_bytes(b"<html>"),
    "not fully covered": lambda folder: (folder / "model.safetensors").write_bytes(
        (folder / "model.safetensors").read_bytes()[:-100]
    ),
    "header too small": lambda folder: (folder / "model.safetensors").write_bytes(b""),
    "model.safetensors: No such file": lambda folder: (folder / "model.safetensors").unlink(),
    "its weights are quantised (fp8)": lambda folder: configured(folder, quantization_config={"quant_method": "fp8"}),
    "model.norm.weight holds numbers of the type I64": lambda folder: rewritten(
        folder, lambda tensors: {**tensors, "model.norm.weight": torch.ones(32, dtype=torch.int64)}
    ),
    "model.norm.weight holds numbers of the type F8_E4M3": lambda folder: rewritten(
        folder, lambda tensors: {**tensors, "model.norm.weight": torch.ones(32, dtype=torch.float8_e4m3fn)}
    ),
    "holds an adapter beside its model": lambda folder: (folder / "adapter_config.json").write_text("{}"),
    "names the file of its weights, other.safetensors": lambda folder: configured(
        folder, transformers_weights="other.safetensors"
    ),
    "Invalid enum value 'banana' - at `$.dtype`": lambda folder: configured(folder, dtype="banana"),
    "`spade model import": lambda folder: (folder / "model.safetensors").rename(folder / "pytorch_model.bin"),
}


@pytest.mark.parametrize("fault", INCOMPLETE)
def test_files_that_do_not_fit_are_found_without_building_a_model(fault, tmp_path, monkeypatch):
    folder = write_checkpoint(tmp_path)
    check_files(folder)
    INCOMPLETE[fault](folder)
    monkeypatch.setattr("subprocess.run", None)
    with pytest.raises(RunError, match=str(folder)) as refused:
        check_checkpoint(folder)
    assert fault in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_check_before_a_run_builds_the_model_in_another_process(tmp_path):
    folder = write_checkpoint(tmp_path)
    rewritten(folder, without("layers.1."))
    with pytest.raises(RunError, match=r"11 are missing, the first is model.layers.1"):
        check_checkpoint(folder)


@pytest.mark.parametrize("template", ["", "hello", "{{ raise_exception('never') }}"])
def test_a_template_that_cannot_ask_is_refused_before_a_run(template, tmp_path):
    folder = write_checkpoint(tmp_path)
    write_tokenizer(folder, template)
    check_files(folder)
    with pytest.raises(RunError, match="the model's chat template"):
        check_checkpoint(folder, config.load("nano"))


@pytest.mark.parametrize("kind", ["torch", "vllm"])
def test_a_model_that_the_torch_engine_cannot_run_is_not_served_by_it(kind, tmp_path):
    own = transformers.StableLmConfig(**SMALL, num_key_value_heads=4, intermediate_size=48)
    transformers.AutoModelForCausalLM.from_config(own).save_pretrained(tmp_path / "model")
    write_tokenizer(tmp_path / "model")
    subject = Subject.of(str(tmp_path / "model"), None)._replace(root=tmp_path)
    refusal = pytest.raises(SpadeError, match="the torch engine cannot run stablelm")
    with refusal if kind == "torch" else nullcontext(), subject.pinned("newest", None, [f"engine.kind='{kind}'"]):
        assert kind == "vllm"


def test_pickled_parameters_are_checked_for_an_import(folder):
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    check_structure(folder)
    configured(folder, num_hidden_layers=1_000_000)
    with pytest.raises(RunError, match=r"1000000 layers, and 21 tensors are there"):
        check_structure(folder)


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
        check_files(resolve(str(folder)))


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo, lambda file: file.symlink_to(file.name)])
def test_a_canary_that_is_no_file_is_an_error_of_the_weights(folder, make):
    make(folder / canary.FILE)
    with pytest.raises(WeightsError, match=r"canary\.json: cannot be read: \w"):
        canary.read(folder)
