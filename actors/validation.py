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
    repeatable   a fresh process with another hash seed plays the same actions to the same transcript
    solution     where `solution()` lists actions, they win
    effect       what happens depends on the actions

Every play is driven turn by turn as an agent's is, so that a program cannot tell admission from a play.
"""

import random
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import trio

from actors.probes import NONSENSE, NUMBERS, Transcript, choose, difference, indifferent
from actors.sandbox import Sandbox
from actors.sandbox.host import OTHER_HASH_SEED, PLAY_HASH_SEED, checked
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
        self.stages: list[Stage] = []
        self.transcripts: list[Transcript] = []
        self.name = self.first_observation = ""
        self.seed_sensitive = False
        self.slowest_s = 0.0
        self.peak_bytes = 0
        self.stage, self.began = LOADING[0], time.monotonic()

    def close(self, reason: str, passed: bool) -> None:
        """The running stage has come to its end."""
        now = time.monotonic()
        self.stages.append(Stage(self.stage, passed, reason, now - self.began))
        self.began = now

    def verdict(self) -> Verdict:
        passed = all(stage.passed for stage in self.stages)
        return Verdict(passed, tuple(self.stages), self.name, self.seed_sensitive, self.first_observation)

    async def run(self) -> None:
        """All stages; raises RejectedError from the one that fails."""
        probes = (self.episode, self.random, self.constant, self.garbage, self.budget)
        later = (*probes, self.repeatable, self.solution, self.effect)
        async with self.process(PLAY_HASH_SEED) as process:
            await self.load(process)
            for stage in later:
                self.stage = stage.__name__
                self.close(await stage(process), passed=True)

    # ------------------------------------------------------------ talking to the program

    @asynccontextmanager
    async def process(self, hash_seed: int) -> AsyncIterator[Process]:
        process = await self.sandbox.child(self.source, hash_seed)
        if isinstance(process, Faulted):
            raise RunError(f"the sandbox failed: {process.detail}")
        try:
            yield process
        finally:
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

    async def play(self, process: Process, seed: int, policy: Policy) -> Transcript:
        """One play to its end, kept for the later stages."""
        answers = [await self.observe(process, Reset(seed))]
        actions: list[str] = []
        while len(actions) < self.rules.max_turns and not (answers[-1].terminated or answers[-1].truncated):
            actions.append(policy(answers[-1].observation))
            answers.append(await self.observe(process, Step(actions[-1])))
        transcript = Transcript(seed, tuple(actions), tuple(answers))
        self.transcripts.append(transcript)
        return transcript

    def share(self, plays: Sequence[Transcript], who: str) -> str:
        """Refuse a program that `who` wins too often."""
        wins, limit = sum(play.won(self.rules.win_return) for play in plays), self.limits.random_win_share
        if wins > limit * len(plays):
            raise RejectedError(f"{who} wins {wins} of {len(plays)} plays, more than the allowed share of {limit:g}")
        return f"{wins} of {len(plays)} won"

    # ------------------------------------------------------------ the stages

    async def load(self, process: Process) -> None:
        """parse, class, interface and construct: the child says which one failed. Their time is booked on the first."""
        failed = ""
        try:
            loaded = await self.ask(process, self.loading)
            self.name = loaded.name if isinstance(loaded, Loaded) else ""
            self.first_observation = (await self.observe(process, Reset(self.seeds[0]))).observation
        except (RejectedError, trio.Cancelled):
            failed = process.stage if process.stage in LOADING else "episode"
            raise
        finally:
            for stage in LOADING[: LOADING.index(failed) if failed in LOADING else None]:
                self.stage = stage
                self.close("", passed=True)
            self.stage = failed

    async def episode(self, process: Process) -> str:
        """It resets and steps, with answers of the right types."""
        transcript = await self.play(process, self.seeds[0], self.anything)
        if not transcript.actions:
            raise RejectedError("the episode is over before the first action")
        return f"{len(transcript.actions)} turns"

    async def random(self, process: Process) -> str:
        """Random actions seldom win."""
        for seed in self.seeds[1 : self.limits.random_plays]:
            await self.play(process, seed, self.anything)
        return self.share(self.transcripts, "random play") if self.limits.random_plays else "not probed"

    async def constant(self, process: Process) -> str:
        """Nor does one action, always. The same actions under several seeds also show whether the seed matters."""
        always = self.anything(self.first_observation)
        plays = [
            await self.play(process, seed, lambda _: always) for seed in self.seeds[: max(2, len(self.seeds) // 2)]
        ]
        self.seed_sensitive = len({play.answers for play in plays}) > 1
        return self.share(plays, f"always {always[:40]!r}") if self.limits.random_plays else "not probed"

    async def garbage(self, process: Process) -> str:
        """Nonsense for an action neither raises nor wins."""
        for actions, may_win in ((NONSENSE, False), (NUMBERS, True)):
            left = list(actions)
            while left:
                play = await self.play(process, self.seeds[0], consuming(left))
                if play.won(self.rules.win_return) and not may_win:
                    raise RejectedError(f"nonsense wins: {play.actions[-1][:40]!r}")
        return ""

    async def budget(self, process: Process) -> str:
        """A program at the edge of its limits would fall over it beside others."""
        time_s, memory = self.limits.step_s / 2, self.limits.memory_bytes // 2
        if self.slowest_s > time_s:
            raise RejectedError(f"a call took {self.slowest_s:.2f} s, more than {time_s:g} s")
        if self.peak_bytes > memory:
            raise RejectedError(f"it takes {self.peak_bytes >> 20} MiB of memory, more than {memory >> 20} MiB")
        return f"at most {1000 * self.slowest_s:.1f} ms a call, {self.peak_bytes / 2**20:.1f} MiB"

    async def repeatable(self, process: Process) -> str:
        """The same seed and actions give the same transcript: here, and in a fresh process with other hashes."""
        firsts: dict[int, Observed] = {}
        for transcript in self.transcripts:
            self.same(firsts.setdefault(transcript.seed, transcript.answers[0]), transcript.answers[0], "reset")
        async with self.process(OTHER_HASH_SEED) as fresh:
            await self.ask(fresh, self.loading)
            for transcript in (self.transcripts[1], self.transcripts[0], self.transcripts[-1]):
                self.same(transcript.answers[0], await self.observe(fresh, Reset(transcript.seed)), "reset")
                for action, answer in zip(transcript.actions, transcript.answers[1:], strict=True):
                    self.same(answer, await self.observe(fresh, Step(action)), f"action {action[:40]!r}")
        return ""

    async def solution(self, process: Process) -> str:
        """Where `solution()` lists actions, they win; asked after a reset, played after another."""
        for seed in self.seeds[:SOLVED_PLAYS]:
            await self.observe(process, Reset(seed))
            solved = await self.ask(process, Solve())
            if not isinstance(solved, Solved) or solved.actions is None:
                return "described, not replayed"
            play = await self.play(process, seed, consuming(list(solved.actions)))
            if not play.won(self.rules.win_return) or len(play.actions) > len(solved.actions):
                listed = ", ".join(solved.actions)[:200]
                raise RejectedError(f"the solution does not win; its {len(solved.actions)} actions are [{listed}]")
        return ""

    async def effect(self, process: Process) -> str:
        """What happens depends on the actions."""
        reason = indifferent(self.transcripts, self.rules.win_return)
        if reason:
            raise RejectedError(reason)
        return ""

    def same(self, first: Observed, second: Observed, after: str) -> None:
        changed = difference(first, second)
        if changed:
            raise RejectedError(f"not repeatable: after {after} under the same seed, {changed}")

    def anything(self, observation: str) -> str:
        return choose(observation, self.rng)


def consuming(actions: list[str]) -> Policy:
    """Takes one after the other from the list, then has nothing to say."""
    return lambda _: actions.pop(0) if actions else ""
