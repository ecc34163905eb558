"""Requests that can be read but make no sense, at the real services: each is answered and changes nothing."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import get_args

import trio
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from actors.engines import server as engine_server
from actors.environments import runner as env_runner
from spade import protocol
from spade.config import Config
from spade.errors import BusError, RefusedError
from tests.actors.small_services import SmallReplay, process, small_replay
from tests.fuzz.bus import attack
from tests.fuzz.targets import SETTINGS, ground
from tests.peers import changed
from tests.replay.everyone import Everyone, everyone

WHOLE = st.one_of(st.sampled_from([0, 1, -1, -(2**63), 2**63, 2**64 - 1]), st.integers(-(2**63), 2**64 - 1))
TEXT = st.one_of(st.sampled_from(["", "e000000", "j999999", "x" * 300, "x" * 5_000, "a/b", "\0"]), st.text(max_size=40))
TRAJECTORY = st.builds(
    lambda tokens, version, temperature, rewound: protocol.Trajectory(
        bytes(4 * tokens), (0, tokens), b"\xff" * (4 * tokens), ((version, tokens),) if tokens else (), temperature,
        rewinds=((tokens - 1, 0),) if rewound and tokens > 1 else (),
    ),
    st.integers(0, 9), WHOLE, st.sampled_from([1e-300, 1.0, float("inf")]), st.booleans(),
)  # fmt: skip
RECORDING = st.builds(
    lambda actions, turns: protocol.Recording(tuple(actions), bytes(protocol.DIGEST_BYTES * (len(actions) + 1)), turns),
    st.lists(TEXT, max_size=3), st.integers(0, 2**63),
)  # fmt: skip
GAUGES = st.dictionaries(TEXT, st.floats(), max_size=3)
PROCESS = st.builds(protocol.Process, TEXT, st.just("agent"), WHOLE, st.just("ready"), WHOLE, TEXT, GAUGES)
COUNTS = st.dictionaries(st.sampled_from(["agent", "engine"]), WHOLE, max_size=2)
ORDERS = st.builds(protocol.Orders, TEXT, COUNTS, st.lists(TEXT, max_size=3).map(tuple))
for kind, strategy in (
    (int, WHOLE), (str, TEXT), (protocol.Trajectory, TRAJECTORY), (protocol.Recording, RECORDING),
    (protocol.Process, PROCESS), (protocol.Orders, ORDERS),
):  # fmt: skip
    st.register_type_strategy(kind, strategy)


@st.composite
def senseless(draw: st.DrawFn, *kinds: type) -> list[protocol.AnyRequest]:
    return draw(st.lists(st.one_of([st.from_type(kind) for kind in kinds]), min_size=10, max_size=20))


# Hypothesis takes msgspec's mark of a default that is made anew for the default itself.
st.register_type_strategy(
    protocol.Evaluation,
    st.builds(protocol.Evaluation, suite=st.text(), categories=st.dictionaries(st.text(), st.floats())),
)
AT_REPLAY = senseless(
    *(
        kind
        for kind in get_args(protocol.AnyRequest)
        if kind not in (protocol.Hello, protocol.Heartbeat, protocol.Goodbye, protocol.Publish)
    )
)
AT_ENGINE = senseless(protocol.Generate, protocol.OpenEpisode, protocol.GetStatus)
AT_RUNNER = senseless(
    protocol.OpenEpisode, protocol.StepEpisode, protocol.Validate, protocol.KeepProgram, protocol.GetStatus
)
# Shrinking would ask a service that has died, for ever.
FEW = settings(max_examples=6, phases=[Phase.generate], suppress_health_check=list(HealthCheck))


Send = Callable[[protocol.AnyRequest, float], Awaitable[object]]


async def ask_all(send: Send, requests: Sequence[protocol.AnyRequest]) -> None:
    """Every one at once; all must be answered or, where they wait for work, still wait."""

    async def ask(request: protocol.AnyRequest) -> None:
        try:
            await send(request, 1.0)
        except RefusedError:
            return
        except BusError as error:
            if "the service is slow" not in str(error):
                raise

    async with trio.open_nursery() as nursery:
        for request in requests:
            nursery.start_soon(ask, request)


def firing(drawn: st.SearchStrategy[list[protocol.AnyRequest]], send: Send) -> Callable[[], None]:
    """For a thread: all that hypothesis draws is sent."""

    @FEW
    @given(drawn)
    def fire(requests: list[protocol.AnyRequest]) -> None:
        trio.from_thread.run(ask_all, send, requests)

    return fire


async def test_a_replay_service_is_not_moved(tmp_path: Path) -> None:
    """One service for all that hypothesis draws, so that what one request leaves behind meets the next."""
    async with ground(tmp_path) as field:
        before = field.store_digest()
        await trio.to_thread.run_sync(firing(AT_REPLAY, field.replay.send))
        assert (await field.replay.status()).learner_step == 1
        assert [target.restarts for target in field.targets] == [0, 0]
        assert field.store_digest() == before


@asynccontextmanager
async def in_this_process(
    run, role: protocol.Role, config: Config, weights: protocol.Weights | None = None
) -> AsyncIterator[Everyone]:
    """Clients of a service whose crash fails the test."""
    small = SmallReplay()
    small.weights = weights
    async with small_replay(small, config) as replay, process(run, role, replay, config):
        (service,) = replay.peers.values()
        async with everyone(service.address or "", config, "engine") as clients:
            yield clients


async def test_an_env_runner_answers_all() -> None:
    roomy = changed(SETTINGS, sandbox={"episodes": 256})  # for all that is asked, at once
    async with in_this_process(env_runner.run, "env-runner", roomy) as clients:
        await trio.to_thread.run_sync(firing(AT_RUNNER, clients.send))
        for seed in (-(2**63), 2**64 - 1):  # all that the wire can carry
            assert isinstance(await clients.send(protocol.Validate("", seed)), protocol.Verdict)


async def test_an_engine_answers_all(tiny_checkpoint: Path) -> None:
    from spade.policy.model import compute_parameters_digest

    weights = protocol.Weights(1, 0, compute_parameters_digest(tiny_checkpoint), str(tiny_checkpoint))
    async with in_this_process(engine_server.run, "engine", SETTINGS, weights) as clients:
        await trio.to_thread.run_sync(firing(AT_ENGINE, clients.send))


async def test_broken_bytes_move_nothing(tmp_path: Path) -> None:
    """`python -m tests.fuzz.bus`, for five seconds."""
    async with ground(tmp_path) as field:
        report = await attack(field, 5.0, seed=7)
    assert not report.faults, report
    assert report.tallies["replay"]["Refused"] > 1_000
    assert report.tallies["replay"]["dropped"] > 1_000
    assert report.tallies["replay"]["strangers"] > 10
    assert report.tallies["env-runner"]["Faulted"] > 0
