"""`games-1.7b` with nano in the place of its model, on a CPU: DeepSpeed trains an adapter in one process."""

from safetensors import safe_open

from learner import checkpoint
from tests.recipes.runs.test_one_gpu import NANO
from tests.recipes.small_runs import play


def test_an_adapter_is_trained(tmp_path):
    found = play(tmp_path, "games-1.7b", *NANO, "learner.checkpoint_every=1", steps=1)
    assert found.batches
    folder, _ = checkpoint.find_newest(tmp_path / "games-1.7b" / "checkpoints")
    with safe_open(folder / "state.safetensors", framework="numpy") as state:
        names = [name for name in state.keys() if name.startswith("parameter.")]  # noqa: SIM118
        ranks = {min(state.get_slice(name).get_shape()) for name in names}
    assert names
    assert all(".lora_" in name for name in names)
    assert ranks == {32}
