"""The examiner plays samples of items, each to its end, and makes their records.

A record depends only on its item, its sample and the policy. If an item's program fails, the answer counts as wrong,
and the record has the reason. If one of our own services fails, the sample is played again. If two services crash while
they serve a sample, it is played again later, while no other sample is played. If two services crash again, the sample
counts as the cause.
"""

import hashlib
import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator
from itertools import count
from typing import NamedTuple

import trio

from actors.links.connected import ActorConnections
from actors.links.pool import MOST_CRASHES
from actors.play.episode import UnfinishedPlay, play
from actors.play.play_settings import PlayResult, PlaySettings
from spade.codec import compute_program_digest
from spade.errors import BusError, SuspectError
from spade.evaluations import LONGEST_DETAIL, NO_PROMPT, ErrorKind, SampleRecord, SuiteItem, sample_seed
from spade.protocol import PlayLease
from spade.returns import is_won
from spade.text import as_line

log = logging.getLogger(__name__)

WIN = 1.0
"""The return of a right answer, in every suite."""

Sample = tuple[SuiteItem, int]
"""An item, and the number of one of its samples."""


class SampleResult(NamedTuple):
    """A finished sample."""

    record: SampleRecord
    versions: frozenset[int]
    """The policy versions that sampled its tokens."""


class Examiner:
    """Plays the items of one suite.

      suite, seed    determine the seeds of the samples
      play_settings  makes the settings for a play of an item, with a new chat format each time. May raise BusError.
      win_return     the least return of a right answer

    Gauges: `episodes` going on, `turns` played, `samples` that are over, `samples_again` after our own services failed.
    """

    def __init__(
        self,
        connected: ActorConnections,
        suite: str,
        seed: int,
        play_settings: Callable[[SuiteItem], Awaitable[PlaySettings]],
        win_return: float = WIN,
    ) -> None:
        self._connected = connected
        self._suite = suite
        self._seed = seed
        self._play_settings = play_settings
        self._win_return = win_return
        self._episodes = count(1)
        self._gauges = connected.gauges
        for name in ("episodes", "turns", "samples", "samples_again"):
            self._gauges.setdefault(name, 0)

    async def examine(self, samples: Iterable[Sample], over: Callable[[SampleResult], None]) -> None:
        """Play samples, `evaluation.in_flight` at once. Calls `over` with each sample as soon as it is over."""
        left = iter(samples)
        suspects: list[Sample] = []
        await self._connected.services()
        async with trio.open_nursery() as nursery:
            for _ in range(self._connected.config.evaluation.in_flight):
                nursery.start_soon(self._play_one_by_one, left, over, suspects.append)
        # While each of these samples was served, services crashed twice. Another sample or a kill may have been the
        # cause, so play each sample alone.
        await self._play_one_by_one(iter(suspects), over, None)

    async def _play_one_by_one(
        self, left: Iterator[Sample], over: Callable[[SampleResult], None], suspect: Callable[[Sample], None] | None
    ) -> None:
        """Play samples one by one.

        If services crashed twice while they served a sample, calls `suspect` with the sample. The caller gives None
        if no other sample is being played.
        """
        for item, number in left:
            self._gauges["episodes"] += 1
            try:
                examined = await self._sample(item, number, alone=suspect is None)
            finally:
                self._gauges["episodes"] -= 1
            if examined is not None:
                over(examined)
                self._gauges["samples"] += 1
            elif suspect is not None:
                suspect((item, number))

    async def _sample(self, item: SuiteItem, number: int, *, alone: bool) -> SampleResult | None:
        """Play a sample until it is over or has missed its deadline twice.

        Returns None if two services crashed while they served it and other samples were being played.
        """
        seed = sample_seed(self._suite, item.name, number, self._seed)
        suspected = late = 0
        while True:
            await self._connected.services()
            began = trio.current_time()
            played = await self._play(item, seed)
            if isinstance(played, PlayResult):
                if late or not _is_out_of_time(played):
                    return SampleResult(_record(item, number, seed, played, self._win_return), _list_versions(played))
                played = UnfinishedPlay(played.ended.fault, late=True)
            if played.unserved:
                log.info("%s, sample %d: %s", as_line(item.name), number, played.why)
                return SampleResult(
                    _record_failed(item, number, seed, "server", played, trio.current_time() - began), frozenset()
                )
            suspected, late = suspected + played.suspect, late + played.late
            if suspected == MOST_CRASHES and not alone:
                log.info("%s, sample %d, is played alone later: %s", as_line(item.name), number, played.why)
                return None
            if MOST_CRASHES in (suspected, late):
                log.info("%s, sample %d: %s", as_line(item.name), number, played.why)
                kind: ErrorKind = "environment" if suspected == MOST_CRASHES else "timeout"
                return SampleResult(
                    _record_failed(item, number, seed, kind, played, trio.current_time() - began), frozenset()
                )
            log.info("%s, sample %d, is played again: %s", as_line(item.name), number, played.why)
            self._gauges["samples_again"] += 1
            # Wait, so that failing services are not flooded with the same sample.
            await trio.sleep(self._connected.config.bus.heartbeat_s)

    async def _play(self, item: SuiteItem, seed: int) -> PlayResult | UnfinishedPlay:
        try:
            play_settings = await self._play_settings(item)
        except BusError as error:
            return UnfinishedPlay(str(error), suspect=isinstance(error, SuspectError))
        lease = PlayLease(
            id=f"examiner-{os.getpid()}",
            lease=next(self._episodes),  # an env-runner knows an episode by its name, so each name is used once
            environment=item.name,
            program=compute_program_digest(item.program),
            hint=None,
            seed=item.seed,
            sampler=seed,
        )
        return await play(self._connected, lease, play_settings, item.program)


