"""The gateway over real sockets: each row of its table, its bounds, and clients that hang up."""

import gzip
import json
import time

import pytest
import trio

from actors.gateway import bodies, routes
from spade.codec import pack_ids
from spade.protocol import Generate, Generated, GiveUp, Overdue
from spade.tokens import Tokenizer
from tests.actors.gateway.clients import Line, gateway_settings, served
from tests.spade.token_shapes import TOOL_SHAPES

TOOL = {"type": "function", "function": {"name": "find", "parameters": {"type": "object", "properties": {}}}}


def silent(_):
    return None


async def test_choices_have_seeds_of_their_own_and_the_same_again(tmp_path, tokenizer):
    async with served(gateway_settings(tmp_path), tokenizer, str.upper) as gateway:
        told = [await gateway.chat("go", seed=7, n=3) for _ in range(2)]
        assert [choice["index"] for choice in told[0]["choices"]] == [0, 1, 2]
        assert told[0]["choices"][0]["message"]["content"].endswith("GO\nASSISTANT\n")
        assert told[0]["choices"][0]["finish_reason"] == "stop"
        seeds = [request.seed for request in gateway.drawn]
        assert 7 in seeds[:3]  # they begin in any order
        assert sorted(seeds[:3]) == sorted(seeds[3:])
        assert len(set(seeds)) == 3
        assert told[0]["usage"] == {"prompt_tokens": 21, "completion_tokens": 3 * 19, "total_tokens": 78}
        assert told[0]["system_fingerprint"] == "3-"


async def test_what_is_asked_reaches_the_engine(tmp_path, tokenizer):
    async with served(gateway_settings(tmp_path), tokenizer, lambda _: "one two three") as gateway:
        told = await gateway.chat("go", temperature=0, top_p=0.5, top_k=-1, stop=["two"], max_completion_tokens=40)
        assert told["choices"][0]["message"]["content"] == "one "
        (asked,) = gateway.drawn
        assert (asked.temperature, asked.top_p, asked.top_k, asked.stop, asked.max_tokens) == (
            0.001, 0.5, 0, ("two",), 40,
        )  # fmt: skip
        await gateway.chat("go")
        assert gateway.drawn[1].max_tokens == 768 - 21
        assert gateway.drawn[1].temperature == 1.0
        told = await gateway.chat("go", max_tokens=3)
        assert told["choices"][0]["finish_reason"] == "length"
        told = await gateway.chat("go" * 500)
        assert told["error"]["code"] == "context_length_exceeded"
        assert (await gateway.chat("go", model="other"))["error"]["code"] == "model_not_found"


async def test_completions_take_and_give_token_ids(tmp_path, tokenizer):
    async with served(gateway_settings(tmp_path), tokenizer, lambda _: "left") as gateway:
        ids = tokenizer.encode("go")
        body = {"prompt": ids, "return_token_ids": True, "logprobs": 1, "stop_token_ids": [*tokenizer.end_ids]}
        choice = (await gateway.post("completions", body)).json()["choices"][0]
        assert choice["text"] == "left"
        assert choice["prompt_token_ids"] == ids
        assert choice["token_ids"] == [*tokenizer.encode("left"), *tokenizer.end_ids]
        assert choice["logprobs"]["token_logprobs"] == [-0.5] * 5
        assert choice["logprobs"]["tokens"] == ["l", "e", "f", "t", "<|im_end|>"]
        assert gateway.drawn[0].max_tokens == 16
        told = (await gateway.post("completions", {"prompt": "go", "max_tokens": 2})).json()
        assert told["choices"][0]["text"] == "le"
        for prompt in ([], "", [10**6], [-1], "go" * 500):
            response = await gateway.post("completions", {"prompt": prompt})
            assert (response.status_code, response.json()["error"]["param"]) == (400, "prompt")
        assert (await gateway.post("completions", {"prompt": ids, "stop_token_ids": [5]})).status_code == 400


EMOJI = "Ö 👩‍👧 日本"


async def test_the_bytes_of_tokens_join_to_the_content(tmp_path, tokenizer):
    async with served(gateway_settings(tmp_path), tokenizer, lambda _: f"{EMOJI}. left") as gateway:
        whole = f"{EMOJI}. left"
        for stop, kept, content in (None, False, whole), ("本", False, EMOJI[:-1]), (". l", True, f"{EMOJI}. l"):
            fields = {"logprobs": True, "stop": stop, "include_stop_str_in_output": kept}
            (choice,) = (await gateway.chat("go", **fields))["choices"]
            tokens = choice["logprobs"]["content"]
            assert choice["message"]["content"] == content
            assert len(tokens) > len(content)
            assert b"".join(bytes(token["bytes"]) for token in tokens).decode() == content
        (choice,) = (await gateway.chat("go", logprobs=True, max_tokens=5))["choices"]  # two bytes of the first emoji
        joined = b"".join(bytes(token["bytes"]) for token in choice["logprobs"]["content"])
        assert joined == EMOJI.encode()[:5]
        assert joined.decode(errors="replace") == choice["message"]["content"]


