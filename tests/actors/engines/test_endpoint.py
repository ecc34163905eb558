"""Engines of someone else's: what they lack, how they fail, and that nothing they sample is trained on."""

import gzip
import socket
import struct
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from actors.engines.foreign import endpoint
from actors.engines.foreign.endpoint import EndpointEngine
from actors.engines.torch.engine import TorchEngine
from actors.environments import runner as env_runner
from actors.roles import designer
from actors.text.trajectory import TrajectoryBuilder
from spade.codec import pack_ids, unpack_ids
from spade.config import Config, Endpoint, Engine, load
from spade.errors import BusError, ConfigError
from spade.openai_api import OpenAIClient
from spade.policy.model import compute_parameters_digest
from spade.protocol import DesignJob, Generate, Refused, Weights
from spade.tokens import Tokenizer
from tests.actors.engines.completions_server import completions
from tests.actors.engines.engine_contract import answers
from tests.actors.small_services import SmallReplay, actor_settings, process, small_replay

ONE = Generate(pack_ids([5, 6, 7]), 8, 1.0, 3)


@pytest.fixture
def tokenizer(tiny_checkpoint):
    return Tokenizer.load(tiny_checkpoint)


@pytest.fixture
def engine_of(tiny_checkpoint):
    weights = Weights(1, 0, compute_parameters_digest(tiny_checkpoint), str(tiny_checkpoint))

    def of(context_tokens):
        settings = Engine(rows=4, context_tokens=context_tokens, kv_bytes=1 << 28, device="cpu")
        return TorchEngine(weights, settings, "float32")

    return of


@pytest.fixture
def served(engine_of):
    return engine_of(64)


@pytest.fixture
def server_of(engine_of, tokenizer):
    return lambda context: completions(engine_of(context), tokenizer)


@pytest.fixture
def server(served, tokenizer):
    with completions(served, tokenizer) as server:
        yield server


@pytest.fixture
def engine(server, tokenizer):
    with closing(EndpointEngine(settings(server.url), tokenizer)) as engine:
        yield engine


def settings(url, deadline_s=60.0, **endpoint):
    engine = Engine(rows=4, context_tokens=64, request_deadline_s=deadline_s)
    return Config(engine=engine, endpoint=Endpoint(url=url, **endpoint))


def test_its_samples_are_of_no_version_and_not_trained(server, engine):
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
    assert unpack_ids(generated.ids).tolist() == tokenizer.encode(text)[: ONE.max_tokens]
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
        with pytest.raises(ConfigError, match=r"endpoint.model: .* serves nano;"):
            EndpointEngine(settings(server.url, key=str(tmp_path / "key"), model="other"), tokenizer)


def test_a_server_that_is_gone_or_too_slow_is_one_clear_line(served, tokenizer):
    with completions(served, tokenizer) as server:
        engine = EndpointEngine(settings(server.url), tokenizer)
    with closing(engine):
        assert "connection attempts failed" in refusal_of(engine)
    with pytest.raises(BusError, match="connection attempts failed"):
        EndpointEngine(settings(server.url), tokenizer)
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}/v1"
        with pytest.raises(BusError, match=r"gives no answer within 0\.2 s"):
            EndpointEngine(settings(url, deadline_s=0.2), tokenizer)