def _is_out_of_time(played: PlayResult) -> bool:
    """Return True if the program was late. The program or a busy machine may be the cause. A second play decides."""
    return played.ended.fault.startswith("timeout:")


def _list_versions(played: PlayResult) -> frozenset[int]:
    trajectory = played.ended.trajectory
    return frozenset(version for version, _ in trajectory.versions) if trajectory else frozenset()


def _record(item: SuiteItem, number: int, seed: int, played: PlayResult, win_return: float) -> SampleRecord:
    """Return the record of a play that is over."""
    ended, transcript = played.ended, played.transcript
    error: ErrorKind | None = None
    if transcript.unfit:
        error = "unfit"
    elif ended.fault:
        error = "environment" if transcript.said else "ungeneratable"
    return SampleRecord(
        item=item.name,
        sample=number,
        seed=seed,
        prompt=_compute_digest(transcript.prompt),
        text="\n\n".join(transcript.said),
        extracted=transcript.answer,
        correct=error is None and is_won(ended.episode_return, win_return),
        score=ended.episode_return,
        finish=transcript.finish,
        read=transcript.read,
        sampled=transcript.sampled,
        seconds=ended.seconds,
        error=error,
        detail=_format_detail(ended.fault),
    )


def _record_failed(
    item: SuiteItem, number: int, seed: int, kind: ErrorKind, why: UnfinishedPlay, seconds: float
) -> SampleRecord:
    """Return the record of a sample that could not be measured, although it was played several times."""
    return SampleRecord(
        item=item.name,
        sample=number,
        seed=seed,
        prompt=NO_PROMPT,
        text="",
        extracted="",
        correct=False,
        score=0.0,
        finish="",
        read=0,
        sampled=0,
        seconds=seconds,
        error=kind,
        detail=_format_detail(why.why),
    )


def _format_detail(why: str) -> str:
    return as_line(why, LONGEST_DETAIL)[:LONGEST_DETAIL]  # unprintable text becomes longer in a line


def _compute_digest(prompt: bytes) -> str:
    return hashlib.blake2b(prompt, digest_size=16).hexdigest()
