"""The sandbox: episodes of untrusted programs, each in a killable child of its own.

The host enforces deadlines, turn limits and bounds of rewards, so a program cannot change them.
"""

import math
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import partial

import msgspec
import trio

from actors.sandbox.budget import find_excess, pause_s
from actors.sandbox.inside.imports import PACKAGES
from actors.sandbox.inside.libraries import JUDGES, LIBRARIES
from actors.sandbox.judging import JudgingProcess
from actors.sandbox.process import Answer, ChildProcess
from actors.sandbox.served import open_served
from actors.sandbox.tiers import ATTACKER, ATTACKS, LADDER, REFUSED, TIERS, Layers
from actors.sandbox.wire import (
    OBSERVATION_BYTES,
    Act,
    Inspect,
    InspectReply,
    LoadProgram,
    LoadReply,
    Reset,
    Step,
    StepReply,
)
from actors.sandbox.zygote import FIXED_HASH_SEED, Kind, Make, Zygote, draw_hash_seed, run_zygote
from spade.config import DOMAINS
from spade.config import Sandbox as Limits
from spade.pools.served import read_served
from spade.protocol import Faulted, Needs, Observed, ToolCall, ToolResult
from spade.text import format_beside

REWARD_BOUND = 10.0
RUNNER_BYTES = 4 << 30
"""Limit of the memory of all programs together. Above it, plays of the largest programs are ended and retried."""
PROCESSOR_STEPS = 12
"""The process of an episode may take this many times `step_s` of processor time, over its whole life."""
ITEM_STEP_S, ITEM_BYTES = 300.0, 2 << 30
"""The longest step and the largest memory that an item of a suite may get: enough for all tests of a problem of
LiveCodeBench."""
RECENT = 0.05
"""The weight of the newest value in a moving average."""
PLAYS, REPEATS = TWINS = range(2)
"""The indices of the two zygotes of each kind. Plays are forked from one, and their repetitions from the other.

The two have different hash seeds. The seeds are drawn, so that no program can tell the two apart. The zygote that plays
library environments has FIXED_HASH_SEED instead, so that an item asks the same question at each start, on each host.
Such a program may notice that it is repeated, but gains nothing: the repetition must give the transcript of the first
play, which the program does not know. More zygotes for the plays would share less memory.
"""
NOTHING_MORE = Needs()
OTHER_KIND = Faulted("protocol", "the answer is of another kind than the request")
STARTING = (OSError, EOFError, trio.TooSlowError)
_HEAVY = re.compile(rf"\b(np|{'|'.join(PACKAGES)})\b")


class BreachError(Exception):
    """The sandbox failed its test. The text names the attack that succeeded, or says why the test could not run."""


class ProgramEpisode:
    """An episode: its child process while it runs, the number of its last turn, and the answer to this turn.

    `tools` is True if the player acts by calling tools. `clock_s`: see `Sandbox.open`.
    """

    def __init__(self, source: str, max_turns: int, needs: Needs, clock_s: float) -> None:
        self.source = source
        self.clock_s = clock_s
        self.max_turns = max_turns
        self.needs = needs
        self.process: ChildProcess | None = None
        self.over = self.tools = False
        self.counted_s = 0.0
        self.turn = 0
        self.answer: Observed | Faulted = Faulted("lost", "the episode was closed before it began")
        self.lock = trio.Lock()

    def settle(self, answer: Observed | Faulted) -> Observed | Faulted:
        """Keep the turn's answer, truncated at the turn limit. End the child if the episode is over."""
        if isinstance(answer, Observed) and self.turn >= self.max_turns and not answer.terminated:
            answer = msgspec.structs.replace(answer, truncated=True)
        self.answer = answer
        if isinstance(answer, Faulted) or answer.terminated or answer.truncated:
            self.free()
        return answer

    def free(self) -> None:
        """End the child and keep the answer. A running request is answered with a fault that does not blame the
        program."""
        self.over = True
        if self.process is not None:
            self.process.end(Faulted("infrastructure", "the episode was closed"))
            self.counted_s = self.process.counted_s
            self.process = None


