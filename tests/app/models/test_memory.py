"""The estimate of a run's memory: sizes from the files of a checkpoint, figures from those and the config."""

import json
import shutil

import pytest
from safetensors import safe_open

from spade.app.models.memory import GIB, ModelSizes, estimate, read_sizes
from spade.config import load
from spade.errors import RunError
from spade.policy.model_folder import SHIPPED

QWEN_4B = ModelSizes(4_022_468_096, 2_000_000, 36, 2560, 9728, 32, 8, 128, 151_936)


def by_process(config, sizes):
    return {each.process: each for each in estimate(config, sizes)}


def test_sizes_come_from_the_files():
    folder = SHIPPED["nano"]
    sizes = read_sizes(folder)
    with safe_open(folder / "model.safetensors", framework="numpy") as file:
        assert sizes.parameters == sum(file.get_tensor(name).size for name in file.keys())  # noqa: SIM118
    assert sizes[2:] == (4, 128, 384, 4, 2, 32, 1_536)
    assert sizes.kv_bytes(4) == 2 * 4 * 2 * 32 * 4


@pytest.mark.parametrize("change", [{"hidden_size": None}, {"num_hidden_layers": 0}, {"vocab_size": "many"}])
def test_a_config_that_does_not_tell_is_refused(change, tmp_path):
    shutil.copytree(SHIPPED["nano"], tmp_path / "odd")
    file = tmp_path / "odd" / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    with pytest.raises(RunError, match=str(file)):
        read_sizes(tmp_path / "odd")


def test_the_recipe_at_4b_fits_the_gpus_that_its_comments_say():
    found = by_process(load("games-4b"), QWEN_4B)
    assert list(found) == [*(f"engine-{index}" for index in range(6)), "learner", "learner-1"]
    engine, learner = found["engine-0"].parts, found["learner-1"].parts
    assert engine["weights"] == pytest.approx(8e9, rel=0.02)
    assert engine["keys and values"] == pytest.approx(60e9, rel=0.02)
    assert learner["weights"] == pytest.approx(8e9, rel=0.02)
    assert learner["gradients"] == pytest.approx(8e9, rel=0.02)
    assert learner["optimiser"] == pytest.approx(24e9, rel=0.02)
    assert learner["activations"] == pytest.approx(15e9, rel=0.35)
    assert all(each.total < 80 * GIB for each in found.values())


def test_what_changes_the_memory_changes_the_estimate():
    sizes = read_sizes(SHIPPED["nano"])

    def learner(*given):
        return by_process(load("nano", given), sizes)["learner"].parts

    def engine(*given):
        return by_process(load("nano", given), sizes)["engine-0"].parts

    assert sum(learner("learner.lora_rank=4").values()) < sum(learner().values())
    assert learner("learner.activation_checkpointing=true")["activations"] < learner()["activations"]
    assert learner("loss.kl=0.1")["reference"] == 4 * sizes.parameters
    long = ("learner.microbatch_tokens=64", "engine.context_tokens=4096")
    assert learner(*long)["activations"] > learner(*long, "design.train=false")["activations"]  # a design goes alone
    assert engine("model.dtype=bfloat16")["weights"] * 2 == engine()["weights"]
    assert "weights in bfloat16" in learner("model.dtype=bfloat16")
    assert "weights in bfloat16" not in learner("model.dtype=bfloat16", "learner.device=cpu")
    assert engine("engine.kv_bytes=1000000")["keys and values"] == 1_000_000


def test_config_check_prints_it(spade, tmp_path):
    done = spade("config", "check", "nano", cwd=tmp_path)
    assert done.returncode == 0, done
    assert "memory, estimated for " in done.stdout
    assert "  learner: " in done.stdout
    assert "GiB in this machine" in done.stdout
    words = ("--set", "design.corpus=builtin", "--set", "evaluation.suite=")
    far = spade("config", "check", "games-4b", *words, cwd=tmp_path)
    assert "not estimated, since the model is not on this machine" in far.stdout + far.stderr
