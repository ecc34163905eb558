"""Play suites that a harness drives. The harness sends requests; this module samples, counts and records.

A harness writes the messages of a request and offers the tools. The rules of an evaluation decide sampling and seeds.
This module notes an error when it answers a request, because a harness may hide the error and score the rest.
"""

import os
from collections import Counter
from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import trio

from actors.play.voices.chats import ChatAnswer, make_sampling_fields
from actors.play.voices.server import ChatServer
from actors.suites.harnesses.worker import HarnessError, ItemVerdict, Worker, start_worker
from spade.app.evaluation.planned import Missing, PlannedEvaluation, Say, report_progress, show_samples
from spade.app.evaluation.servers import ServerOptions
from spade.config import Config
from spade.evaluations import ErrorKind, RecordFile, SampleRecord, Sampling, sample_seed
from spade.openai_api import ServerError, parse_answer
from spade.seeds import derive
from spade.text import as_line

MOST_FAILURES = 2
"""After this many exits or timeouts of harness processes during one sample, an error is recorded for the sample."""
_FIELDS = ("role", "content", "tool_calls", "tool_call_id", "name", "reasoning_content")
_DETAIL = 800  # characters
_A_CORE = 2  # processes of a harness for each core, because they wait most of the time
_USER = Sampling(temperature=0.0, max_tokens=2_048)


class ServedPolicy(NamedTuple):
    """A model on a server."""

    server: ChatServer
    """The server."""

    model: str
    """The model's name on the server."""


class Voices(NamedTuple):
    """The models that a harness may ask."""

    agent: ServedPolicy
    """The measured policy."""

    user: ServedPolicy
    """The model that plays the users."""


class HarnessPlay:
    """One play of a harness. Answers the harness's requests, and keeps what the play's record needs."""

    def __init__(self, voices: Voices, sampling: Sampling, seed: int) -> None:
        self._voices = voices
        self._sampling = sampling
        self._seed = seed
        self._asked = Counter[str]()
        self.prompt = b""
        self.said: list[str] = []
        self.finish = ""
        self.read = self.sampled = 0
        self.overlong = False
        self.failed = ""

    async def answer(self, who: str, body: Mapping[str, Any]) -> tuple[int, bytes]:
        """Answer a request (see `worker.Answering`). After a failure, nothing more is sampled for the play."""
        if self.failed:
            return 500, _format_error(self.failed)
        self._asked[who] += 1
        asked = self._voices.agent if who == "agent" else self._voices.user
        seed = derive(b"", "turn" if who == "agent" else "user", self._seed, self._asked[who])
        try:
            request = {**self._make_fields(who, asked.model), **_keep_request(body), "seed": seed}
            data = await asked.server.chat(request)
            answer = parse_answer(asked.server.url, data, ChatAnswer)
            if not answer.choices:
                raise ServerError(f"{asked.server.url} answers with no choice", 502)
        except ServerError as error:
            if error.overlong and who == "agent":
                self.overlong = True
                return 400, _format_error(str(error))
            self.failed = f"{who}: {error}"
            return 500, _format_error(self.failed)
        if who == "agent":
            self._note(request, answer)
        return 200, data

    def _make_fields(self, who: str, model: str) -> dict[str, Any]:
        return make_sampling_fields(model, self._sampling if who == "agent" else _USER)

    def _note(self, request: Mapping[str, Any], answer: ChatAnswer) -> None:
        choice = answer.choices[0]
        self.prompt = self.prompt or msgspec.json.encode([request["messages"], request.get("tools")])
        calls = [msgspec.json.encode(call).decode() for call in choice.message.tool_calls or []]
        self.said.append("\n".join([choice.message.content or "", *calls]).strip())
        self.finish = (choice.finish_reason or "")[:40]
        if answer.usage is not None:
            self.read = max(self.read, answer.usage.prompt_tokens)
            self.sampled += max(answer.usage.completion_tokens, 0)

    def error(self, verdict: ItemVerdict) -> tuple[ErrorKind | None, str]:
        """Return the kind of the play's error and an explanation, or None and "" without an error."""
        if self.failed:
            return "server", self.failed
        if self.overlong:
            # If a later prompt does not fit, the play ends, and the harness grades its state. That is not an error.
            return (None, "") if self.said else ("unfit", "the first prompt does not fit the context")
        return ("harness", verdict.error) if verdict.error else (None, "")


