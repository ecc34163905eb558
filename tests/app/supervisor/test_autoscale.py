import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from spade.app.supervisor import autoscale as autoscaling
from spade.app.supervisor.actors import Actors
from spade.app.supervisor.autoscale import (
    LOOKS,
    Debouncer,
    LoadFigures,
    compute_pressure,
    decide_agents,
    decide_engines,
)
from spade.config import compute_digest, load
from spade.processes.supervise import supervise
from spade.protocol import Orders, Process, Status, StepMetrics
from spade.transport import serve
from tests.peers import connected
from tests.spade.roles import orders, until

# Two busy agents, a starving learner, two engines half used.
HUNGRY = LoadFigures(agents=2, busy=0.95, engines=0.5, starving=0.6, backlog=0.3, live=2)


@pytest.mark.parametrize(("fields", "step"), [
    ({}, 1),
    ({"busy": 0.5}, 0),  # those there are have nothing to do: work is what lacks
    ({"starving": 0.1}, 0),
    ({"backlog": 1.5}, 0),  # a batch is there already
    ({"engines": 0.9}, 0),  # one more would only queue: 0.9 * 3/2 is over 1.25
    ({"engines": float("inf")}, 0),  # no engine is up: nothing is known
    ({"engines": 2.0}, -1),
    ({"engines": 2.0, "agents": 1}, 0),
    ({"starving": 0.0, "busy": 0.3}, -1),  # 0.3 of two agents is 0.6 of one
    ({"starving": 0.0, "busy": 0.4}, 0),
    ({"starving": 0.6, "busy": 0.3}, 0),
    ({"starving": 0.6, "busy": 0.3, "backlog": 1.0}, -1),
    ({"starving": 0.0, "busy": 0.3, "agents": 1}, 0),
    ({"starting": 1}, 0),
    ({"agents": 0, "busy": 0.0}, 0),
])  # fmt: skip
def test_the_number_of_agents_follows_the_load(fields, step):
    assert decide_agents(replace(HUNGRY, **fields), more_engines=False) == step


@pytest.mark.parametrize(("fields", "more_agents", "step"), [
    ({}, True, 0),  # agents come first
    ({"engines": 0.85}, True, 1),  # another agent would only queue: 0.85 * 3/2 is over 1.25
    ({"engines": 0.85}, False, 0),
    ({"engines": 1.1}, False, 1),
    ({"engines": 1.1, "busy": 0.5}, False, 0),  # work is what lacks
    ({"engines": 1.1, "starving": 0.1}, False, 0),
    ({"engines": 1.1, "backlog": 1.0}, False, 0),
    ({"engines": 1.1, "coming": 1}, False, 0),
    ({"engines": float("inf"), "live": 0}, True, 0),
    ({"engines": 0.25, "starving": 0.0}, False, -1),  # 0.25 of two engines is 0.5 of one
    ({"engines": 0.3, "starving": 0.0}, False, 0),
    ({"engines": 0.25}, False, 0),
    ({"engines": 0.25, "starving": 0.0, "live": 1}, False, 0),
    ({"engines": 0.25, "starving": 0.0, "agents": 0}, False, -1),
])  # fmt: skip
def test_the_number_of_engines_follows_the_load(fields, more_agents, step):
    assert decide_engines(replace(HUNGRY, **fields), more_agents) == step


def test_a_starving_learner_gets_engines_before_it_loses_agents_that_wait_for_each_other():
    crowded = replace(HUNGRY, engines=2.0)
    assert [decide_agents(crowded, more_engines) for more_engines in (True, False)] == [0, -1]
    assert decide_agents(replace(crowded, starving=0.1), more_engines=True) == -1


@given(
    st.integers(1, 50), st.floats(0, 1), st.floats(0, 3), st.floats(0, 1), st.floats(0, 3), st.floats(0, 1),
    st.integers(1, 9), st.booleans(), st.booleans(),
)  # fmt: skip
def test_an_added_actor_is_not_taken_back_at_once(
    agents, busy, engines, starving, backlog, starving_then, live, more, others
):
    """The same work spread over one actor more, whether the learner still starves or not, calls for no fewer."""
    now = LoadFigures(agents, busy, engines, starving, backlog, live=live)
    if decide_agents(now, more) == 1:
        spread, load = busy * agents / (agents + 1), engines * (agents + 1) / agents
        assert decide_agents(LoadFigures(agents + 1, spread, load, starving_then, backlog), others) >= 0
    if decide_engines(now, more) == 1:
        load = engines * live / (live + 1)
        assert decide_engines(LoadFigures(agents, busy, load, starving_then, backlog, live=live + 1), others) >= 0


