"""Two commands that start the same part of a run at the same time."""

from functools import partial

import pytest

from spade.app.commands.up import actors_up, learner_up, up
from spade.app.rundir import RunDir
from spade.app.supervisor import up as supervisor_up
from spade.config import load
from spade.errors import RunError


class EnoughError(Exception):
    """Ends a command before it starts a process."""


COMMANDS = {
    "replay": up,
    "learner": learner_up,
    "actors": partial(actors_up, "tcp://127.0.0.1:1", agents="1"),
}


@pytest.mark.parametrize("part", COMMANDS)
def test_the_second_command_is_refused_and_leaves_the_config_of_the_first(tmp_path, monkeypatch, part):
    command, run = COMMANDS[part], RunDir(tmp_path)
    run.create(load("nano"))

    async def slow(*given: object, **more: object) -> None:
        """The first command keeps its processes up, while somebody gives it again with another setting."""
        with pytest.raises(RunError, match=f"its {part} is already up"):
            command(run=run.path, set_=["learner.lr=2e-3"])
        raise EnoughError

    monkeypatch.setattr(supervisor_up, "keep_up", slow)
    with pytest.raises(EnoughError):
        command(run=run.path, set_=["learner.lr=1e-3"])
    assert run.config().learner.lr == 1e-3
    assert run.holders() == {}


def test_a_path_of_a_learner_is_kept_absolute(tmp_path, monkeypatch):
    run = RunDir(tmp_path / "run")
    run.create(load("nano"))
    monkeypatch.chdir(tmp_path)

    async def nothing(*given: object, **more: object) -> None:
        raise EnoughError

    monkeypatch.setattr(supervisor_up, "keep_up", nothing)
    with pytest.raises(EnoughError):
        learner_up(run=run.path, set_=["serve.key=key"])
    assert run.config().serve.key == str(tmp_path / "key")
