"""Actors that a supervisor keeps up, as real processes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from spade import config
from spade.app.supervisor.actors import Actors
from spade.errors import RunError
from spade.processes.entry import Launch
from spade.processes.supervise import Supervisor, supervise
from spade.protocol import Orders, Role
from tests.spade.roles import SOON_S, orders, until

ROLES: dict[Role, str] = dict.fromkeys(("replay", "engine", "designer", "agent"), "tests.spade.roles")
SETTINGS = config.Supervise(restarts=2, drain_s=SOON_S)


@asynccontextmanager
async def keeping(run: Path, behaviour: str = "steady") -> AsyncIterator[tuple[Supervisor, Actors]]:
    """A supervisor and its actors, which behave so where they are added later; agent-0 is always steady."""

    def launch(role: Role, index: int) -> Launch:
        return orders(run, f"{role}-{index}", "steady" if index == 0 else behaviour, role, index=index)

    async with supervise(SETTINGS, run / "logs", ROLES) as supervisor, trio.open_nursery() as nursery:
        yield supervisor, Actors(supervisor, launch, SOON_S, nursery)
        nursery.cancel_scope.cancel()


def states(supervisor: Supervisor) -> dict[str, str]:
    return {process.name: process.state for process in supervisor.processes()}


def alive(supervisor: Supervisor) -> dict[str, int]:
    return {process.name: process.pid for process in supervisor.processes() if process.state == "ready"}


async def settled(supervisor: Supervisor, *names: str) -> dict[str, int]:
    """Wait until exactly these are ready and nothing is under way; their pids."""
    passing = {"starting", "restarting", "draining"}
    await until(lambda: set(alive(supervisor)) == set(names) and not passing & set(states(supervisor).values()))
    await trio.testing.wait_all_tasks_blocked()  # one that has stopped keeps its name until its task has run
    return alive(supervisor)


async def test_scaling_touches_nobody_else(tmp_path):
    async with keeping(tmp_path) as (supervisor, actors):
        actors.begin({"agent": 1, "designer": 1})
        before = await settled(supervisor, "agent-0", "designer-0")
        actors.scale({"agent": 3})
        grown = await settled(supervisor, "agent-0", "agent-1", "agent-2", "designer-0")
        assert before.items() <= grown.items()
        actors.scale({"agent": 2, "designer": 0})
        shrunk = await settled(supervisor, "agent-0", "agent-1")
        assert shrunk.items() <= grown.items()
        assert actors.wanted == {"agent": 2, "designer": 0}
        assert "agent-2 retires" in (tmp_path / "diary").read_text()
        left = [process for process in supervisor.processes() if process.state == "stopped"]
        assert [(process.name, process.detail, process.restarts) for process in left] == [
            ("designer-0", "left in order", 0), ("agent-2", "left in order", 0),
        ]  # fmt: skip


async def test_a_drained_actor_is_wanted_no_more_and_its_name_is_taken_again(tmp_path):
    async with keeping(tmp_path) as (supervisor, actors):
        actors.begin({"agent": 3})
        await settled(supervisor, "agent-0", "agent-1", "agent-2")
        assert not actors.fixed
        orders = Orders("up", drain=("agent-1", "nobody"))
        actors.obey(orders)
        await settled(supervisor, "agent-0", "agent-2")
        actors.obey(orders)  # given again, as one that was lost may be
        assert actors.wanted == {"agent": 2}
        assert actors.fixed
        actors.obey(Orders("up", {"agent": 3}))
        await settled(supervisor, "agent-0", "agent-1", "agent-2")


async def test_counts_that_change_at_once_end_where_they_should(tmp_path):
    async with keeping(tmp_path) as (supervisor, actors):
        for count in (2, 0, 3, 1):
            actors.scale({"agent": count})
        # 0 and 1 had not left when the next three were started.
        await settled(supervisor, "agent-2")
        assert actors.wanted == {"agent": 1}


async def test_one_that_does_not_come_up_is_given_up_alone(tmp_path):
    async with keeping(tmp_path, "misled") as (supervisor, actors):
        actors.begin({"agent": 1})
        before = await settled(supervisor, "agent-0")
        actors.scale({"agent": 2})
        await until(lambda: actors.wanted["agent"] == 1)
        assert states(supervisor) == {"agent-0": "ready", "agent-1": "failed"}
        assert supervisor.processes()[1].detail == "model.path: no such folder"
        assert alive(supervisor) == before


async def test_one_of_the_first_that_does_not_come_up_stops_everything(tmp_path):
    with pytest.raises(RunError, match=r"^agent-1: model\.path: no such folder$"):  # noqa: PT012
        async with keeping(tmp_path, "misled") as (_, actors):
            actors.begin({"agent": 2})
            await trio.sleep_forever()


async def test_one_that_died_after_it_was_ready_comes_back_or_stops_everything(tmp_path):
    with pytest.raises(RunError, match=r"^agent-1: RuntimeError: the sky fell; gave up after 3 ends"):  # noqa: PT012
        async with keeping(tmp_path, "crash") as (supervisor, actors):
            actors.begin({"agent": 1})
            await settled(supervisor, "agent-0")
            actors.scale({"agent": 2})
            await trio.sleep_forever()


async def test_one_that_does_not_finish_is_stopped(tmp_path):
    async with supervise(SETTINGS, tmp_path / "logs", ROLES) as supervisor:
        for name, behaviour in (("agent-0", "unwilling"), ("engine-0", "steady")):
            await supervisor.add(orders(tmp_path, name, behaviour, name[:-2]))
        await supervisor.retire("agent-0", 0.2)
        await supervisor.retire("engine-0", SOON_S)
    assert states(supervisor) == {"agent-0": "stopped", "engine-0": "stopped"}
    assert [process.detail for process in supervisor.processes()] == ["left in order"] * 2
    assert "retires" not in (tmp_path / "diary").read_text()
