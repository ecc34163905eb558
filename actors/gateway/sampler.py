"""Sample answers for a gateway's clients.

The number of answers at once is bounded. If an engine dies, another engine samples its requests. If a client leaves,
its requests are cancelled.
"""

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from typing import NamedTuple

import msgspec
import trio

from actors.gateway.errors import AskError, make_bad_request_error
from actors.links.connected import ActorConnections
from actors.links.pool import PooledService
from spade.codec import pack_ids
from spade.config import ENGINE_KINDS
from spade.errors import BusError, RefusedError, SuspectError
from spade.protocol import Generate, Generated, GiveUp, Overdue
from spade.seeds import SEED_BITS, derive

_TIMES_ROWS = 2  # most answers being sampled at once, as a multiple of the rows of all engines


class Draw(NamedTuple):
    """A request for several answers to a prompt."""

    prompt: list[int]
    max_tokens: int
    temperature: float
    top_p: float
    top_k: int
    seed: int | None
    """None means any seed."""
    stops: tuple[str, ...]
    n: int
    """Number of answers."""

    def requests(self, deadline_s: float) -> list[Generate]:
        """Return one request to an engine for each answer. The first request has the seed of the draw."""
        first = secrets.randbits(SEED_BITS) if self.seed is None else self.seed
        seeds = [first, *(derive(b"", "choice", first, number) for number in range(1, self.n))]
        return [
            Generate(
                pack_ids(self.prompt), self.max_tokens, self.temperature, seed, self.top_p, self.top_k, self.stops,
                deadline_s=deadline_s,
            )
            for seed in seeds
        ]  # fmt: skip


class Sampler:
    """Asks the engines.

    Gauges:

    * `requests_in_hand`: answers being sampled
    * `requests_given_up`: requests that their clients gave up
    * `requests_resampled`: requests that were sampled again because their engine was lost
    """

    def __init__(self, connected: ActorConnections) -> None:
        config = connected.config
        self.context_tokens = config.engine.context_tokens
        self.temperatures = ENGINE_KINDS[config.engine.kind].temperatures
        self._connected = connected
        self._engines = connected.pools["engine"]
        self._deadline_s = config.engine.request_deadline_s
        self._most = _TIMES_ROWS * config.engine.rows * max(config.actors.engines_bounds[1], 1)
        self._in_hand = 0
        self._names = count(1)
        self._mark = secrets.token_hex(4)  # so that a restarted gateway does not reuse names
        connected.gauges.update(requests_in_hand=0, requests_given_up=0, requests_resampled=0)

    @property
    def answering(self) -> bool:
        """Return True while an engine answers."""
        return self._engines.answering

    def temperature(self, wanted: float | None) -> float:
        """Return the temperature to sample at, by default 1. A request for 0 gets the engines' lowest temperature.

        Raises AskError if it is too high.
        """
        coldest, hottest = self.temperatures
        if wanted is None:
            return 1.0
        if wanted > hottest:
            raise make_bad_request_error(f"temperature: must be at most {hottest:g}", "temperature")
        return max(wanted, coldest)

    async def draw(self, draws: Sequence[Draw]) -> list[list[Generated]]:
        """Return the answers to each prompt. Raises AskError if one of them cannot be sampled."""
        requests = [draw.requests(self._deadline_s) for draw in draws]
        with self._take_places(sum(map(len, requests))):
            found = [dict[int, Generated]() for _ in draws]
            failed = list[AskError]()
            async with trio.open_nursery() as nursery:

                async def sample_one(answers: dict[int, Generated], number: int, request: Generate) -> None:
                    try:
                        answers[number] = await self._sample(request)
                    except AskError as error:
                        failed.append(error)
                        nursery.cancel_scope.cancel()  # cancel the other answers, because nobody would read them

                for answers, wanted in zip(found, requests, strict=True):
                    for number, request in enumerate(wanted):
                        nursery.start_soon(sample_one, answers, number, request)
            if failed:
                raise failed[0]
            return [[answers[number] for number in sorted(answers)] for answers in found]

    @contextmanager
    def _take_places(self, n: int) -> Iterator[None]:
        """Take places for `n` answers.

        Raises AskError if too few are free. If no other request is being served, any number of places is granted.
        """
        if self._in_hand and self._in_hand + n > self._most:
            raise AskError(429, f"{self._in_hand} of {self._most} answers are being sampled already; try again later")
        self._count(n)
        try:
            yield
        finally:
            self._count(-n)

    def _count(self, n: int) -> None:
        self._in_hand += n
        self._connected.gauges["requests_in_hand"] = self._in_hand
        self._connected.gauges["requests_resampled"] = self._engines.asked_again

    async def _sample(self, request: Generate) -> Generated:
        """Sample one answer. Raises AskError."""
        named = msgspec.structs.replace(request, name=f"{self._mark}-{next(self._names)}")
        try:
            reply = await self._ask(named)
        except RefusedError as error:
            raise make_bad_request_error(str(error).partition(" refused: ")[2] or str(error)) from None
        except SuspectError as error:
            raise AskError(500, f"this request is not tried again: {error}") from None
        except BusError as error:
            raise AskError(503, f"no engine has answered: {error}") from None
        if isinstance(reply, Overdue):
            raise AskError(
                504,
                f"no answer within {self._deadline_s:g} s: {reply.waited_s:.1f} s in the queue of an engine, "
                f"{reply.sampled_s:.1f} s being sampled",
            )
        return reply

    async def _ask(self, request: Generate) -> Generated | Overdue:
        """Return the answer of an engine. If cancelled, tell the engines to forget the request."""
        config = self._connected.config
        try:
            return await self._engines.call(request, request.deadline_s + config.bus.call_deadline_s)
        except trio.Cancelled:
            self._connected.gauges["requests_given_up"] += 1
            for service in self._engines.connected:
                self._connected.outbox.start_soon(_give_up, service, GiveUp(request.name), config.bus.call_deadline_s)
            raise

    def room(self, prompt: int, limit: int | None, field: str) -> int:
        """Return the most tokens of an answer to a prompt of `prompt` tokens.

        `limit` is the client's limit. If it is None, the answer may fill the context. `field` names the prompt in
        errors. Raises AskError if prompt and answer do not fit into the context.
        """
        left = self.context_tokens - prompt
        if left < 1 or (limit or 0) > left:
            wanted = f"{prompt} tokens of {field}" + (f" and {limit} of the answer" if limit else "")
            raise make_bad_request_error(
                f"the context has {self.context_tokens} tokens, and this request asks for {wanted}",
                field.partition("[")[0],
                "context_length_exceeded",
            )
        return limit or left


async def _give_up(service: PooledService, request: GiveUp, deadline_s: float) -> None:
    with suppress(BusError):  # an engine that has ended has dropped the request anyway
        await service.call(request, deadline_s)
