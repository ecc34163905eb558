import os

import pytest
import torch
from transformers import AutoModelForCausalLM, Gemma3TextConfig, Qwen3Config, Qwen3MoeConfig

from learner import weights
from spade.disk import hold
from spade.policy import canary
from spade.policy.manifest import PARAMETERS
from spade.policy.model import compute_parameters_digest, load, save
from tests.learner.test_claim import seen
from tests.peers import alone


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_published_weights_load_as_the_same_policy(policy, checkpoint_folder, tmp_path, dtype):
    with torch.no_grad():
        policy.model.get_input_embeddings().weight.mul_(1.5)  # no longer those of the folder
    digest, folder = weights.publish(policy.model, dtype, checkpoint_folder, tmp_path / "weights")
    assert folder == tmp_path / "weights" / digest
    assert compute_parameters_digest(folder) == digest
    assert (folder / "tokenizer.json").is_file()
    loaded = AutoModelForCausalLM.from_pretrained(folder)
    assert loaded.dtype == getattr(torch, dtype)
    ids = torch.arange(20)[None]
    found, expected = loaded.float()(ids).logits, policy.model(ids).logits
    assert torch.allclose(found, expected, atol=1e-5 if dtype == "float32" else 0.3)
    assert policy.model.dtype == torch.float32


def test_the_same_parameters_are_the_same_folder(policy, checkpoint_folder, tmp_path):
    first = weights.publish(policy.model, "float32", checkpoint_folder, tmp_path / "weights")
    again = weights.publish(policy.model, "float32", checkpoint_folder, tmp_path / "weights")
    assert first == again
    assert os.listdir(tmp_path / "weights") == [first[0]]


@pytest.mark.parametrize("name", ["model.safetensors", "manifest.json"])
def test_a_damaged_folder_of_the_same_parameters_is_made_anew(policy, checkpoint_folder, tmp_path, name):
    """As a machine that lost power may have left it: the learner that resumes publishes the same again."""
    root = tmp_path / "weights"
    digest, folder = weights.publish(policy.model, "float32", checkpoint_folder, root)
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(whole[:-1])
    assert weights.publish(policy.model, "float32", checkpoint_folder, root) == (digest, folder)
    assert (folder / name).read_bytes() == whole
    assert os.listdir(root) == [digest]


def test_the_newest_and_the_needed_are_kept(policy, checkpoint_folder, tmp_path):
    root = tmp_path / "weights"
    digests = []
    for index in range(weights.KEPT + 3):
        with torch.no_grad():
            policy.model.get_input_embeddings().weight.add_(0.01)
        digest, folder = weights.publish(policy.model, "float32", checkpoint_folder, root)
        os.utime(folder, (index, index))
        digests.append(digest)
    (root / ".draft-crashed").mkdir()
    assert weights.list_spare(root, frozenset({digests[1]})) == [digests[0], digests[2]]
    with hold(root / digests[0] / PARAMETERS):
        weights.prune(root, [digests[0], digests[2]], alone)
        assert set(os.listdir(root)) == {*digests[:2], *digests[-weights.KEPT :]}
    weights.prune(root, [digests[0]], alone)
    assert set(os.listdir(root)) == {digests[1], *digests[-weights.KEPT :]}


SHAPE = {
    "vocab_size": 48, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 16, "max_position_embeddings": 64,
}  # fmt: skip
KINDS = {
    "tied": Qwen3Config(**SHAPE, tie_word_embeddings=True),
    "experts": Qwen3MoeConfig(**SHAPE, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16),
    "windows": Gemma3TextConfig(**SHAPE, sliding_window=8, layer_types=["sliding_attention", "full_attention"]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_is_written_as_the_model_itself_would_be(kind, checkpoint_folder, tmp_path):
    """Names and bytes: some models are saved under other names than they compute with, and some have more buffers."""
    AutoModelForCausalLM.from_config(KINDS[kind]).save_pretrained(tmp_path / "made")
    model = load(tmp_path / "made", dtype="float32", device=torch.device("cpu"))
    digest = save(model, checkpoint_folder, tmp_path / "whole")
    canary.write(canary.compute(model), tmp_path / "whole")
    found, folder = weights.publish(model, "float32", checkpoint_folder, tmp_path / "weights")
    assert found == digest
    assert seen(folder) == seen(tmp_path / "whole")