@pytest.mark.parametrize(("status", "body", "reason"), [
    (200, b'{"choices": []}', "with no choice"),
    (200, b'{"choices": [{"text": ""}]}', "with no token"),
    (200, b'{"choices": [{"token_ids": [1, 2', "does not speak OpenAI's completions API"),
    (200, b'{"choices": [{"token_ids": [5, 99999]}]}', "token ids that model.path's"),
    (200, b'{"choices": [{"token_ids": [5, 9223372036854775807]}]}', "token ids that model.path's"),
    (200, b'{"choices": [{"token_ids": [5, -1]}]}', "token ids that model.path's"),
    (200, b'{"choices": [{"token_ids": [5, 5, 5, 5, 5, 5, 5, 5, 5]}]}', "9 tokens, more than max_tokens = 8"),
    (200, b'{"choices": [{"token_ids": [5], "prompt_token_ids": [5]}]}', "changes the prompt's token ids"),
    (200, b'{"choices": null}', "does not speak OpenAI's completions API"),
    (429, b"slow down", "answers 429: slow down"),
    (500, b"\xff\n oops", "answers 500"),
    (307, b"", "answers 307"),
])  # fmt: skip
def test_a_bad_answer_is_one_clear_line_and_no_end_of_the_engine(server, engine, status, body, reason):
    server.fixed = status, body
    assert reason in refusal_of(engine)
    server.fixed = None
    assert len(answers(engine, [ONE])[0].ids)


@pytest.mark.parametrize("logprobs", [b"null", b'{"token_logprobs": [null, -0.5]}', b'{"token_logprobs": [-0.5]}'])
def test_log_probabilities_that_are_not_those_of_the_tokens_are_none(server, engine, logprobs):
    server.fixed = 200, b'{"choices": [{"token_ids": [5, 6], "logprobs": %s}]}' % logprobs
    generated = answers(engine, [ONE])[0]
    assert (unpack_ids(generated.ids).tolist(), generated.logprobs) == ([5, 6], b"")


@pytest.mark.parametrize("value", [b"1e300", b"-1e39"])
def test_log_probabilities_that_are_no_float32_are_none(server, engine, value):
    """As infinities the replay service would refuse all that was made with them."""
    server.fixed = 200, b'{"choices": [{"token_ids": [5], "logprobs": {"token_logprobs": [%s]}}]}' % value
    assert answers(engine, [ONE])[0].logprobs == b""


def test_a_text_is_read_up_to_the_tokens_that_were_asked_for(server, engine, tokenizer):
    """Encoding takes time, in which no deadline holds: minutes for the longest answer."""
    text = "the door is open. " * 20_000
    server.fixed = 200, b'{"choices": [{"text": "%s", "finish_reason": "stop"}]}' % text.encode()
    generated = answers(engine, [ONE])[0]
    assert (unpack_ids(generated.ids).tolist(), generated.finish) == (tokenizer.encode(text)[:8], "length")


def test_a_connection_that_is_reset_says_so(tokenizer):
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor() as threads:
        threads.submit(reset_one, server)
        url = f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        with pytest.raises(BusError, match=f"{url}: ReadError"):
            EndpointEngine(settings(url), tokenizer)


def reset_one(server):
    connection, _ = server.accept()
    with connection:
        connection.recv(65_536)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def test_an_answer_is_read_up_to_a_bound_and_to_its_end(server, engine, monkeypatch):
    monkeypatch.setattr(OpenAIClient, "most_bytes", 1_000)
    server.fixed = 200, bytes(1_001)
    assert "answers with more than 1000 bytes" in refusal_of(engine)
    server.fixed, server.promised = (200, b'{"choices": []}'), 100
    assert "received 15 bytes, expected 100" in refusal_of(engine)


def test_an_answer_that_trickles_in_is_too_slow(served, tokenizer):
    """Each byte comes in time, the answer does not."""
    with completions(served, tokenizer) as server:
        engine = EndpointEngine(settings(server.url, deadline_s=0.3), tokenizer)
        with closing(engine):
            server.fixed, server.pause_s = (200, bytes(1_000)), 0.02
            assert "gives no answer within 0.3 s" in refusal_of(engine)


def test_a_place_to_be_sent_on_to_is_not_followed(served, tokenizer):
    """Neither with the request nor with its key."""
    with completions(served, tokenizer) as server, closing(EndpointEngine(settings(server.url), tokenizer)) as engine:
        server.fixed, server.headers = (307, b""), {"Location": f"{server.url}/completions", "Set-Cookie": "\x01"}
        assert "answers 307" in refusal_of(engine)
        assert len(server.asked) == 1


