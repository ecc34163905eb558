"""`nano-fixed-pool`: programs of a folder are all that is played."""

from actors.suites.held_out import read_held_out
from spade.config import load
from tests.recipes.small_runs import hinted, play, processes, trained_roles


def test_nano_plays_a_fixed_pool(tmp_path):
    pool = tmp_path / "pools" / "nano"
    pool.mkdir(parents=True)
    for number, (item, _) in enumerate(read_held_out(load("nano", ("evaluation.plays=12",))).samples):
        (pool / f"world-{number}.py").write_text(item.program)
    found = play(tmp_path, "nano-fixed-pool", steps=1)
    assert {environment.program for environment in found.environments.values()} <= {f.stem for f in pool.glob("*.py")}
    assert hinted(found) == 0
    assert trained_roles(found) == {"agent"}
    had = processes(tmp_path / "nano-fixed-pool")
    assert "curator-0" in had
    assert not any(name.startswith("designer") for name in had)
