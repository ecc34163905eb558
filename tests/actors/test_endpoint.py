"""Engines of someone else's: what they lack, how they fail, and that nothing they sample is trained on."""

import socket
from contextlib import closing
from functools import partial

import pytest

from actors import designer, env_runner
from actors.engines import endpoint
from actors.engines.endpoint import EndpointEngine
from actors.engines.torch import TorchEngine
from actors.rollout import TrajectoryBuilder
from spade.codec import pack_ids, unpack_ids
from spade.config import Config, Endpoint, Engine, load
from spade.errors import BusError, ConfigError
from spade.policy.model import parameters_digest
from spade.protocol import DesignJob, Generate, Refused, RejectCandidate, Weights
from spade.tokens import Tokenizer
from tests.actors.completions_server import completions
from tests.actors.engine_contract import answers
from tests.actors.small_services import SmallReplay, process, small_replay

ONE = Generate(pack_ids([5, 6, 7]), 8, 1.0, 3)


@pytest.fixture
def tokenizer(tiny_checkpoint):
    return Tokenizer.load(tiny_checkpoint)


@pytest.fixture
def engine_of(tiny_checkpoint):
    weights = Weights(1, 0, parameters_digest(tiny_checkpoint), str(tiny_checkpoint))
    return partial(TorchEngine, weights, rows=4, kv_bytes=1 << 28, dtype="float32", device="cpu")


@pytest.fixture
def served(engine_of):
    return engine_of(context_tokens=64)


@pytest.fixture
def server_of(engine_of, tokenizer):
    return lambda context: completions(engine_of(context_tokens=context), tokenizer)


def settings(url, deadline_s=60.0, **endpoint):
    engine = Engine(rows=4, context_tokens=64, request_deadline_s=deadline_s)
    return Config(engine=engine, endpoint=Endpoint(url=url, **endpoint))


def test_its_samples_are_of_no_version_and_not_trained(served, tokenizer):
    with completions(served, tokenizer) as server, closing(EndpointEngine(settings(server.url), tokenizer)) as engine:
        generated = answers(engine, [ONE])[0]
        (asked,) = server.asked
    assert engine.version == 0
    assert generated.versions == ()
    assert len(generated.logprobs) == len(generated.ids)
    assert (asked["model"], asked["prompt"], asked["seed"]) == ("nano", [5, 6, 7], 3)
    builder = TrajectoryBuilder(1.0)
    builder.read([5, 6, 7])
    builder.sampled(generated)
    trajectory = builder.trajectory()
    assert trajectory.ids == ONE.prompt + generated.ids, "it is the next prompt all the same"
    assert (trajectory.sampled, trajectory.versions) == (0, ())


def test_a_server_that_returns_text_alone_will_do(served, tokenizer):
    with (
        completions(served, tokenizer, with_ids=False) as server,
        closing(EndpointEngine(settings(server.url), tokenizer)) as engine,
    ):
        generated = answers(engine, [ONE])[0]
    expected = answers(served, [ONE])[0]
    text = tokenizer.decode(unpack_ids(expected.ids).tolist())
    assert tokenizer.decode(unpack_ids(generated.ids).tolist()) == text
    assert generated.logprobs == b""


def test_the_key_is_read_from_its_file(served, tokenizer, tmp_path):
    (tmp_path / "key").write_text("open sesame\n")
    with completions(served, tokenizer, key="open sesame") as server:
        with closing(EndpointEngine(settings(server.url, key=str(tmp_path / "key")), tokenizer)) as engine:
            assert len(answers(engine, [ONE])[0].ids)
        with pytest.raises(ConfigError, match=r"endpoint.url, endpoint.key: http.* answers 401"):
            EndpointEngine(settings(server.url), tokenizer)
        with pytest.raises(ConfigError, match=r"endpoint.key: .*/none: No such file"):
            EndpointEngine(settings(server.url, key=str(tmp_path / "none")), tokenizer)
        with pytest.raises(ConfigError, match=r"endpoint.model: .* serves nano; name one of these"):
            EndpointEngine(settings(server.url, key=str(tmp_path / "key"), model="other"), tokenizer)


def test_a_server_that_is_gone_or_too_slow_is_one_clear_line(served, tokenizer):
    with completions(served, tokenizer) as server:
        engine = EndpointEngine(settings(server.url), tokenizer)
    with closing(engine):
        assert "Connection refused" in refusal_of(engine)
    with pytest.raises(BusError, match="Connection refused"):
        EndpointEngine(settings(server.url), tokenizer)
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}/v1"
        with pytest.raises(BusError, match=r"gives no answer within 0\.2 s"):
            EndpointEngine(settings(url, deadline_s=0.2), tokenizer)


def refusal_of(engine):
    engine.submit(0, ONE)
    while engine.busy:
        for _, result in engine.step():
            assert isinstance(result, Refused)
            return result.reason


def test_who_asks_no_longer_ends_the_exchange(served, tokenizer, monkeypatch):
    """Else a request that takes long would hold one of few threads for nobody."""
    with completions(served, tokenizer) as server:
        engine = EndpointEngine(settings(server.url, deadline_s=60.0), tokenizer)
        with closing(engine), server.sampler.changed:  # the sampler stands still
            for index in range(4):
                engine.submit(index, ONE)
            while engine.active < 4:
                assert engine.step() == []
            for index in range(4):
                engine.cancel(index)
            while engine.active:
                assert engine.step() == []
        assert not engine.busy


async def test_a_designer_with_an_endpoint_asks_no_engine(tiny_checkpoint, server_of):
    small = SmallReplay(jobs=[DesignJob("j0", 1, 0, "logical deduction", draw=0, sampler=77)])
    with server_of(context=4_000) as server:
        settings = load(
            "nano",
            (
                f"model.path={str(tiny_checkpoint)!r}",
                f"endpoint.url={server.url}",
                "design.max_tokens=40",
                "engine.context_tokens=4000",
                "bus.heartbeat_s=0.1",
                "bus.silence_s=3.0",
            ),
        )
        async with (
            small_replay(small, settings) as replay,
            process(env_runner.run, "env-runner", replay, settings),
            process(endpoint.run, "endpoint", replay, settings),
            process(designer.run, "designer", replay, settings),
        ):
            await small.until_done(1)
    (rejected,) = small.done
    assert isinstance(rejected, RejectCandidate)
    assert rejected.completion
    assert (rejected.trajectory.sampled, rejected.trajectory.versions) == (0, ())
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("override", "reason"),
    [
        ("endpoint.url=localhost:8000", "write http://HOST:PORT/v1"),
        ("endpoint.roles=['designer', 'agent']", "nothing would ever be trained"),
        ("endpoint.roles=['learner']", "endpoint.roles"),
        ("engine.tensor_parallel=2", "take engine.kind=vllm"),
    ],
)
def test_settings_that_cannot_work_are_refused(override, reason):
    with pytest.raises(ConfigError, match=reason):
        load("nano", ("endpoint.url=http://127.0.0.1:8000/v1", override))
