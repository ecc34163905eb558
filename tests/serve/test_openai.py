"""Each row of docs/serving.md asked by the OpenAI client, of `spade serve nano-tools` with two engines."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import openai
import pytest

from spade.policy import model_folder
from spade.tokens import Tokenizer
from tests.actors.gateway.clients import free_port
from tests.chaos.processes import children

READY_S = 300
MESSAGES = [{"role": "user", "content": "Order 2 of pen."}]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "order",
            "description": "orders",
            "parameters": {
                "type": "object",
                "properties": {"item": {"type": "string"}, "count": {"type": "integer"}},
                "required": ["item", "count"],
            },
        },
    }
]


class Serving:
    """`spade serve`, and a client of it."""

    def __init__(self, folder: Path) -> None:
        port = free_port()
        words = ("serve", "nano-tools", "--config", "nano-tools", "--port", str(port), "--set", "actors.engines=2")
        self.said = folder / "said"
        with self.said.open("wb") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "spade.app.cli", *words], cwd=folder, stdout=said, stderr=subprocess.STDOUT
            )
        self.client = openai.OpenAI(
            base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0, timeout=READY_S
        )

    def ask(self, **fields):
        fields = {"model": "nano-tools", "messages": MESSAGES, "max_tokens": 16, **fields}
        return self.client.chat.completions.create(**fields)

    def complete(self, **fields):
        return self.client.completions.create(**{"model": "nano-tools", "prompt": "Order", **fields})

    def engines(self) -> list[int]:
        return [
            pid for pid in children(self.process.pid) if b'"role":"engine"' in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]


@pytest.fixture(scope="module")
def serving(tmp_path_factory) -> Iterator[Serving]:
    serving = Serving(tmp_path_factory.mktemp("serve"))
    wait_for(serving)
    yield serving
    serving.process.terminate()
    assert serving.process.wait(READY_S) == 0, serving.said.read_text()


def wait_for(serving: Serving) -> None:
    """Until an engine answers."""
    until = time.monotonic() + READY_S
    while time.monotonic() < until and serving.process.poll() is None:
        try:
            serving.ask(max_tokens=1)
            return
        except (openai.APIConnectionError, openai.InternalServerError):
            time.sleep(0.5)
    raise AssertionError(serving.said.read_text())


def test_the_model_and_its_context(serving):
    (model,) = serving.client.models.list().data
    assert model.id == "nano-tools"
    assert model.max_model_len > 0
    assert serving.client.models.retrieve("nano-tools") == model
    with pytest.raises(openai.NotFoundError):
        serving.client.models.retrieve("other")


def test_a_chat_names_its_weights_and_its_use(serving):
    told = serving.ask(seed=3)
    assert told.system_fingerprint.startswith("1-")
    assert len(told.system_fingerprint) == len("1-") + 32
    assert told.usage.total_tokens == told.usage.prompt_tokens + told.usage.completion_tokens
    assert told.choices[0].finish_reason in ("stop", "length")


def test_the_same_seed_gives_the_same_choices(serving):
    first, again = (serving.ask(seed=11, n=4, temperature=1.0) for _ in range(2))
    assert [each.message.content for each in first.choices] == [each.message.content for each in again.choices]
    assert len({each.message.content for each in serving.ask(seed=12, n=16).choices}) > 1


@pytest.mark.parametrize(
    "fields",
    [
        {"temperature": 0}, {"temperature": 0.5, "top_p": 0.9}, {"extra_body": {"top_k": 5, "min_p": 0}},
        {"max_completion_tokens": 5, "max_tokens": openai.NOT_GIVEN}, {"stop": ["e", "a"]}, {"n": 3},
        {"tools": TOOLS, "tool_choice": "auto"}, {"tools": TOOLS, "tool_choice": "none"},
        {"store": True, "user": "me"}, {"extra_body": {"chat_template_kwargs": {"enable_thinking": False}}},
        {"extra_body": {"colour": "blue"}},
    ],
)  # fmt: skip
def test_what_is_heeded_is_served(serving, fields):
    assert serving.ask(**fields).choices


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("presence_penalty", {"presence_penalty": 0.5}), ("frequency_penalty", {"frequency_penalty": 0.5}),
        ("logit_bias", {"logit_bias": {"5": 1}}), ("response_format", {"response_format": {"type": "json_object"}}),
        ("top_logprobs", {"logprobs": True, "top_logprobs": 2}),
        ("tool_choice", {"tools": TOOLS, "tool_choice": "required"}),
        ("min_p", {"extra_body": {"min_p": 0.1}}), ("reasoning_effort", {"reasoning_effort": "low"}),
        ("parallel_tool_calls", {"tools": TOOLS, "parallel_tool_calls": False}), ("n", {"n": 65}),
        (
            "messages",
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "a"}}]}]},
        ),
    ],
)  # fmt: skip
def test_what_is_not_supported_is_named(serving, name, fields):
    with pytest.raises(openai.BadRequestError) as refused:
        serving.ask(**fields)
    assert refused.value.param == name


def test_logprobs_are_those_of_the_sampled_tokens(serving):
    told = serving.ask(seed=5, logprobs=True)
    content = told.choices[0].logprobs.content
    assert len(content) == told.usage.completion_tokens
    assert all(token.logprob <= 0 for token in content)
    assert b"".join(bytes(token.bytes) for token in content).decode() == told.choices[0].message.content


def test_a_stream_adds_up_to_the_answer(serving):
    whole = serving.ask(seed=5)
    chunks = list(serving.ask(seed=5, stream=True, stream_options={"include_usage": True}))
    texts = [choice.delta.content or "" for chunk in chunks for choice in chunk.choices]
    assert "".join(texts) == whole.choices[0].message.content
    assert chunks[-1].usage == whole.usage
    assert [choice.finish_reason for chunk in chunks for choice in chunk.choices][-1] == whole.choices[0].finish_reason


def test_a_conversation_with_calls_and_results_goes_on(serving):
    called = {"id": "call_1", "type": "function", "function": {"name": "order", "arguments": '{"item": "pen"}'}}
    messages = [
        {"role": "system", "content": "Be brief."},
        *MESSAGES,
        {"role": "assistant", "content": None, "tool_calls": [called]},
        {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "no count"}]},
    ]
    told = serving.ask(messages=messages, tools=TOOLS, n=32, seed=1)
    calls = [call for choice in told.choices for call in choice.message.tool_calls or []]
    assert all(json.loads(call.function.arguments) is not None and call.id for call in calls)
    assert all(choice.finish_reason == "tool_calls" for choice in told.choices if choice.message.tool_calls)
    assert all(isinstance(choice.message.content, str) for choice in told.choices if not choice.message.tool_calls)


def test_completions_of_token_ids(serving):
    tokenizer = Tokenizer.load(model_folder.resolve("nano-tools"))
    ids = tokenizer.encode("Order")
    told = serving.complete(prompt=ids, seed=4, logprobs=1, extra_body={"return_token_ids": True})
    choice = told.choices[0]
    assert choice.prompt_token_ids == ids
    assert len(choice.token_ids) == len(choice.logprobs.token_logprobs) == told.usage.completion_tokens
    assert tokenizer.decode(choice.token_ids) == choice.text
    assert serving.complete(prompt="Order", seed=4).choices[0].text == choice.text


def test_a_list_of_prompts_is_answered_as_its_prompts_one_by_one(serving):
    prompts = ["Order", "Order 2 of pen."]
    told = serving.complete(prompt=prompts, seed=4, n=2, logprobs=1)
    alone = [serving.complete(prompt=prompt, seed=4, n=2).choices for prompt in prompts]
    assert [choice.text for choice in told.choices] == [choice.text for choices in alone for choice in choices]
    assert [choice.index for choice in told.choices] == [0, 1, 2, 3]
    tokenizer = Tokenizer.load(model_folder.resolve("nano-tools"))
    by_ids = serving.complete(prompt=[tokenizer.encode(prompt) for prompt in prompts], seed=4, n=2)
    assert [choice.text for choice in by_ids.choices] == [choice.text for choice in told.choices]
    echoed = serving.complete(prompt=prompts, seed=4, n=2, echo=True)
    assert [choice.text for choice in echoed.choices] == [
        prompts[choice.index // 2] + choice.text for choice in told.choices
    ]


def test_an_answer_of_rare_characters_has_its_bytes_and_offsets(serving):
    """Random tokens of a model of bytes, at a high temperature, hold parts of characters."""
    found = [serving.complete(prompt="👍", temperature=2.0, max_tokens=64, logprobs=1, seed=seed) for seed in range(8)]
    for choice in [told.choices[0] for told in found]:
        places = choice.logprobs.text_offset
        assert places == sorted(places)
        assert all(place <= len(choice.text) for place in places)
        for place, token in zip(places, choice.logprobs.tokens, strict=True):
            if "\ufffd" not in token and "<|" not in token:
                assert choice.text[place : place + len(token)] == token
    for seed in range(8):
        choice = serving.ask(temperature=2.0, max_tokens=64, logprobs=True, seed=seed).choices[0]
        joined = b"".join(bytes(token.bytes) for token in choice.logprobs.content)
        assert joined.decode(errors="replace") == choice.message.content


def test_an_overlong_prompt_is_refused(serving):
    with pytest.raises(openai.BadRequestError) as refused:
        serving.ask(messages=[{"role": "user", "content": "word " * 5000}])
    assert refused.value.code == "context_length_exceeded"


def test_killing_one_of_two_engines_loses_no_request(serving):
    with ThreadPoolExecutor(64) as pool:
        asked = [pool.submit(serving.ask, seed=seed, max_tokens=64) for seed in range(64)]
        os.kill(serving.engines()[0], 9)
        assert all(each.result().choices for each in asked)
