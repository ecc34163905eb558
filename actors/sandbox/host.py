"""The sandbox: episodes of untrusted programs, each in a killable child of its own.

Deadlines, turn counts and the bounds of rewards live here, out of a program's reach.
"""

import os
import re
import resource
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from actors.sandbox.process import Answer, Process
from actors.sandbox.wire import Answered, Load, Reset, Step
from actors.sandbox.zygote import Zygote, run_zygote
from spade.config import Sandbox as Limits
from spade.errors import RunError
from spade.protocol import Faulted, Observed

REWARD_BOUND = 10.0
PLAY_HASH_SEED = 0
OTHER_HASH_SEED = 1
DESCRIPTORS_EACH = 4  # an admission has two children, each a channel and a pidfd
DESCRIPTORS_BESIDE = 256
_TRIAL = """
class TrialEnv:
    def reset(self, seed):
        return "", {}
    step = solution = close = reset
"""
_HEAVY = re.compile(r"\b(np|numpy|math_verify|sympy)\b")


class Episode:
    """An episode: its child while it goes on, the last turn that was played and what it brought."""

    def __init__(self, max_turns: int) -> None:
        self.max_turns = max_turns
        self.process: Process | None = None
        self.over = False
        self.turn = 0
        self.answer: Observed | Faulted = Faulted("lost", "the episode was closed before it began")
        self.lock = trio.Lock()

    def settle(self, answer: Observed | Faulted) -> Observed | Faulted:
        """Note the answer of the turn; the turn limit truncates; an episode that is over needs no child."""
        if isinstance(answer, Observed) and self.turn >= self.max_turns and not answer.terminated:
            answer = Observed(answer.observation, answer.reward, terminated=False, truncated=True)
        self.answer = answer
        if isinstance(answer, Faulted) or answer.terminated or answer.truncated:
            self.free()
        return answer

    def free(self) -> None:
        """Kill the child; the answer stays."""
        self.over = True
        if self.process is not None:
            self.process.kill()
            self.process = None