class HarnessPlayer:
    """Plays the missing samples of an evaluation, in several processes of its harness."""

    def __init__(
        self, exam: PlannedEvaluation, kept: RecordFile, voices: Voices, config: Config, logs: Path, say: Say
    ) -> None:
        self._exam = exam
        self._kept = kept
        self._voices = voices
        self._config = config
        self._logs = logs
        self._left = list(reversed(kept.missing))
        self._failures = Counter[tuple[str, int]]()
        self._report = report_progress(exam, kept, say)

    async def play(self) -> None:
        """Play until nothing is missing. Raises HarnessError if a process of the harness does not start."""
        at_once = min(self._config.evaluation.in_flight, len(self._left), _A_CORE * len(os.sched_getaffinity(0)))
        broken: list[Exception] = []
        async with trio.open_nursery() as nursery:

            async def one(number: int) -> None:
                try:
                    while self._left:
                        await self._run_harness(number)
                except HarnessError as error:  # raise it below: in the nursery it would be wrapped in a group
                    broken.append(error)
                    nursery.cancel_scope.cancel()

            for number in range(at_once):
                nursery.start_soon(one, number)
        if broken:
            raise broken[0]

    async def _run_harness(self, number: int) -> None:
        """Run one process of the harness, until it ends or no sample is left."""
        name = self._exam.suite.name
        log = self._logs / f"harness-{name}-{number}.log"
        async with start_worker(name, log, self._config.sandbox.tier, self._exam.data) as process:
            while self._left:
                key = self._left.pop()
                if not await self._sample(process, *key):
                    return

    async def _sample(self, process: Worker, item: str, number: int) -> bool:
        """Play a sample. Returns False if the process can no longer be used."""
        rules = self._exam.plan.rules
        seed = sample_seed(rules.suite, item, number, rules.seed)
        play, began = HarnessPlay(self._voices, rules.protocol.sampling, seed), trio.current_time()
        record = partial(self._record, item, number, seed, play, began)
        try:
            verdict = await process.play(item, play.answer)
        except (HarnessError, trio.TooSlowError) as error:
            self._failures[item, number] += 1
            if self._failures[item, number] < MOST_FAILURES:
                self._left.insert(0, (item, number))
            else:
                late = isinstance(error, trio.TooSlowError)
                record(
                    ItemVerdict(False, 0.0, "", ""),
                    "timeout" if late else "harness",
                    "too late" if late else str(error),
                )
            return False
        record(verdict, *play.error(verdict))
        return True

    def _record(
        self, item: str, number: int, seed: int, play: HarnessPlay, began: float, verdict: ItemVerdict,
        kind: ErrorKind | None, why: str,
    ) -> None:  # fmt: skip
        score = verdict.score if kind is None and -1e6 <= verdict.score <= 1e6 else 0.0
        self._kept.add(
            SampleRecord(
                item=item,
                sample=number,
                seed=seed,
                prompt=blake2b(play.prompt, digest_size=16).hexdigest(),
                text="\n\n".join(play.said),
                extracted=verdict.answer,
                correct=kind is None and verdict.correct,
                score=score,
                finish=play.finish,
                read=play.read,
                sampled=play.sampled,
                seconds=trio.current_time() - began,
                error=kind,
                detail=as_line(why, _DETAIL),
            )
        )
        self._report()


async def play_by_harness(
    missing: Missing,
    config: Config,
    logs: Path,
    agent: ServerOptions,
    user: ServerOptions | None,
    say: Say,
) -> None:
    """Play the missing samples of these evaluations. Without a `user`, the policy also plays the users."""
    deadline_s = config.engine.request_deadline_s
    async with AsyncExitStack() as stack:
        policy = ServedPolicy(await stack.enter_async_context(agent.open(deadline_s)), agent.model)
        other = policy
        if user is not None:
            other = ServedPolicy(await stack.enter_async_context(user.open(deadline_s)), user.model)
        for exam, kept in missing:
            with show_samples(exam, kept):
                await HarnessPlayer(exam, kept, Voices(policy, other), config, logs, say).play()


def _keep_request(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of a request that the harness decides: the messages and the offered tools. Drop all others."""
    messages = body.get("messages")
    listed = messages if isinstance(messages, list) else []
    found: dict[str, Any] = {"messages": [_keep_message(each) for each in listed if isinstance(each, dict)]}
    if body.get("tools"):
        found["tools"] = body["tools"]
    return found


def _keep_message(message: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: message[name] for name in _FIELDS if message.get(name) is not None}
    return kept if kept.get("tool_calls") else {"content": "", **kept}


def _format_error(why: str) -> bytes:
    return msgspec.json.encode({"error": {"message": why, "type": "server_error", "param": None, "code": None}})