async def test_text_offsets_count_the_characters_of_the_text(tmp_path, tokenizer):
    async with served(gateway_settings(tmp_path), tokenizer, lambda _: "a👍é!") as gateway:
        (choice,) = (await gateway.post("completions", {"prompt": "go", "logprobs": 1})).json()["choices"]
        assert choice["text"] == "a👍é!"
        assert choice["logprobs"]["text_offset"] == [0, 1, 1, 1, 1, 2, 2, 3, 4]
        assert choice["logprobs"]["tokens"][-1] == "<|im_end|>"


async def test_a_list_of_prompts_is_answered_as_its_prompts_one_by_one(tmp_path, tokenizer):
    async with served(gateway_settings(tmp_path), tokenizer, str.upper) as gateway:
        texts = ["go", "left", "👍"]
        for prompts in texts, [tokenizer.encode(text) for text in texts]:
            fields = {"n": 2, "seed": 7, "return_token_ids": True, "max_tokens": 40}
            told = (await gateway.post("completions", {"prompt": prompts, **fields})).json()
            alone = [(await gateway.post("completions", {"prompt": each, **fields})).json() for each in prompts]
            assert [choice["index"] for choice in told["choices"]] == list(range(6))
            assert [choice["text"] for choice in told["choices"]] == ["GO", "GO", "LEFT", "LEFT", "👍", "👍"]
            for number, one in enumerate(alone):
                drawn = [{**choice, "index": 2 * number + choice["index"]} for choice in one["choices"]]
                assert told["choices"][2 * number : 2 * number + 2] == drawn
            for figure in "prompt_tokens", "completion_tokens", "total_tokens":
                assert told["usage"][figure] == sum(one["usage"][figure] for one in alone)
        streamed = await gateway.post("completions", {"prompt": texts, "stream": True})
        events = [json.loads(line[6:]) for line in streamed.text.split("\n\n")[:-2]]
        assert [event["choices"][0]["index"] for event in events] == [0, 1, 2]


async def test_a_prompt_of_a_list_that_cannot_be_read_is_named_by_its_place(tmp_path, tokenizer):
    async with served(gateway_settings(tmp_path), tokenizer) as gateway:
        for prompts in (["go", ""], [[5], []], [[5], [10**6]], ["go", "go" * 500]):
            error = (await gateway.post("completions", {"prompt": prompts})).json()["error"]
            assert (error["param"], "prompt[1]" in error["message"]) == ("prompt", True)
        assert not gateway.drawn


async def test_an_echo_begins_with_the_prompt(tmp_path, tokenizer):
    async with served(gateway_settings(tmp_path), tokenizer, lambda _: "left") as gateway:
        for prompt in "go 👍: ", tokenizer.encode("go 👍: "):
            (choice,) = (await gateway.post("completions", {"prompt": prompt, "echo": True})).json()["choices"]
            assert choice["text"] == "go 👍: left"


async def test_a_model_is_described_by_its_name(tmp_path, tokenizer):
    settings = gateway_settings(tmp_path, 'serve.name="org/small"')
    async with served(settings, tokenizer) as gateway:
        (listed,) = (await gateway.get("/v1/models")).json()["data"]
        for path in "/v1/models/org/small", "/v1/models/org%2Fsmall":
            assert (await gateway.get(path)).json() == listed
        response = await gateway.get("/v1/models/other")
        assert (response.status_code, response.json()["error"]["code"]) == (404, "model_not_found")
        assert (await gateway.post("models/org/small", {})).status_code == 405


async def test_a_compressed_body_is_refused_by_its_coding(tmp_path, tokenizer):
    async with served(gateway_settings(tmp_path), tokenizer) as gateway:
        body = gzip.compress(json.dumps({"prompt": "go"}).encode())
        response = await gateway.post("completions", body, **{"content-encoding": "gzip"})
        assert response.status_code == 415
        assert "content-encoding gzip: bodies are not decompressed" in response.json()["error"]["message"]
        plain = {"content-encoding": "identity"}
        assert (await gateway.post("completions", {"prompt": "go"}, **plain)).status_code == 200