class Sandbox:
    """Episodes by name over a few zygotes, each started when it is first needed and again when it died.

    A light zygote serves programs of the standard library, a heavy one those that name numpy or math_verify. Admission
    replays in zygotes of another hash seed. `spawns`, `steps` and `faults` count since the start.
    """

    def __init__(self, limits: Limits, nursery: trio.Nursery) -> None:
        self.limits = limits
        self.spawns = self.steps = self.faults = 0
        self._nursery = nursery
        self._zygotes: dict[tuple[bool, int], Zygote] = {}
        self._starting = trio.Lock()
        self._episodes: dict[str, Episode] = {}

    @property
    def live(self) -> int:
        """Episodes that are going on."""
        return sum(not episode.over for episode in self._episodes.values())

    async def open(self, episode: str, source: str, seed: int, max_turns: int) -> Observed | Faulted:
        """The first observation: load within `load_s`, reset within `step_s`. Replaces an episode of that name."""
        self.close(episode)
        entry = self._episodes[episode] = Episode(max_turns)
        async with entry.lock:
            return self._count(entry.settle(await self._begin(entry, source, seed)))

    async def _begin(self, entry: Episode, source: str, seed: int) -> Observed | Faulted:
        process = await self.child(source)
        if isinstance(process, Faulted):
            return process
        if entry.over:  # closed meanwhile
            process.kill()
            return entry.answer
        entry.process = process
        loaded = await process.request(Load(source, entry.max_turns, self.limits.observation_bytes), self.limits.load_s)
        if isinstance(loaded, Faulted):
            return loaded
        return checked(await process.request(Reset(seed), self.limits.step_s), self.limits)

    async def step(self, episode: str, turn: int, action: str) -> Observed | Faulted:
        """Play `turn` (from 1) within `step_s`; the turn that was played last is answered from memory."""
        entry = self._episodes.get(episode)
        if entry is None:
            return Faulted("lost", f"no episode {episode!r} here")
        async with entry.lock:
            if turn == entry.turn and turn > 0:
                return entry.answer
            if turn != entry.turn + 1 or entry.process is None:
                return Faulted("lost", f"turn {turn} cannot follow turn {entry.turn} of episode {episode!r}")
            answer = checked(await entry.process.request(Step(action), self.limits.step_s), self.limits)
            entry.turn = turn
            self.steps += 1
            return self._count(entry.settle(answer))

    def _count(self, answer: Observed | Faulted) -> Observed | Faulted:
        self.faults += isinstance(answer, Faulted)
        return answer

    def close(self, episode: str) -> None:
        """End an episode and forget it; idempotent."""
        entry = self._episodes.pop(episode, None)
        if entry is not None:
            entry.free()

    async def prove(self) -> None:
        """See that a program runs. Raises RunError where it does not: then the walls cannot be raised here."""
        answer = await self.open("trial", _TRIAL, 0, 1)
        self.close("trial")
        if isinstance(answer, Faulted):
            raise RunError(f"the sandbox does not work here: {answer.detail}")

    async def child(self, source: str, hash_seed: int = PLAY_HASH_SEED) -> Process | Faulted:
        """A fresh child of the zygote that `source` needs; nothing is loaded yet."""
        try:
            zygote = await self._zygote(_HEAVY.search(source) is not None, hash_seed)
        except (OSError, EOFError, trio.TooSlowError) as error:
            return Faulted("infrastructure", f"the zygote did not start: {error!r}")
        self.spawns += 1
        return await zygote.fork()

    async def _zygote(self, heavy: bool, hash_seed: int) -> Zygote:
        async with self._starting:
            zygote = self._zygotes.get((heavy, hash_seed))
            if zygote is None or not zygote.alive:
                zygote = await self._nursery.start(run_zygote, heavy, hash_seed, self.limits.memory_bytes)
                self._zygotes[heavy, hash_seed] = zygote
            return zygote


def checked(answer: Answer | Faulted, limits: Limits) -> Observed | Faulted:
    """An answer to `reset` or `step`, held to the bounds."""
    match answer:
        case Faulted():
            return answer
        case Answered(text=text, reward=reward, terminated=terminated, truncated=truncated):
            if not abs(reward) <= REWARD_BOUND:
                return Faulted("reward", f"the reward must be within ±{REWARD_BOUND:g}, is {reward:g}")
            if len(text.encode()) > limits.observation_bytes:
                return Faulted("protocol", f"the observation is over {limits.observation_bytes} bytes")
            return Observed(text, reward, terminated, truncated)
        case _:
            return Faulted("protocol", "the answer is of another kind than the request")


@asynccontextmanager
async def open_sandbox(limits: Limits) -> AsyncIterator[Sandbox]:
    """A sandbox for as long as the context; leaving it kills every child. Raises RunError where it cannot work."""
    if sys.platform != "linux" or not hasattr(os, "pidfd_open"):
        raise RunError(
            "the sandbox needs Linux (5.4 or newer); elsewhere run it in a Linux container or virtual machine"
        )
    _allow_descriptors(DESCRIPTORS_EACH * limits.episodes + DESCRIPTORS_BESIDE)
    failure: Exception | None = None
    async with trio.open_nursery() as nursery:
        try:
            sandbox = Sandbox(limits, nursery)
            await sandbox.prove()
            yield sandbox
        except Exception as error:  # raised again below, outside of the nursery and so not in a group
            failure = error
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


def _allow_descriptors(count: int) -> None:
    """Raise this process's own limit, and with it the zygotes', where it is too low."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < count:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
        except (ValueError, OSError):
            reason = f"needs {count} open files, {hard} are allowed here (ulimit -Hn); ask for fewer episodes"
            raise RunError(f"sandbox.episodes: {reason}") from None
