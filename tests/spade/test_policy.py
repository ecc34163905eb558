"""Checkpoint folders and the distribution that is sampled from."""

import json
import tempfile
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, AutoTokenizer

from spade.disk import DRAFT, open_only_draft
from spade.errors import ConfigError, RunError, WeightsError
from spade.policy.logprobs import log_distribution
from spade.policy.model import compute_parameters_digest, load, pick_device, publish
from spade.policy.model_folder import resolve
from spade.policy.rounding import is_as_near

CPU = torch.device("cpu")


@given(temperature=st.floats(0.05, 5.0), seed=st.integers(0, 2**32))
def test_log_distribution_is_that_of_the_scaled_logits(temperature, seed):
    logits = 5 * torch.randn(3, 17, generator=torch.Generator().manual_seed(seed))
    expected = torch.distributions.Categorical(logits=logits.double() / temperature).logits
    torch.testing.assert_close(log_distribution(logits, temperature).double(), expected, atol=1e-4, rtol=1e-4)


def test_log_distribution_is_float32_whatever_the_model_computes_in():
    logits = torch.tensor([[1.0, 2.0, 300.0]], dtype=torch.bfloat16)
    logprobs = log_distribution(logits, torch.tensor([[0.5]]))
    assert logprobs.dtype == torch.float32
    torch.testing.assert_close(logprobs, torch.log_softmax(torch.tensor([[2.0, 4.0, 600.0]]), -1))


def test_published_weights_are_a_hugging_face_folder(tiny_checkpoint, tmp_path):
    model = load(tiny_checkpoint, dtype="float32", device=CPU)
    with torch.no_grad():
        model.get_input_embeddings().weight.mul_(1.5)
    digest, folder = publish(model, tiny_checkpoint, tmp_path / "weights")
    assert folder == tmp_path / "weights" / digest
    assert digest == compute_parameters_digest(folder)
    again = AutoModelForCausalLM.from_pretrained(folder)
    ids = torch.arange(12)[None]
    torch.testing.assert_close(again(ids).logits, model(ids).logits, rtol=0, atol=0)
    assert AutoTokenizer.from_pretrained(folder).encode("left door") == AutoTokenizer.from_pretrained(
        tiny_checkpoint
    ).encode("left door")
    assert again.generation_config.eos_token_id == [0, 2]


def test_publishing_the_same_twice_leaves_one_folder_and_no_draft(tiny_checkpoint, tmp_path):
    model = load(tiny_checkpoint, dtype="float32", device=CPU)
    first = publish(model, tiny_checkpoint, tmp_path)
    assert publish(model, tiny_checkpoint, tmp_path) == first
    assert [path.name for path in tmp_path.iterdir()] == [first[0]]


def test_the_draft_of_a_killed_publication_goes_with_the_next_one_and_a_held_draft_stays(tiny_checkpoint, tmp_path):
    model = load(tiny_checkpoint, dtype="float32", device=CPU)
    with open_only_draft(tmp_path) as held:
        left = Path(tempfile.mkdtemp(prefix=DRAFT, dir=tmp_path))
        (left / "model.safetensors").write_text("half")
        digest, _ = publish(model, tiny_checkpoint, tmp_path)
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted([held.name, digest])


def test_a_publication_that_fails_leaves_nothing(tiny_checkpoint, tmp_path):
    model = load(tiny_checkpoint, dtype="float32", device=CPU)
    model.save_pretrained = lambda folder, **_: (folder / "half").write_text("x") and 1 / 0
    with pytest.raises(ZeroDivisionError):
        publish(model, tiny_checkpoint, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_changed_parameters_are_refused(tiny_checkpoint, tmp_path):
    model = load(tiny_checkpoint, dtype="float32", device=CPU)
    digest, folder = publish(model, tiny_checkpoint, tmp_path)
    load(folder, dtype="bfloat16", device=CPU, digest=digest)
    parameters = folder / "model.safetensors"
    parameters.write_bytes(parameters.read_bytes()[:-1] + b"\x01")
    with pytest.raises(WeightsError, match="its digest is not"):
        load(folder, dtype="float32", device=CPU, digest=digest)
    parameters.unlink()
    with pytest.raises(RunError, match=r"model\.safetensors: No such file"):
        load(folder, dtype="float32", device=CPU, digest=digest)


def test_a_folder_that_is_no_checkpoint(tmp_path):
    with pytest.raises(RunError, match="cannot load"):
        load(tmp_path, dtype="float32", device=CPU)
    with pytest.raises(ConfigError, match="holds no config"):
        resolve(str(tmp_path))


def test_a_quantised_checkpoint_whose_package_is_not_here(tiny_checkpoint, tmp_path):
    config = json.loads((tiny_checkpoint / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "gptq", "bits": 4, "group_size": 32}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(RunError, match=r"cannot load.*: .* requires optimum"):
        load(tmp_path, dtype="float32", device=CPU)


def test_a_name_that_is_neither_folder_nor_on_the_hub():
    with pytest.raises(ConfigError, match="there is no folder 'no/such/thing/anywhere' here"):
        resolve("no/such/thing/anywhere")


def test_devices():
    assert pick_device("cpu") == CPU
    assert pick_device("auto").type in ("cpu", "cuda")
    with pytest.raises(ConfigError, match="no device 'abacus'"):
        pick_device("abacus")


def test_one_token_that_bfloat16_moves_far_is_no_other_forward():
    exact = torch.ones(9, 8)
    rounded = exact * 1.05
    found = rounded.clone()
    found[3] *= 2
    assert is_as_near(found, rounded, exact)
    assert not is_as_near(exact * 1.2, rounded, exact)
