"""Requests of a harness, between its line and a real gateway: sampling by the rules, and each error counted."""

import json

import pytest

from actors.play.voices import server as voices
from actors.play.voices.server import ChatServer
from actors.suites.harnesses.worker import ItemVerdict
from spade.app.evaluation.harnessed import HarnessPlay, ServedPolicy, Voices
from spade.app.evaluation.servers import ServerOptions
from spade.errors import ConfigError
from spade.evaluations import Sampling
from spade.seeds import derive
from tests.actors.gateway.clients import free_port, gateway_settings, served
from tests.actors.small_services import byte_tokenizer

SAMPLING = Sampling(temperature=0.7, top_p=0.8, top_k=20, max_tokens=40)
ASKED = {"messages": [{"role": "user", "content": "go"}], "temperature": 2, "max_tokens": 7, "store": False}
FAILED = ItemVerdict(False, 0.0, "", "the harness gave up")


@pytest.fixture
def tokenizer(tmp_path):
    return byte_tokenizer(tmp_path)


@pytest.fixture
def settings(tmp_path, tokenizer):
    return gateway_settings(tmp_path, "engine.context_tokens=4096")


def talked(server):
    policy = ServedPolicy(server, "small")
    return HarnessPlay(Voices(policy, policy), SAMPLING, 5)


async def test_the_rules_sample_and_not_the_harness(settings, tokenizer):
    async with served(settings, tokenizer) as gateway, ChatServer(url(gateway.port), "", 60) as server:
        talk = talked(server)
        for who in ("agent", "user", "agent"):
            status, body = await talk.answer(who, ASKED)
            assert (status, json.loads(body)["choices"][0]["message"]["content"]) == (200, "left")
    agent, user, again = gateway.drawn
    assert (agent.temperature, agent.top_p, agent.top_k, agent.max_tokens) == (0.7, 0.8, 20, 40)
    assert [each.seed for each in (agent, again)] == [derive(b"", "turn", 5, number) for number in (1, 2)]
    assert (user.seed, user.top_k) == (derive(b"", "user", 5, 1), 0)
    assert (talk.said, talk.finish, talk.sampled, talk.error(ItemVerdict(True, 1.0, "", ""))) == (
        ["left", "left"], "stop", 2 * len("left ") , (None, ""),
    )  # fmt: skip


async def test_a_server_of_its_own_plays_the_users(settings, tokenizer, tmp_path):
    beside = gateway_settings(tmp_path, "engine.context_tokens=4096")
    async with (
        served(settings, tokenizer) as gateway, served(beside, tokenizer, lambda _: "right") as users,
        ChatServer(url(gateway.port), "", 60) as server, ChatServer(url(users.port), "", 60) as other,
    ):  # fmt: skip
        talk = HarnessPlay(Voices(ServedPolicy(server, "small"), ServedPolicy(other, "small")), SAMPLING, 5)
        said = [json.loads((await talk.answer(who, ASKED))[1]) for who in ("user", "agent")]
    assert [each["choices"][0]["message"]["content"] for each in said] == ["right", "left"]
    assert [len(each.drawn) for each in (gateway, users)] == [1, 1]
    assert talk.said == ["left"]


def test_a_key_or_a_model_of_no_server_is_refused():
    for model, key in (("m", ""), ("", "file")):
        with pytest.raises(ConfigError, match=r"^--user-url: is missing"):
            ServerOptions.typed("--user-url", "", model, key)
    assert ServerOptions.typed("--user-url", "", "", "") is None


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("ftp://a/v1", "write http://HOST:PORT/v1 instead of 'ftp://a/v1'"),
        ("http://a\x1b[2J\n/v1", r"write http://HOST:PORT/v1 instead of 'http://a\\x1b[2J\\n/v1'"),
        ("http://a/\udcff", r"write http://HOST:PORT/v1 instead of 'http://a/\\udcff'"),
        (f"http://a/{'b' * 2_000}", "write http://HOST:PORT/v1 instead of 'http://a/bbb"),
        (f"http://{'a' * 99}/v1", "http://aaa"),
        ("http://a..b/v1", "http://a..b/v1: encoding with 'idna' codec failed"),
        ("http://127.0.0.1:x/v1", "http://127.0.0.1:x/v1: Invalid port"),
    ],
)  # fmt: skip
def test_a_url_that_is_none_is_one_line(typed, told):
    with pytest.raises(ConfigError) as refused:
        ServerOptions(typed, "", "").found("--user-url")
    assert str(refused.value).startswith(f"--user-url: {told}")
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 400


async def test_a_first_prompt_that_does_not_fit_is_the_policys(settings, tokenizer):
    async with served(settings, tokenizer) as gateway, ChatServer(url(gateway.port), "", 60) as server:
        talk = talked(server)
        status, _ = await talk.answer("agent", {"messages": [{"role": "user", "content": "word " * 20_000}]})
        assert (status, talk.error(FAILED)[0]) == (400, "unfit")
        late = talked(server)
        await late.answer("agent", ASKED)
        await late.answer("agent", {"messages": [{"role": "user", "content": "word " * 20_000}]})
        assert late.error(FAILED) == (None, "")


async def test_a_server_that_fails_is_told_whatever_the_harness_makes_of_it(settings, tokenizer, monkeypatch):
    monkeypatch.setattr(voices, "_WAITS_S", (0, 0, 0))
    async with ChatServer(url(free_port()), "", 60) as server:
        talk = talked(server)
        assert (await talk.answer("user", ASKED))[0] == 500
        kind, why = talk.error(ItemVerdict(True, 1.0, "", ""))
        assert kind == "server"
        assert why.startswith("user: http://127.0.0.1:")
    async with served(settings, tokenizer) as gateway, ChatServer(url(gateway.port), "", 60) as server:
        refused = talked(server)
        tools = [{"type": "function", "function": {"name": "find"}}]
        assert (await refused.answer("agent", {**ASKED, "tools": tools}))[0] == 500
        assert "drops the tools" in refused.error(FAILED)[1]
        assert (await refused.answer("agent", ASKED))[0] == 500  # nothing more is sampled for it
        assert gateway.drawn == []


async def test_a_harness_that_fails_by_itself_is_its_error(settings, tokenizer):
    async with ChatServer(url(free_port()), "", 60) as server:
        assert talked(server).error(FAILED) == ("harness", "the harness gave up")


def url(port):
    return f"http://127.0.0.1:{port}/v1"