class Sandbox:
    """Runs episodes in children of a few zygotes. A zygote starts when it is first needed, and again after it died.

    Light zygotes serve programs of the standard library. Heavy zygotes serve programs that name `np` or one of
    PACKAGES. Zygotes of libraries serve programs that name a base class of `sandbox.libraries`. Before a zygote serves,
    a test program tries all `attacks` in children of this zygote. `spawns` counts the forked children since the start.
    `faults` counts the faults by kind.
    """

    def __init__(
        self,
        layers: Layers,
        limits: Limits,
        nursery: trio.Nursery,
        attacks: Iterable[str] = (),
        fixed_hashes: bool = False,
    ) -> None:
        self.layers = layers
        self.limits = limits
        self.faults: Counter[str] = Counter()
        self.spawns = self._steps = self._evictions = self._grown_bytes = 0
        self._spawn_s = self._step_s = 0.0
        self._attacks = tuple(attacks)
        self._fixed_hashes = fixed_hashes
        self._nursery = nursery
        self._bases = [name for library in limits.libraries for name in LIBRARIES[library].classes]
        self._judges = [name for name in JUDGES if name in self._bases]
        self._zygotes: dict[tuple[Kind, int], Zygote] = {}
        self._starting: defaultdict[tuple[Kind, int], trio.Lock] = defaultdict(trio.Lock)
        self._episodes: dict[str, ProgramEpisode] = {}

    @property
    def tier(self) -> int:
        """The number of the tier: 1 is the strongest, 0 means that programs are not contained."""
        return next((place for place, tier in enumerate(LADDER, 1) if TIERS[tier] == self.layers), 0)

    @property
    def live(self) -> int:
        """The number of running episodes."""
        return sum(not episode.over for episode in self._episodes.values())

    def gauges(self) -> dict[str, float]:
        """Return the gauges of the host, by the names of docs/metrics.md."""
        return {
            "sandbox_tier": self.tier,
            "live_episodes": self.live,
            "program_bytes": self._grown_bytes,
            "spawn_ms": 1000 * self._spawn_s,
            "step_ms": 1000 * self._step_s,
            "spawns": self.spawns,
            "steps": self._steps,
            "faults": self.faults.total(),
            **{f"faults_{kind}": count for kind, count in self.faults.items()},
            "evictions": self._evictions,
        }

    async def open(
        self,
        episode: str,
        source: str,
        seed: int,
        max_turns: int,
        needs: Needs = NOTHING_MORE,
        clock_s: float = math.inf,
    ) -> Observed | Faulted:
        """Open an episode and return its first observation. Replaces an episode of that name.

        The program must load within `load_s` and reset within `step_s`. Wider limits in `needs` replace the sandbox's.
        All its answers together may take `clock_s` seconds by the clock.
        """
        self.close(episode)
        entry = self._episodes[episode] = ProgramEpisode(source, max_turns, needs, clock_s)
        async with entry.lock:
            began = time.monotonic()
            answer = self._count(entry, await self._begin(entry, seed))
            self._spawn_s += RECENT * (time.monotonic() - began - self._spawn_s)
            return answer

    async def _begin(self, entry: ProgramEpisode, seed: int) -> Observed | Faulted:
        limits = widen_limits(self.limits, entry.needs)
        process = await self.child(entry.source, limits=limits)
        if isinstance(process, Faulted):
            return process
        if entry.over:  # closed while the child was forked
            process.kill()
            return entry.answer
        entry.process = process
        process.left_s = entry.clock_s
        request = LoadProgram(entry.source, entry.max_turns)
        loaded = await process.request(request, limits.load_s)
        if isinstance(loaded, Faulted):
            return loaded
        entry.tools = isinstance(loaded, LoadReply) and DOMAINS[loaded.domain].takes_calls
        return check_answer(await process.request(Reset(seed), limits.step_s), limits)

    async def step(self, episode: str, turn: int, action: str, calls: Sequence[ToolCall] = ()) -> Observed | Faulted:
        """Play `turn` (from 1) within `step_s`. A repeated request for the last turn is answered from memory.

        A program with tools gets the `calls` in their order, then the action as the answer.
        """
        entry = self._episodes.get(episode)
        if entry is None:
            return Faulted("lost", f"no episode {episode!r} here")
        async with entry.lock:
            if turn == entry.turn and turn > 0:
                return entry.answer
            if turn != entry.turn + 1 or entry.process is None:
                return Faulted("lost", f"turn {turn} cannot follow turn {entry.turn} of episode {episode!r}")
            if calls and not entry.tools:
                return Faulted("infrastructure", f"the program of episode {episode!r} has no tools to call")
            began = time.monotonic()
            request = Act(tuple((call.name, call.arguments) for call in calls), action) if entry.tools else Step(action)
            limits = widen_limits(self.limits, entry.needs)
            answer = check_answer(await entry.process.request(request, limits.step_s), limits, len(calls))
            entry.turn = turn
            self._steps += 1
            self._step_s += RECENT * (time.monotonic() - began - self._step_s)
            return self._count(entry, answer)

    async def inspect(self, episode: str) -> InspectReply | Faulted:
        """Return the state and the criteria of a program with tools, within `step_s`."""
        entry = self._episodes.get(episode)
        if entry is None:
            return Faulted("lost", f"no episode {episode!r} here")
        async with entry.lock:
            if entry.process is None or not entry.tools:
                return Faulted("lost", f"episode {episode!r} is over, or its program has no tools")
            answer = await entry.process.request(Inspect(), widen_limits(self.limits, entry.needs).step_s)
            if isinstance(answer, InspectReply):
                return answer
            fault = answer if isinstance(answer, Faulted) else OTHER_KIND
            self._count(entry, fault)
            return fault

    def _count(self, entry: ProgramEpisode, answer: Observed | Faulted) -> Observed | Faulted:
        answer = entry.settle(answer)
        if isinstance(answer, Faulted):
            self.faults[answer.kind] += 1
        return answer

    def close(self, episode: str) -> float:
        """End an episode and forget it.

        Idempotent. Returns the seconds that its program used, counted as in `ChildProcess.counted_s`.
        """
        entry = self._episodes.pop(episode, None)
        if entry is None:
            return 0.0
        entry.free()
        return entry.counted_s

    async def prove(self) -> None:
        """Start the first zygote and test it. Raises BreachError if it does not start or an attack succeeds."""
        try:
            await self._get_zygote("light", PLAYS)
        except STARTING as error:
            raise BreachError(f"the zygote did not start: {error!r}") from None

    async def watch(self) -> None:
        """Keep all children together under RUNNER_BYTES, and end children that compute between their turns."""
        while True:
            await trio.sleep(pause_s(RUNNER_BYTES - self._grown_bytes))
            children = [child for zygote in self._zygotes.values() for child in zygote.children]
            for child in children:
                child.stop_overtime()
            grown = {child: child.grown() for child in children}
            self._grown_bytes = sum(grown.values())
            for child in find_excess(grown, RUNNER_BYTES):
                share = f"{grown[child] >> 20} of {self._grown_bytes >> 20} MiB"
                reason = f"overload: all programs are over {RUNNER_BYTES >> 20} MiB together; this program had {share}"
                child.end(Faulted("infrastructure", reason, evicted=True))
                self._grown_bytes -= grown[child]
                self._evictions += 1

    async def child(self, source: str, twin: int = PLAYS, limits: Limits | None = None) -> ChildProcess | Faulted:
        """Fork a fresh child from the zygote of the kind that `source` needs. Its program is not loaded yet.

        `twin` selects one of the two zygotes of this kind. `limits` default to the sandbox's. A program of one of
        `sandbox.servers` gets a session of the server instead.
        """
        if served := read_served(source, self.limits.servers):
            return open_served(served, self._nursery)
        try:
            zygote = await self._get_zygote(self._find_kind(source), twin)
        except STARTING as error:
            return Faulted("infrastructure", f"the zygote did not start: {error!r}")
        except BreachError as error:
            return Faulted("infrastructure", f"the sandbox failed its test: {error}")
        limits = limits or self.limits
        if any(judge in source for judge in self._judges):
            sibling = partial(self._spawn_child, zygote, source, limits)
            return await self._spawn_child(zygote, source, limits, partial(JudgingProcess, sibling))
        return await self._spawn_child(zygote, source, limits)

    async def _spawn_child(
        self, zygote: Zygote, source: str, limits: Limits, make: Make = ChildProcess
    ) -> ChildProcess:
        self.spawns += 1
        process = await zygote.fork(limits.memory_bytes, PROCESSOR_STEPS * limits.step_s, make)
        process.program = source
        return process

    def _find_kind(self, source: str) -> Kind:
        """Return the kind of zygote that a program needs, judged by its text."""
        if any(base in source for base in self._bases):
            return "libraries"
        return "heavy" if _HEAVY.search(source) else "light"

    async def _get_zygote(self, kind: Kind, twin: int) -> Zygote:
        async with self._starting[kind, twin]:
            zygote = self._zygotes.get((kind, twin))
            if zygote is None or not zygote.alive:
                is_fixed = self._fixed_hashes or (kind, twin) == ("libraries", PLAYS)
                hash_seed = FIXED_HASH_SEED + twin if is_fixed else draw_hash_seed()
                zygote = await self._nursery.start(run_zygote, self.layers, kind, hash_seed, self.limits.libraries)
                await self._check_attacks(zygote)
                self._zygotes[kind, twin] = zygote
            return zygote

    async def _check_attacks(self, zygote: Zygote) -> None:
        """Raise BreachError if an attack succeeds. One child makes all attacks. If it dies, a new child goes on."""
        limits = self.limits
        process: ChildProcess | None = None
        try:
            for what in self._attacks:
                if process is None:
                    process = await zygote.fork(limits.memory_bytes, PROCESSOR_STEPS * limits.step_s)
                    for request in (LoadProgram(ATTACKER, len(self._attacks)), Reset(0)):
                        answer = await process.request(request, limits.load_s)
                        if isinstance(answer, Faulted):
                            raise BreachError(answer.detail)
                answer = await process.request(Step(ATTACKS[what]), limits.step_s)
                if isinstance(answer, Faulted) and answer.environment_fault:
                    process.kill()
                    process = None
                elif not (isinstance(answer, StepReply) and answer.text.startswith(REFUSED)):
                    raise BreachError(f"a program can {what}")
        finally:
            if process is not None:
                process.kill()


