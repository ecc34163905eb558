"""Two commands that start the same part of a run at the same time."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from spade.app.commands.up import actors_up, learner_up, up
from spade.app.rundir import RunDir
from spade.app.supervisor import places
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

    @contextmanager
    def slow(*given: object) -> Iterator[None]:
        """A cluster that is slow to join, while somebody gives the same command with another setting."""
        monkeypatch.setattr(places, "places", None)  # a second one that gets here fails
        with pytest.raises(RunError, match=f"its {part} is already up"):
            command(run=run.path, set_=["learner.lr=2e-3"])
        raise EnoughError
        yield

    monkeypatch.setattr(places, "places", slow)
    with pytest.raises(EnoughError):
        command(run=run.path, set_=["learner.lr=1e-3"])
    assert run.config().learner.lr == 1e-3
    assert run.holders() == {}