async def test_tools_are_shown_and_calls_are_read(tmp_path):
    shape = next(shape for shape in TOOL_SHAPES if shape.name == "qwen3-2507")
    shape.build(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    tokenizer = Tokenizer.load(tmp_path)
    words = 'I look.\n<tool_call>\n{"name": "find", "arguments": {"word": "x"}}\n</tool_call>'
    async with served(gateway_settings(tmp_path), tokenizer, lambda _: words) as gateway:
        (choice,) = (await gateway.chat("go", tools=[TOOL]))["choices"]
        assert choice["finish_reason"] == "tool_calls"
        (call,) = choice["message"]["tool_calls"]
        assert choice["message"]["content"] == "I look."
        assert call["type"] == "function"
        assert call["function"] == {"name": "find", "arguments": '{"word": "x"}'}
        (choice,) = (await gateway.chat("go", tools=[TOOL], tool_choice="none"))["choices"]
        assert choice["finish_reason"] == "stop"
        assert choice["message"]["content"] == words.replace("<tool_call>", "<tool_call>")
        assert len(gateway.drawn[1].prompt) < len(gateway.drawn[0].prompt)


async def test_tools_without_a_template_for_them_are_refused(tmp_path, tokenizer):
    async with served(gateway_settings(tmp_path), tokenizer) as gateway:
        error = (await gateway.chat("go", tools=[TOOL]))["error"]
        assert error["param"] == "tools"
        assert "the chat template of small drops the tools" in error["message"]


async def test_a_stream_has_the_whole_answer_and_its_usage(tmp_path, tokenizer):
    async with served(gateway_settings(tmp_path), tokenizer) as gateway:
        body = {"messages": [{"role": "user", "content": "go"}], "n": 2, "stream": True, "logprobs": True}
        response = await gateway.post("chat/completions", {**body, "stream_options": {"include_usage": True}})
        assert response.headers["content-type"] == "text/event-stream"
        *lines, last = [line.removeprefix("data: ") for line in response.text.split("\n\n") if line]
        assert last == "[DONE]"
        chunks = [json.loads(line) for line in lines]
        assert [chunk["choices"][0]["delta"].get("content") for chunk in chunks[:4]] == ["left", None, "left", None]
        assert [chunk["choices"][0]["finish_reason"] for chunk in chunks[:4]] == [None, "stop", None, "stop"]
        assert [token["logprob"] for token in chunks[0]["choices"][0]["logprobs"]["content"]] == [-0.5] * 5
        assert chunks[4]["choices"] == []
        assert chunks[4]["usage"]["completion_tokens"] == 10
        assert len({chunk["id"] for chunk in chunks}) == 1


async def test_a_client_that_hangs_up_frees_its_row(tmp_path, tokenizer):
    async with served(gateway_settings(tmp_path), tokenizer, answer=silent) as gateway:
        with trio.move_on_after(60) as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(gateway.chat, "go")
                await gateway.small.until(lambda: bool(gateway.drawn))
                nursery.cancel_scope.cancel()
            await gateway.small.until(lambda: GiveUp(gateway.drawn[0].name) in gateway.asked)
        assert not scope.cancelled_caught


async def test_a_client_that_closes_its_sending_side_counts_as_gone(tmp_path, tokenizer):
    body = b'{"prompt": "go"}'
    head = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    async with (
        served(gateway_settings(tmp_path), tokenizer, answer=silent) as gateway,
        await trio.open_tcp_stream("127.0.0.1", gateway.port) as stream,
    ):
        await stream.send_all(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        with trio.fail_after(60):
            await gateway.small.until(lambda: bool(gateway.drawn))
            await stream.send_eof()
            await gateway.small.until(lambda: GiveUp(gateway.drawn[0].name) in gateway.asked)
            assert await stream.receive_some() == b""


async def test_a_connection_is_kept_for_any_number_of_requests(tmp_path, tokenizer):
    async with (
        served(gateway_settings(tmp_path), tokenizer) as gateway,
        await trio.open_tcp_stream("127.0.0.1", gateway.port) as stream,
    ):
        line = Line(stream)
        for _ in range(1_002):  # hypercorn's default is 1,000
            assert (await line.ask("completions", {}))[0] == 400


async def test_a_request_with_two_lengths_is_refused_and_its_connection_closed(tmp_path, tokenizer):
    head = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    asked = f"{head}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n"
    said = b""
    async with (
        served(gateway_settings(tmp_path), tokenizer) as gateway,
        await trio.open_tcp_stream("127.0.0.1", gateway.port) as stream,
    ):
        await stream.send_all(asked.encode())
        with trio.fail_after(60):
            while part := await stream.receive_some():
                said += part
    assert said.startswith(b"HTTP/1.1 400 ")
    assert b"not both" in said


async def test_few_long_requests_are_read_at_once(tmp_path, tokenizer, monkeypatch):
    """A body of JSON becomes objects of up to a hundred times its size."""
    active, most = [], []

    def read(*given):
        active.append(given)
        most.append(len(active))
        time.sleep(0.02)
        active.pop()
        return bodies.read(*given)

    monkeypatch.setattr(routes, "read", read)
    async with served(gateway_settings(tmp_path), tokenizer) as gateway, trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(gateway.post, "completions", {"prompt": "go", "odd": ["x" * 20_000]})
    assert (len(most), max(most)) == (8, 2)


async def test_more_than_it_has_room_for_is_told_to_come_later(tmp_path, tokenizer):
    settings = gateway_settings(tmp_path, "engine.rows=1")
    async with served(settings, tokenizer, answer=silent) as gateway, trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(gateway.chat, "go")
        await gateway.small.until(lambda: len(gateway.drawn) == 2)
        response = await gateway.post("chat/completions", {"messages": [{"role": "user", "content": "go"}]})
        assert (response.status_code, response.headers["retry-after"]) == (429, "2")
        nursery.cancel_scope.cancel()


async def test_an_overdue_request_says_where_it_waited(tmp_path, tokenizer):
    async with served(gateway_settings(tmp_path), tokenizer, answer=lambda _: Overdue(3.0, 1.5)) as gateway:
        response = await gateway.post("completions", {"prompt": "go"})
        assert response.status_code == 504
        message = response.json()["error"]["message"]
        assert message == "no answer within 60 s: 3.0 s in the queue of an engine, 1.5 s being sampled"


async def test_a_key_is_asked_for(tmp_path, tokenizer):
    (tmp_path / "key").write_text("open sesame\n")
    settings = gateway_settings(tmp_path, f'serve.key="{tmp_path / "key"}"')
    async with served(settings, tokenizer) as gateway:
        for headers in ({}, {"authorization": "Bearer open"}, {"authorization": "Basic open sesame"}):
            response = await gateway.post("completions", {"prompt": "go"}, **headers)
            assert response.status_code == 401
            assert (await gateway.get("/v1/models", **headers)).status_code == 401
        right = {"authorization": "Bearer open sesame", "host": "models.example"}
        assert (await gateway.post("completions", {"prompt": "go"}, **right)).status_code == 200
        assert (await gateway.get("/health")).status_code == 200
        assert not any(isinstance(each, Generate) for each in gateway.asked[1:])


async def test_routes_methods_and_kinds_of_body(tmp_path, tokenizer):
    async with served(gateway_settings(tmp_path), tokenizer) as gateway:
        (model,) = (await gateway.get("/v1/models")).json()["data"]
        assert (model["id"], model["max_model_len"]) == ("small", 768)
        assert (await gateway.get("/v1/completions")).status_code == 405
        assert (await gateway.post("models", {})).status_code == 405
        assert (await gateway.get("/v1/secrets")).status_code == 404
        assert "'/': no such route" in (await gateway.get("/")).json()["error"]["message"]
        assert (await gateway.get("/v1/models", host="evil.example")).status_code == 403
        assert (await gateway.get("/v1/models", host="[::1]:80")).status_code == 200
        plain = {"content-type": "text/plain"}
        response = await gateway.post("completions", {"prompt": "go"}, **plain)
        assert response.status_code == 415


@pytest.mark.parametrize("say", [Overdue(1.0, 1.0), None], ids=["overdue", "silent"])
async def test_one_choice_that_fails_fails_all_and_the_others_are_given_up(tmp_path, tokenizer, say):
    answers = iter([say or Overdue(1.0, 1.0)])
    async with served(gateway_settings(tmp_path), tokenizer, answer=lambda _: next(answers, None)) as gateway:
        response = await gateway.post("completions", {"prompt": "go", "n": 3})
        assert response.status_code == 504
        await gateway.small.until(lambda: sum(isinstance(each, GiveUp) for each in gateway.asked) == 2)


async def test_an_unforeseen_error_fails_its_request_alone_and_is_counted(tmp_path, tokenizer):
    odd = Generated(pack_ids([5, 6]), b"", (), "stop")  # no engine of ours leaves out log-probabilities
    async with served(gateway_settings(tmp_path), tokenizer, answer=lambda _: odd) as gateway:
        error = (await gateway.chat("go", logprobs=True))["error"]
        assert error["type"] == "server_error"
        assert "Application ended in an unforeseen ValueError" in error["message"]
        assert (await gateway.post("completions", {"prompt": "go"})).status_code == 200

        def counted():
            beats = [beat.gauges for beat in gateway.small.server.heartbeats.values()]
            return any(gauges.get("request_faults") == 1 for gauges in beats)

        with trio.fail_after(60):
            await gateway.small.until(counted)