def widen_limits(limits: Limits, needs: Needs) -> Limits:
    """Return the limits widened to an episode's needs, at most to ITEM_STEP_S and ITEM_BYTES."""
    return msgspec.structs.replace(
        limits,
        step_s=max(limits.step_s, min(needs.step_s, ITEM_STEP_S)),
        memory_bytes=max(limits.memory_bytes, min(needs.memory_bytes, ITEM_BYTES)),
    )


def check_answer(answer: Answer | Faulted, limits: Limits, calls: int = 0) -> Observed | Faulted:
    """Check an answer to `reset`, `step` or a message of `calls` calls. Returns the observation, or a fault."""
    if isinstance(answer, Faulted):
        return answer
    if not isinstance(answer, StepReply):
        return OTHER_KIND
    if not abs(answer.reward) <= REWARD_BOUND:
        return Faulted(
            "reward", f"the reward must be within ±{REWARD_BOUND:g}, is {format_beside(answer.reward, REWARD_BOUND)}"
        )
    if not answer.free <= answer.done <= answer.instructions:
        return Faulted("protocol", f"{answer.done} of {answer.instructions} instructions are done, {answer.free} free")
    if len(answer.text.encode()) > OBSERVATION_BYTES:
        return Faulted("protocol", f"the observation is over {OBSERVATION_BYTES} bytes")
    if len(answer.results) != calls:
        return Faulted("protocol", f"{len(answer.results)} results of {calls} calls")
    if sum(len(result.text.encode()) for result in answer.results) > OBSERVATION_BYTES:
        return Faulted("protocol", f"the results of a message are over {OBSERVATION_BYTES} bytes")
    tools = msgspec.json.encode(answer.tools).decode() if answer.tools else ""
    if len(tools.encode()) > OBSERVATION_BYTES:
        return Faulted("protocol", f"the tools are over {OBSERVATION_BYTES} bytes")
    results = tuple(ToolResult(result.text, result.refused) for result in answer.results)
    played = answer.text, answer.reward, answer.terminated, answer.truncated
    return Observed(*played, results, tools, answer.done, answer.instructions, answer.free)
