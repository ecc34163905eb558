"""Admission: named stages that a candidate passes one after the other, each of which can fail.

    parse        it compiles
    class        it runs, and has one environment class
    interface    reset, step, solution and close are there
    construct    the class builds
    episode      it resets and steps under secret seeds, with answers of the right types
    random       random actions, taken from what the observation offers, seldom win
    constant     nor does one action, always
    garbage      nonsense for an action neither raises nor wins
    budget       no call so far took more than half of the time it may take, nor the process half of its memory
    repeatable   a zygote of another hash seed plays the same actions to the same transcript
    solution     where `solution()` lists actions, they win
    effect       what happens depends on the actions

Every play is what an agent's is: a fresh process, load, one reset, steps, the end. So a program cannot tell admission
from a play by the order of calls; `solution()` is asked in processes that are not played.
"""

import random
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import trio

from actors.probes import NONSENSE, NUMBERS, Transcript, choose, difference, indifferent
from actors.sandbox import Sandbox
from actors.sandbox.host import TWINS, checked
from actors.sandbox.process import Answer, Process
from actors.sandbox.wire import Load, Loaded, Request, Reset, Solve, Solved, Step
from spade.config import Play
from spade.config import Sandbox as Limits
from spade.errors import RunError
from spade.protocol import Faulted, Observed, Stage, Verdict
from spade.seeds import INSTANCE_MASK, derive

LOADING = ("parse", "class", "interface", "construct")
SOLVED_PLAYS = 2

Policy = Callable[[str], str]


async def validate(sandbox: Sandbox, source: str, seed: int, limits: Limits, play: Play | None = None) -> Verdict:
    """Admit a program or say why not. `seed` keys the secret instance seeds, `play` bounds a play and says what wins.

    A whole admission takes at most load_s + 4 step_s. Raises RunError where the sandbox fails, not the program.
    """
    admission = Admission(sandbox, source, seed, limits, play or Play())
    patience_s = limits.load_s + 4 * limits.step_s
    with trio.move_on_after(patience_s) as scope:
        try:
            await admission.run()
        except RejectedError as rejection:
            admission.close(str(rejection), passed=False)
    if scope.cancelled_caught:
        admission.close(f"all stages together take more than {patience_s:g} s", passed=False)
    return admission.verdict()


class RejectedError(Exception):
    """The candidate fails the stage that is running."""


