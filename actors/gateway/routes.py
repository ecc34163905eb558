"""The routes of the API: from a request's body to the bytes of its answer. The rest of HTTP is not handled here."""

import logging
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import msgspec
import trio

from actors.gateway import answers
from actors.gateway.bodies import Body, ChatBody, ClientTool, CompletionBody, convert_seed, read
from actors.gateway.chats import collect_schemas, convert_chat, cut_at_stops, parse_answer
from actors.gateway.errors import AskError, make_bad_request_error
from actors.gateway.sampler import Draw, Sampler
from actors.text.toolcalls import Dialect
from spade.codec import unpack_ids
from spade.decoding import UnreadableError
from spade.protocol import Generated
from spade.text import as_line
from spade.tokens import LONG_TEXT, THINK, THOUGHT, ChatPrompt, Tokenizer
from spade.tokens.pieces import clip

log = logging.getLogger(__name__)

T = TypeVar("T")
AnyBody = ChatBody | CompletionBody

_DEFAULT_TOKENS = 16  # OpenAI's default for `max_tokens` of a completion
_MOST_LOGGED = 64  # names of ignored fields, each of which is logged once
_LONG_AT_ONCE = 2  # long requests that are parsed at the same time; parsing 8 MiB may take half a GiB of memory
_SHOWN = 60
JSON, EVENTS = "application/json", "text/event-stream"


class ResponseBody(NamedTuple):
    """The body of an answer, and its media type."""

    body: bytes
    kind: str = JSON


class ServedModel(NamedTuple):
    """The model as clients know it."""

    name: str
    tokenizer: Tokenizer
    dialect: Dialect | None
    """The format in which the model writes calls; None if its template does not show tools."""
    toolless: str
    """The reason why the template does not show tools. "" if it shows tools."""


class CompletionPrompt(NamedTuple):
    """A prompt of a completion."""

    place: str
    """The prompt's name in error messages."""
    ids: list[int]
    text: str | None
    """The text as the client wrote it. None if the client sent token ids."""