def test_a_compressed_answer_is_not_unpacked(served, tokenizer):
    """A little of it may be more than there is memory for."""
    with completions(served, tokenizer) as server, closing(EndpointEngine(settings(server.url), tokenizer)) as engine:
        server.fixed, server.headers = (200, gzip.compress(b'{"choices": []}')), {"Content-Encoding": "gzip"}
        assert "does not speak OpenAI's completions API" in refusal_of(engine)


def test_a_server_that_is_too_busy_at_the_start_is_asked_again_later(served, tokenizer):
    """By the next process: an error of configuration would end the run."""
    with completions(served, tokenizer) as server:
        server.fixed = 429, b"slow down"
        with pytest.raises(BusError, match="answers 429: slow down"):
            EndpointEngine(settings(server.url), tokenizer)


@pytest.mark.parametrize("content", [b"two\nlines", "schlüssel".encode(), b"\xff"])
def test_a_file_that_holds_no_key_is_one_clear_line(tokenizer, tmp_path, content):
    (tmp_path / "key").write_bytes(content)
    with pytest.raises(ConfigError, match=r"^endpoint\.key: .*/key: "):
        EndpointEngine(settings("http://127.0.0.1:9/v1", key=str(tmp_path / "key")), tokenizer)


def refusal_of(engine):
    engine.submit(0, ONE)
    while engine.busy:
        for _, result in engine.step():
            assert isinstance(result, Refused)
            return result.reason


def test_a_cancelled_caller_ends_the_exchange(served, tokenizer, monkeypatch):
    """Else a request that takes long would hold one of few rows for nobody."""
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
        chosen = f"endpoint.url={server.url}", "design.max_tokens=40", "engine.context_tokens=4000"
        settings = actor_settings(tiny_checkpoint, *chosen)
        async with (
            small_replay(small, settings) as replay,
            process(env_runner.run, "env-runner", replay, settings),
            process(endpoint.run, "endpoint", replay, settings),
            process(designer.run, "designer", replay, settings),
        ):
            await small.until_done(1)
    (rejected,) = small.done
    assert rejected.completion
    assert (rejected.trajectory.sampled, rejected.trajectory.versions) == (0, ())
    assert len(server.asked) == 1


@pytest.mark.parametrize(("override", "reason"), [
    ("endpoint.url=localhost:8000", "write http://HOST:PORT/v1"),
    ("endpoint.url=http://localhost:port/v1", "write http://HOST:PORT/v1"),
    ("endpoint.url=http://[::1/v1", "write http://HOST:PORT/v1"),
    ("endpoint.url=http:///v1", "write http://HOST:PORT/v1"),
    ("endpoint.roles=['designer', 'agent']", "nothing would be trained"),
    ("endpoint.roles=['learner']", "endpoint.roles"),
    ("engine.tensor_parallel=2", "take engine.kind=vllm"),
])  # fmt: skip
def test_settings_that_cannot_work_are_refused(override, reason):
    with pytest.raises(ConfigError, match=reason):
        load("nano", ("endpoint.url=http://127.0.0.1:8000/v1", override))


def test_agents_may_not_sample_elsewhere_where_designs_are_not_trained():
    elsewhere = ("endpoint.url=http://127.0.0.1:8000/v1", "endpoint.roles=['agent']")
    assert load("nano", elsewhere).design.train
    with pytest.raises(ConfigError, match=r"design\.train = false, so nothing would be trained"):
        load("nano", (*elsewhere, "design.train=false"))


def test_an_endpoint_may_not_sample_for_the_evaluations_of_a_run():
    """Its tokens have no version, so each of these evaluations would be dropped."""
    elsewhere = ("endpoint.url=http://127.0.0.1:8000/v1", "endpoint.roles=['designer', 'evaluator']")
    assert load("nano", (*elsewhere, "evaluation.suite=")).endpoint.serves("evaluator")
    with pytest.raises(ConfigError, match=r"^endpoint\.roles: .* measures the run's policy"):
        load("nano", (*elsewhere, "evaluation.suite=folder:somewhere"))