class Admission:
    """One candidate on its way through the stages."""

    def __init__(self, sandbox: Sandbox, source: str, seed: int, limits: Limits, play: Play) -> None:
        self.sandbox = sandbox
        self.source = source
        self.limits = limits
        self.rules = play
        self.loading = Load(source, play.max_turns, limits.observation_bytes)
        key = (seed % 2**64).to_bytes(8, "little")  # whatever integer the wire carries
        count = max(limits.random_plays, SOLVED_PLAYS)
        self.seeds = [derive(key, "instance", index) & INSTANCE_MASK for index in range(count)]
        self.rng = random.Random(derive(key, "probe"))
        self.twin = derive(key, "twin") % TWINS
        self.stages: list[Stage] = []
        self.transcripts: list[Transcript] = []
        self.name = ""
        self.seed_sensitive = False
        self.slowest_s = 0.0
        self.peak_bytes = 0
        self.stage, self.life, self.began = LOADING[0], "class", time.monotonic()

    def close(self, reason: str, passed: bool) -> None:
        """The running stage has come to its end."""
        now = time.monotonic()
        self.stages.append(Stage(self.stage, passed, reason, now - self.began))
        self.began = now

    def verdict(self) -> Verdict:
        passed = all(stage.passed for stage in self.stages)
        first = self.transcripts[0].answers[0].observation if self.transcripts else ""
        return Verdict(passed, tuple(self.stages), self.name, self.seed_sensitive, first)

    async def run(self) -> None:
        """All stages; raises RejectedError from the one that fails."""
        try:
            await self.probe(self.seeds[0], self.anything)
        except (RejectedError, trio.Cancelled):
            self.reach(self.life if self.life in LOADING else "episode")
            raise
        self.reach("episode")
        probes = (self.episode, self.random, self.constant, self.garbage, self.budget)
        for stage in (*probes, self.repeatable, self.solution, self.effect):
            self.stage = stage.__name__
            self.close(await stage(), passed=True)

    def reach(self, stage: str) -> None:
        """The first play shows the stages before this one passed; its time is booked on the first of them."""
        for name in LOADING[: LOADING.index(stage) if stage in LOADING else None]:
            self.stage = name
            self.close("", passed=True)
        self.stage = stage

    # ------------------------------------------------------------ talking to the program

    @asynccontextmanager
    async def opened(self, seed: int, twin: int) -> AsyncIterator[tuple[Process, Observed]]:
        """A fresh process that loaded the program and reset it, and what it observes."""
        process = await self.sandbox.child(self.source, twin)
        if isinstance(process, Faulted):
            raise RunError(f"the sandbox failed: {process.detail}")
        try:
            loaded = await self.ask(process, self.loading)
            self.name = loaded.name if isinstance(loaded, Loaded) else ""
            yield process, await self.observe(process, Reset(seed))
        finally:
            self.life = process.stage
            process.kill()

    async def ask(self, process: Process, request: Request) -> Answer:
        """The program's answer; its fault is a RejectedError, ours a RunError."""
        loading, began = isinstance(request, Load), time.monotonic()
        answer = await process.request(request, self.limits.load_s if loading else self.limits.step_s)
        if not isinstance(answer, Faulted):
            self.slowest_s = max(self.slowest_s, 0.0 if loading else time.monotonic() - began)
            self.peak_bytes = max(self.peak_bytes, process.grown())
            return answer
        if not answer.environment_fault:
            raise RunError(f"the sandbox failed: {answer.detail}")
        raise RejectedError(f"{answer.kind}: {answer.detail}")

    async def observe(self, process: Process, request: Reset | Step) -> Observed:
        answer = checked(await self.ask(process, request), self.limits)
        if isinstance(answer, Faulted):
            raise RejectedError(f"{answer.kind}: {answer.detail}")
        return answer

    async def play(self, seed: int, policy: Policy, twin: int) -> Transcript:
        """One play to its end, in a process of its own."""
        async with self.opened(seed, twin) as (process, first):
            answers, actions = [first], list[str]()
            while len(actions) < self.rules.max_turns and not (answers[-1].terminated or answers[-1].truncated):
                actions.append(policy(answers[-1].observation))
                answers.append(await self.observe(process, Step(actions[-1])))
        return Transcript(seed, tuple(actions), tuple(answers))

    async def probe(self, seed: int, policy: Policy) -> Transcript:
        """A play that is kept for the later stages."""
        transcript = await self.play(seed, policy, self.twin)
        self.transcripts.append(transcript)
        return transcript

    async def seldom_wins(self, who: str, plays: list[Transcript], seeds: Sequence[int], policy: Policy) -> str:
        """Add plays of these seeds until it is certain whether `who` wins too often; refuse a program where it does."""
        count = len(plays) + len(seeds)
        limit = self.limits.random_win_share * count if self.limits.random_plays else count
        for seed in seeds:
            plays.append(await self.probe(seed, policy))
            wins = sum(play.won(self.rules.win_return) for play in plays)
            if wins > limit:
                raise RejectedError(f"{who} wins {wins} of {len(plays)} plays; of {count} it may win {limit:g}")
            if wins + count - len(plays) <= limit and len(plays) > 1:
                break
        return f"{wins} of {len(plays)} won" if self.limits.random_plays else "not probed"

    # ------------------------------------------------------------ the stages

    async def episode(self) -> str:
        """It resets and steps, with answers of the right types."""
        turns = len(self.transcripts[0].actions)
        if not turns:
            raise RejectedError("the episode is over before the first action")
        return f"{turns} turns"

    async def random(self) -> str:
        """Random actions seldom win."""
        if self.limits.random_plays < 2:
            return "not probed"
        seeds = self.seeds[1 : self.limits.random_plays]
        return await self.seldom_wins("random play", [*self.transcripts], seeds, self.anything)

    async def constant(self) -> str:
        """Nor does one action, always. The same actions under several seeds also show whether the seed matters."""
        always = self.anything(self.transcripts[0].answers[0].observation)
        plays: list[Transcript] = []
        seeds = self.seeds[: max(2, len(self.seeds) // 2)]
        told = await self.seldom_wins(f"always {always[:40]!r}", plays, seeds, lambda _: always)
        self.seed_sensitive = len({play.answers for play in plays}) > 1
        return told

    async def garbage(self) -> str:
        """Nonsense for an action neither raises nor wins."""
        left = [*NONSENSE, *NUMBERS]
        while left:
            play = await self.probe(self.seeds[0], consuming(left))
            if play.won(self.rules.win_return) and play.actions[-1] in NONSENSE:
                raise RejectedError(f"nonsense wins: {play.actions[-1][:40]!r}")
        return ""

    async def budget(self) -> str:
        """A program at the edge of its limits would fall over it beside others."""
        time_s, memory = self.limits.step_s / 2, self.limits.memory_bytes // 2
        if self.slowest_s > time_s:
            raise RejectedError(f"a call took {self.slowest_s:.2f} s, more than {time_s:g} s")
        if self.peak_bytes > memory:
            raise RejectedError(f"it takes {self.peak_bytes >> 20} MiB of memory, more than {memory >> 20} MiB")
        return f"at most {1000 * self.slowest_s:.1f} ms a call, {self.peak_bytes / 2**20:.1f} MiB"

    async def repeatable(self) -> str:
        """The same seed and actions give the same transcript: from zygotes with different hashes, too."""
        firsts: dict[int, Observed] = {}
        for transcript in self.transcripts:
            same(firsts.setdefault(transcript.seed, transcript.answers[0]), transcript.answers[0], "reset")
        for first in (self.transcripts[1], self.transcripts[-1]):
            again = await self.play(first.seed, consuming(list(first.actions)), (self.twin + 1) % TWINS)
            same(first.answers[0], again.answers[0], "reset")
            for action, one, two in zip(first.actions, first.answers[1:], again.answers[1:], strict=False):
                same(one, two, f"action {action[:40]!r}")
        return ""

    async def solution(self) -> str:
        """Where `solution()` lists actions, they win; asked in one process, played in another."""
        for seed in self.seeds[:SOLVED_PLAYS]:
            async with self.opened(seed, self.twin) as (process, _):
                solved = await self.ask(process, Solve())
            if not isinstance(solved, Solved) or solved.actions is None:
                return "described, not replayed"
            play = await self.probe(seed, consuming(list(solved.actions)))
            if not play.won(self.rules.win_return) or len(play.actions) > len(solved.actions):
                listed = ", ".join(solved.actions)[:200]
                raise RejectedError(f"the solution does not win; its {len(solved.actions)} actions are [{listed}]")
        return ""

    async def effect(self) -> str:
        """What happens depends on the actions."""
        reason = indifferent(self.transcripts, self.rules.win_return)
        if reason:
            raise RejectedError(reason)
        return ""

    def anything(self, observation: str) -> str:
        return choose(observation, self.rng)


def same(first: Observed, second: Observed, after: str) -> None:
    """Refuse a program that answered the same actions otherwise."""
    changed = difference(first, second)
    if changed:
        raise RejectedError(f"not repeatable: after {after} under the same seed, {changed}")


def consuming(actions: list[str]) -> Policy:
    """Takes one after the other from the list, then has nothing to say."""
    return lambda _: actions.pop(0) if actions else ""