class Routes:
    """The API of one model."""

    def __init__(self, served: ServedModel, sampler: Sampler) -> None:
        self._served = served
        self._tokenizer = served.tokenizer
        self._sampler = sampler
        self._since = time.time()
        self._reading = trio.CapacityLimiter(_LONG_AT_ONCE)
        self._logged: set[str] = set()

    def models(self) -> ResponseBody:
        """List the one model that is served."""
        return as_json({"object": "list", "data": [self._describe_model()]})

    def model(self, name: str) -> ResponseBody:
        """Describe the model of this name. Raises AskError if another one is served."""
        self._check_name(name)
        return as_json(self._describe_model())

    def _describe_model(self) -> answers.Json:
        """Describe the model that is served, with the length of its context."""
        return {
            "id": self._served.name, "object": "model", "created": int(self._since), "owned_by": "spade",
            "max_model_len": self._sampler.context_tokens,
        }  # fmt: skip

    def _check_name(self, name: str) -> None:
        """Raise AskError unless the model of this name is served."""
        if name != self._served.name:
            shown = as_line(name, _SHOWN)
            raise AskError(404, f"no model {shown!r} here; there is {self._served.name}", "model", "model_not_found")

    def health(self) -> ResponseBody:
        """Report health. Raises AskError while no engine answers."""
        if not self._sampler.answering:
            raise AskError(503, "no engine answers")
        return ResponseBody(b"{}")

    async def chat(self, data: bytes) -> ResponseBody:
        """Answer a chat. Raises AskError."""
        body, offered, prompt = await self._run_aside(len(data), lambda: self._read_chat(data))
        most = body.max_completion_tokens if body.max_completion_tokens is not None else body.max_tokens
        (drawn,) = await self._sampler.draw([self._draw(body, prompt.ids, most, "messages")])
        choices = [
            self._make_chat_choice(index, body, offered, prompt.opens, answer) for index, answer in enumerate(drawn)
        ]
        heading = answers.AnswerHeader.new("chatcmpl", "chat.completion", self._served.name, time.time())
        used, weights = answers.count_usage(len(prompt.ids), drawn), answers.format_weights(drawn)
        if body.stream:
            chunks = answers.stream_chat(heading, weights, choices, used if body.usage_streamed else None)
            return ResponseBody(answers.format_events(chunks), EVENTS)
        return as_json(heading.body(weights, choices=choices, usage=used))

    async def completions(self, data: bytes) -> ResponseBody:
        """Complete texts, or lists of token ids. Raises AskError."""
        body, prompts = await self._run_aside(len(data), lambda: self._read_completion(data))
        most = _DEFAULT_TOKENS if body.max_tokens is None else body.max_tokens
        drawn = await self._sampler.draw([self._draw(body, prompt.ids, most, prompt.place) for prompt in prompts])
        every = [(prompt, answer) for prompt, found in zip(prompts, drawn, strict=True) for answer in found]
        choices = [self._make_completion(index, body, prompt, answer) for index, (prompt, answer) in enumerate(every)]
        heading = answers.AnswerHeader.new("cmpl", "text_completion", self._served.name, time.time())
        sampled = [answer for _, answer in every]
        used, weights = (
            answers.count_usage(sum(len(each.ids) for each in prompts), sampled),
            answers.format_weights(sampled),
        )
        if body.stream:
            chunks = answers.stream_completion(heading, weights, choices, used if body.usage_streamed else None)
            return ResponseBody(answers.format_events(chunks), EVENTS)
        return as_json(heading.body(weights, choices=choices, usage=used))

    def _read_chat(self, data: bytes) -> tuple[ChatBody, list[ClientTool], ChatPrompt]:
        body = self._read_body(data, ChatBody)
        offered = self._list_offered(body)
        return body, offered, self._render_prompt(body, offered)

    def _read_completion(self, data: bytes) -> tuple[CompletionBody, list[CompletionPrompt]]:
        body = self._read_body(data, CompletionBody)
        prompts = body.prompts()
        places = ["prompt"] if len(prompts) == 1 else [f"prompt[{index}]" for index in range(len(prompts))]
        return body, [
            self._read_completion_prompt(place, prompt) for place, prompt in zip(places, prompts, strict=True)
        ]

    def _read_body(self, data: bytes, kind: type[Body]) -> Body:
        """Read a body. Raises AskError if it asks for anything that is not served."""
        body, ignored = read(data, kind)
        for name in ignored:
            if name not in self._logged and len(self._logged) < _MOST_LOGGED:
                self._logged.add(name)
                log.info("the field %s of a request is ignored", name)
        if body.model:
            self._check_name(body.model)
        if set(body.stop_token_ids or ()) - self._tokenizer.end_ids:
            raise make_bad_request_error(
                "stop_token_ids: only the model's own end-of-turn tokens are supported", "stop_token_ids"
            )
        return body

    def _list_offered(self, body: ChatBody) -> list[ClientTool]:
        """Return the tools that the model may call. Raises AskError."""
        offered = [] if body.tool_choice == "none" else body.tools or []
        if offered and self._served.dialect is None:
            raise make_bad_request_error(f"tools: {self._served.toolless}", "tools")
        return offered

    def _render_prompt(self, body: ChatBody, offered: list[ClientTool]) -> ChatPrompt:
        try:
            return self._tokenizer.chat_prompt(convert_chat(body, offered), self._sampler.context_tokens)
        except UnreadableError as error:
            raise make_bad_request_error(str(error), "messages") from None

    def _read_completion_prompt(self, place: str, prompt: str | list[int]) -> CompletionPrompt:
        """Read the prompt of a completion. Raises AskError."""
        longest = self._sampler.context_tokens
        ids = self._tokenizer.encode(prompt, longest) if isinstance(prompt, str) else prompt
        if not ids:
            raise make_bad_request_error(f"{place}: is empty", "prompt")
        if not 0 <= min(ids) <= max(ids) < self._tokenizer.size:
            raise make_bad_request_error(f"{place}: a token id must be 0 to {self._tokenizer.size - 1}", "prompt")
        return CompletionPrompt(place, ids, prompt if isinstance(prompt, str) else None)

    def _draw(self, body: AnyBody, prompt: list[int], most: int | None, place: str) -> Draw:
        """Build the request for the answers to one prompt. Raises AskError if it does not fit into the context."""
        return Draw(
            prompt=prompt,
            max_tokens=self._sampler.room(len(prompt), most, place),
            temperature=self._sampler.temperature(body.temperature),
            top_p=1.0 if body.top_p is None else body.top_p,
            top_k=max(body.top_k or 0, 0),  # 0 and -1 mean all tokens
            seed=None if body.seed is None else convert_seed(body.seed),
            stops=body.stops,
            n=body.n or 1,
        )

    def _make_chat_choice(
        self, index: int, body: ChatBody, offered: list[ClientTool], opened: bool, answer: Generated
    ) -> answers.Json:
        dialect = self._served.dialect if offered else None
        marks = dialect.marks if dialect else ()
        keep = (*marks, THINK, THOUGHT)
        text = self._read_text(body, answer, keep)
        logprobs = None
        if body.logprobs:
            logprobs = answers.list_chat_logprobs(self._tokenizer, answer, self._list_pieces(body, answer, keep))
        return answers.make_chat_choice(
            index, parse_answer(text, opened, dialect, collect_schemas(offered)), answer, logprobs
        )

    def _make_completion(
        self, index: int, body: CompletionBody, prompt: CompletionPrompt, answer: Generated
    ) -> answers.Json:
        before = (self._tokenizer.decode(prompt.ids) if prompt.text is None else prompt.text) if body.echo else ""
        logprobs = None
        if body.logprobs is not None:
            logprobs = answers.list_completion_logprobs(self._tokenizer, answer, self._list_pieces(body, answer))
        text = before + self._read_text(body, answer)
        choice = {"index": index, "text": text, "logprobs": logprobs, "finish_reason": answer.finish}
        if body.return_token_ids:
            choice |= {"token_ids": unpack_ids(answer.ids).tolist(), "prompt_token_ids": prompt.ids}
        return choice

    def _read_text(self, body: AnyBody, answer: Generated, keep: Sequence[str] = ()) -> str:
        """Return the text of an answer, before its stop string."""
        text = self._tokenizer.decode(unpack_ids(answer.ids).tolist(), keep)
        return cut_at_stops(text, body.stops, keep=bool(body.include_stop_str_in_output))

    def _list_pieces(self, body: AnyBody, answer: Generated, keep: Sequence[str] = ()) -> list[bytes]:
        """Return the bytes that each token of an answer adds to its text."""
        pieces = self._tokenizer.pieces(unpack_ids(answer.ids).tolist(), keep)
        return clip(pieces, len(self._read_text(body, answer, keep)))

    async def _run_aside(self, length: int, work: Callable[[], T]) -> T:
        """Run `work`. If its body of `length` bytes is long, run it in a thread, so that the event loop goes on."""
        return work() if length <= LONG_TEXT else await trio.to_thread.run_sync(work, limiter=self._reading)


def as_json(body: answers.Json) -> ResponseBody:
    """Return an answer of JSON."""
    return ResponseBody(msgspec.json.encode(body))
