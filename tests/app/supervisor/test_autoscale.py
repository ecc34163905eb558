import msgspec
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from spade.app.supervisor import autoscale as autoscaling
from spade.app.supervisor.actors import Actors
from spade.app.supervisor.autoscale import LOOKS, Patience, Pressure, called_for, pressure
from spade.config import digest, load
from spade.protocol import Orders, Process, Status, StepMetrics
from spade.supervise import supervise
from spade.transport import serve
from tests.peers import connected
from tests.spade.roles import orders, until

# Two busy agents, a starving learner, engines half used.
HUNGRY = Pressure(agents=2, busy=0.95, engines=0.5, starving=0.6, backlog=0.3)


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
def test_the_number_of_actors_follows_the_load(fields, step):
    assert called_for(msgspec.structs.replace(HUNGRY, **fields)) == step


@given(st.integers(1, 50), st.floats(0, 1), st.floats(0, 3), st.floats(0, 1), st.floats(0, 3), st.floats(0, 1))
def test_an_added_actor_is_not_taken_back_at_once(agents, busy, engines, starving, backlog, starving_then):
    """The same work spread over one agent more, whether the learner still starves or not, calls for no fewer."""
    if called_for(Pressure(agents, busy, engines, starving, backlog)) == 1:
        spread, load = busy * agents / (agents + 1), engines * (agents + 1) / agents
        assert called_for(Pressure(agents + 1, spread, load, starving_then, backlog)) >= 0


@pytest.mark.parametrize(("looks", "done"), [
    ([1] * LOOKS, [0] * (LOOKS - 1) + [1]),
    ([1] * (LOOKS - 1) + [0] + [1] * (LOOKS - 1), [0] * (2 * LOOKS - 1)),
    ([1] * (LOOKS - 1) + [-1] * LOOKS, [0] * (2 * LOOKS - 2) + [-1]),
    ([-1] * 2 * LOOKS, ([0] * (LOOKS - 1) + [-1]) * 2),
    ([1, -1] * LOOKS, [0] * 2 * LOOKS),
])  # fmt: skip
def test_the_number_changes_only_after_repeated_calls(looks, done):
    patience = Patience()
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
    assert pressure(status, config) == Pressure(2, 0.75, 1.5, 0.75, 0.5, starting=1)
    empty = pressure(Status(), config)
    assert (empty.agents, empty.busy, empty.engines, empty.starving) == (0, 0.0, float("inf"), 1.0)
    assert called_for(empty) == 0


async def test_agents_grow_and_shrink_within_their_bounds_until_an_order(tmp_path, monkeypatch):
    """The shell against real processes and a replay service whose status is told: starving at first, fed then."""
    monkeypatch.setattr(autoscaling, "LOOK_S", 0.05)
    config = load("nano", ("actors.agents=auto", "actors.agents_max=3", "supervise.drain_s=1.0"))
    full, wait_s, busy = config.actors.episodes_in_flight, 9.0, 1.0

    def launch(role, index):
        return orders(tmp_path, f"{role}-{index}", role=role, drain_s=1.0, index=index)

    def status():
        agents = [replace(each, gauges={"episodes": busy * full}) for each in supervisor.processes()]
        engine = Process("engine-0", "engine", 1, "ready", 0, gauges={"rows_active": 1.0})
        return Status(processes=(engine, *agents), step_metrics=StepMetrics(step_s=1.0, wait_s=wait_s))

    async def answer():
        while True:
            await server.reply(await server.receive(), status())

    async def ready(agents):
        await until(lambda: sum(each.state == "ready" for each in supervisor.processes()) == agents)

    async with (
        serve("tcp://127.0.0.1:0", digest=digest(config), bus=config.bus) as server,
        connected(server.address, config, "supervisor", "up") as client,
        supervise(config.supervise, tmp_path / "logs", {"agent": "tests.spade.roles"}) as supervisor,
        trio.open_nursery() as nursery,
    ):
        actors = Actors(supervisor, launch, 10.0, nursery)
        actors.begin({"agent": config.actors.agents_min})
        nursery.start_soon(answer)
        nursery.start_soon(autoscaling.autoscale, client, actors, config)
        await ready(3)
        await trio.sleep(2 * LOOKS * autoscaling.LOOK_S)  # long enough for a fourth
        assert actors.wanted == {"agent": 3}
        wait_s, busy = 0.0, 0.1
        await ready(1)
        actors.obey(Orders("up", {"agent": 2}))
        await ready(2)
        assert actors.wanted == {"agent": 2}
        nursery.cancel_scope.cancel()
