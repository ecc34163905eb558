"""A pool of programs with tools: the environments of one run are all that another plays."""

from tests.recipes.small_runs import play, processes, trained_roles


def test_nano_plays_the_programs_with_tools_of_another_run(tmp_path):
    designed = play(tmp_path, "nano-tools", steps=1)
    domain = ("run.domain=tools", "model.path=nano-tools", "play.max_turns=12")
    found = play(tmp_path, "nano-fixed-pool", *domain, "pool.source=run:nano-tools", steps=1)
    assert found.environments
    assert {environment.program for environment in found.environments.values()} <= {
        id.replace(":", "-") for id in designed.environments
    }
    assert any(play.tools is not None for play in found.plays.values())
    assert trained_roles(found) == {"agent"}
    assert not any(name.startswith("designer") for name in processes(tmp_path / "nano-fixed-pool"))
