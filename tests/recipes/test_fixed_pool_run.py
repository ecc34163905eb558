"""One recipe at nano size, from its command to its last learner step; the others: `make test-recipes`."""

from actors.roles.evaluator import read_programs
from spade.config import load
from tests.recipes.small_runs import hinted, play, processes, trained_roles


def test_nano_plays_a_fixed_pool(tmp_path):
    pool = tmp_path / "pools" / "nano"
    pool.mkdir(parents=True)
    for number, source in enumerate(read_programs(load("nano", ("evaluation.plays=12",)))):
        (pool / f"world-{number}.py").write_text(source)
    found = play(tmp_path, "nano-fixed-pool", steps=1)
    assert {environment.program for environment in found.environments.values()} <= {f.stem for f in pool.glob("*.py")}
    assert hinted(found) == 0
    assert trained_roles(found) == {"agent"}
    had = processes(tmp_path / "nano-fixed-pool")
    assert "curator-0" in had
    assert not any(name.startswith("designer") for name in had)