@pytest.mark.parametrize(("looks", "done"), [
    ([1] * LOOKS, [0] * (LOOKS - 1) + [1]),
    ([1] * (LOOKS - 1) + [0] + [1] * (LOOKS - 1), [0] * (2 * LOOKS - 1)),
    ([1] * (LOOKS - 1) + [-1] * LOOKS, [0] * (2 * LOOKS - 2) + [-1]),
    ([-1] * 2 * LOOKS, ([0] * (LOOKS - 1) + [-1]) * 2),
    ([1, -1] * LOOKS, [0] * 2 * LOOKS),
])  # fmt: skip
def test_the_number_changes_only_after_repeated_calls(looks, done):
    patience = Debouncer(LOOKS)
    assert [patience.look(step) for step in looks] == done


def test_pressure_is_read_from_the_live_processes():
    config = load("nano", ("actors.episodes_in_flight=10", "engine.rows=8", "learner.batch_sequences=16"))
    processes = (
        Process("agent-0", "agent", 1, "ready", 0, gauges={"episodes": 10.0}),
        Process("agent-1", "agent", 2, "ready", 0, gauges={"episodes": 5.0}),
        Process("agent-2", "agent", 3, "stopped", 0, gauges={"episodes": 9.0}),
        Process("agent-3", "agent", 4, "starting", 0),
        Process("engine-0", "engine", 5, "ready", 0, gauges={"rows_active": 8.0, "queue": 4.0}),
    )
    status = Status(processes=processes, backlog=8, step_metrics=StepMetrics(step_s=1.0, wait_s=3.0))
    assert compute_pressure(status, config) == LoadFigures(2, 0.75, 1.5, 0.75, 0.5, starting=1, live=1)
    empty = compute_pressure(Status(), config)
    assert (empty.agents, empty.busy, empty.engines, empty.starving) == (0, 0.0, float("inf"), 1.0)
    assert decide_agents(empty, True) == decide_engines(empty, True) == 0


async def test_actors_grow_and_shrink_within_their_bounds_until_an_order(tmp_path, monkeypatch):
    """The shell against real processes and a replay service whose status is told: starving at first, fed then."""
    monkeypatch.setattr(autoscaling, "LOOK_S", 0.05)
    monkeypatch.setattr(autoscaling, "ENGINE_LOOKS", LOOKS)
    config = load("nano", ("actors.agents=1..3", "actors.engines=1..2", "supervise.drain_s=1.0"))
    full, wait_s, busy, requests = config.actors.episodes_in_flight, 9.0, 1.0, 1.0
    looks = 0

    def launch(role, index):
        return orders(tmp_path, f"{role}-{index}", role=role, drain_s=1.0, index=index)

    def status():
        gauges = {"agent": {"episodes": busy * full}, "engine": {"rows_active": requests}}
        processes = tuple(replace(each, gauges=gauges[each.role]) for each in supervisor.processes())
        return Status(processes=processes, step_metrics=StepMetrics(step_s=1.0, wait_s=wait_s))

    async def answer():
        nonlocal looks
        while True:
            await server.reply(await server.receive(), status())
            looks += 1

    async def ready(*counts):
        def up(role):
            return sum(each.role == role and each.state == "ready" for each in supervisor.processes())

        await until(lambda: (up("agent"), up("engine")) == counts)

    async with (
        serve("tcp://127.0.0.1:0", digest=compute_digest(config), bus=config.bus) as server,
        connected(server.address, config, "supervisor", "up") as client,
        supervise(
            config.supervise, tmp_path / "logs", dict.fromkeys(("agent", "engine"), "tests.spade.roles")
        ) as supervisor,
        trio.open_nursery() as nursery,
    ):
        actors = Actors(supervisor, launch, 10.0, nursery)
        actors.begin({"agent": 1, "engine": 1})
        nursery.start_soon(answer)
        nursery.start_soon(autoscaling.autoscale, client, actors, config)
        await ready(3, 1)
        requests = 1.1 * config.engine.rows
        await ready(3, 2)
        enough = looks + 2 * LOOKS  # for others to be called for
        await until(lambda: looks > enough)
        assert actors.wanted == {"agent": 3, "engine": 2}
        wait_s, busy, requests = 0.0, 0.1, 1.0
        await ready(1, 1)
        actors.obey(Orders("up", {"agent": 2}))
        await ready(2, 1)
        assert actors.wanted == {"agent": 2, "engine": 1}
        nursery.cancel_scope.cancel()
