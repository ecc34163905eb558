"""The examiner: plays the samples of an evaluation that have no record yet, and records each as soon as it is over.

A record depends on nothing but its item, its sample and the policy. What our own services do wrong is played again;
what an item's program does wrong is a wrong answer with its reason. A sample under which services end, though nothing
else is played, is taken for their cause.
"""

import hashlib
import logging
import os
from collections.abc import Callable, Iterator
from itertools import count

import trio

from actors.roles.episode import Undone, play
from actors.roles.manner import Manner, Played
from actors.roles.pool import MOST_ENDS
from actors.roles.session import Session
from spade.codec import program_digest
from spade.evaluations import ErrorKind, EvaluationPlan, RecordFile, SampleRecord, SuiteItem, sample_seed
from spade.protocol import PlayLease
from spade.returns import won
from spade.text import line

log = logging.getLogger(__name__)

WIN = 1.0
"""The return of a right answer, in every suite."""

_DETAIL = 800  # characters

Key = tuple[str, int]
"""An item's name, and the number of a sample."""


class Examiner:
    """One evaluation. `manner` makes that of a play: it holds the suite's talk, which is new for each.

    Gauges: `episodes` going on, `turns` played, `samples` recorded, `samples_again` that our own services failed.
    """

    def __init__(
        self, session: Session, plan: EvaluationPlan, manner: Callable[[], Manner], records: RecordFile
    ) -> None:
        self._session = session
        self._plan = plan
        self._manner = manner
        self._records = records
        self._episodes = count(1)
        self._gauges = session.gauges
        for name in ("episodes", "turns", "samples", "samples_again"):
            self._gauges.setdefault(name, 0)

    async def work(self, told: Callable[[], None]) -> None:
        """Play what is missing, `evaluation.in_flight` samples at once; `told` is called after each record."""
        missing = iter(self._records.missing)
        await self._session.services()
        async with trio.open_nursery() as nursery:
            for _ in range(self._session.config.evaluation.in_flight):
                nursery.start_soon(self._one_by_one, missing, told)
        # Two ends prove nothing of a sample that others were played beside: one of them, or a kill, may be the cause.
        await self._one_by_one(iter(self._records.missing), told, alone=True)

    async def _one_by_one(self, missing: Iterator[Key], told: Callable[[], None], *, alone: bool = False) -> None:
        for key in missing:
            self._gauges["episodes"] += 1
            try:
                record = await self._sample(key, alone)
            finally:
                self._gauges["episodes"] -= 1
            if record is not None:
                self._records.add(record)
                self._gauges["samples"] += 1
                told()

    async def _sample(self, key: Key, alone: bool) -> SampleRecord | None:
        """Play until it is over, or late twice; None where two services ended under it, and it was not played alone."""
        item, number = self._plan.items[key[0]], key[1]
        rules = self._plan.rules
        seed = sample_seed(rules.suite, item.name, number, rules.seed)
        suspected = late = 0
        while True:
            await self._session.services()
            began = trio.current_time()
            played = await play(self._session, self._lease(item, seed), item.program, self._manner())
            if isinstance(played, Played):
                if late or not _out_of_time(played):
                    return _record(item, number, seed, played)
                played = Undone(played.ended.fault, late=True)
            suspected, late = suspected + played.suspect, late + played.late
            if suspected == MOST_ENDS and not alone:
                log.info("%s, sample %d, is played alone later: %s", line(item.name), number, played.why)
                return None
            if MOST_ENDS in (suspected, late):
                log.info("%s, sample %d: %s", line(item.name), number, played.why)
                kind: ErrorKind = "environment" if suspected == MOST_ENDS else "timeout"
                return _failed(item, number, seed, kind, played, trio.current_time() - began)
            log.info("%s, sample %d, is played again: %s", line(item.name), number, played.why)
            self._gauges["samples_again"] += 1
            # Services in trouble are not hammered with the same sample.
            await trio.sleep(self._session.config.bus.heartbeat_s)

    def _lease(self, item: SuiteItem, seed: int) -> PlayLease:
        """An env-runner knows an episode by its name; no two are the same one."""
        return PlayLease(
            id=f"examiner-{os.getpid()}",
            lease=next(self._episodes),
            environment=item.name,
            program=program_digest(item.program),
            hint=None,
            seed=item.seed,
            sampler=seed,
        )


def _out_of_time(played: Played) -> bool:
    """The program did not answer in time: its own doing, or that of a busy machine, which a second play tells."""
    return played.ended.fault.startswith("timeout:")


def _record(item: SuiteItem, number: int, seed: int, played: Played) -> SampleRecord:
    """The record of a play that is over."""
    ended, said = played.ended, played.transcript
    error: ErrorKind | None = None
    if said.unfit:
        error = "unfit"
    elif ended.fault:
        error = "environment" if said.said else "ungeneratable"
    return SampleRecord(
        item=item.name,
        sample=number,
        seed=seed,
        prompt=_digest(said.prompt),
        text="\n\n".join(said.said),
        extracted=said.answer,
        correct=error is None and won(ended.episode_return, WIN),
        score=ended.episode_return,
        finish=said.finish,
        read=said.read,
        sampled=said.sampled,
        seconds=ended.seconds,
        error=error,
        detail=line(ended.fault, _DETAIL),
    )


def _failed(item: SuiteItem, number: int, seed: int, kind: ErrorKind, why: Undone, seconds: float) -> SampleRecord:
    """The record of a sample that proves nothing however often it is played."""
    return SampleRecord(
        item=item.name,
        sample=number,
        seed=seed,
        prompt=_digest(b""),
        text="",
        extracted="",
        correct=False,
        score=0.0,
        finish="",
        read=0,
        sampled=0,
        seconds=seconds,
        error=kind,
        detail=line(why.why, _DETAIL),
    )


def _digest(prompt: bytes) -> str:
    return hashlib.blake2b(prompt, digest_size=16).hexdigest()
