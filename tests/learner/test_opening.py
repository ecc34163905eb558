"""A backend of several ranks that is opened outside of a run."""

import pytest

from learner.backends import opening
from spade.config import load
from spade.errors import RunError


class ReachedError(RunError):
    """The ranks' address is served, and the first rank opens its model."""


async def test_the_ranks_address_is_short_however_long_the_path_of_their_logs_is(tmp_path, monkeypatch):
    def reached(*_: object) -> None:
        raise ReachedError("it is served")

    monkeypatch.setattr(opening, "open_backend", reached)
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    settings = load("nano", ("learner.backend=deepspeed", "learner.processes=2"))
    with pytest.RaisesGroup(ReachedError, flatten_subgroups=True, allow_unwrapped=True):
        async with opening.open_outside_run(settings, None, folder):
            pass
