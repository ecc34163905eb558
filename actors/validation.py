"""Admission: named stages that a candidate passes one after the other, each of which can fail.

    parse        it compiles, its literal braces doubled where need be (`actors/sandbox/inside/repair.py`)
    class        it runs, and has one environment class
    interface    solution and close are methods, where there are such
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
from collections.abc import Sequence

import trio

from actors.probes import NONSENSE, NUMBERS, Transcript, choose, difference, indifferent
from actors.sandbox import Sandbox
from actors.sandbox.host import PLAYS, REPEATS
from actors.sandbox.wire import Solve, Solved
from actors.trials import Policy, RejectedError, Trials
from spade.config import Play
from spade.config import Sandbox as Limits
from spade.protocol import Observed, Stage, Verdict
from spade.seeds import INSTANCE_MASK, derive

LOADING = ("parse", "class", "interface", "construct")
SOLVED_PLAYS = 2


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


class Admission:
    """One candidate on its way through the stages."""

    def __init__(self, sandbox: Sandbox, source: str, seed: int, limits: Limits, play: Play) -> None:
        self.trials = Trials(sandbox, source, limits, play.max_turns)
        self.limits = limits
        self.win_return = play.win_return
        key = (seed % 2**64).to_bytes(8, "little")  # whatever integer the wire carries
        count = max(limits.random_plays, SOLVED_PLAYS)
        self.seeds = [derive(key, "instance", index) & INSTANCE_MASK for index in range(count)]
        self.rng = random.Random(derive(key, "probe"))
        self.stages: list[Stage] = []
        self.transcripts: list[Transcript] = []
        self.seed_sensitive = False
        self.stage, self.began = LOADING[0], time.monotonic()

    def close(self, reason: str, passed: bool) -> None:
        """The running stage has come to its end."""
        now = time.monotonic()
        self.stages.append(Stage(self.stage, passed, reason, now - self.began))
        self.began = now

    def verdict(self) -> Verdict:
        passed = all(stage.passed for stage in self.stages)
        first = self.transcripts[0].answers[0].observation if self.transcripts else ""
        name, repairs = self.trials.name, self.trials.repairs
        return Verdict(passed, tuple(self.stages), name, self.seed_sensitive, first, repairs=repairs)

    async def run(self) -> None:
        """All stages; raises RejectedError from the one that fails."""
        try:
            await self.probe(self.seeds[0], self.anything)
        except (RejectedError, trio.Cancelled):
            self.reach(self.trials.life if self.trials.life in LOADING else "episode")
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

    async def probe(self, seed: int, policy: Policy) -> Transcript:
        """A play that is kept for the later stages."""
        transcript = await self.trials.play(seed, policy, PLAYS)
        self.transcripts.append(transcript)
        return transcript

    async def seldom_wins(self, who: str, plays: list[Transcript], seeds: Sequence[int], policy: Policy) -> str:
        """Add plays of these seeds until it is certain whether `who` wins too often; refuse a program where it does."""
        count = len(plays) + len(seeds)
        limit = self.limits.random_win_share * count if self.limits.random_plays else count
        for seed in seeds:
            plays.append(await self.probe(seed, policy))
            wins = sum(play.won(self.win_return) for play in plays)
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
            if play.won(self.win_return) and play.actions[-1] in NONSENSE:
                raise RejectedError(f"nonsense wins: {play.actions[-1][:40]!r}")
        return ""

    async def budget(self) -> str:
        """A program at the edge of its limits would fall over it beside others."""
        time_s, memory = self.limits.step_s / 2, self.limits.memory_bytes // 2
        if self.trials.slowest_s > time_s:
            raise RejectedError(f"a call took {self.trials.slowest_s:.2f} s, more than {time_s:g} s")
        if self.trials.peak_bytes > memory:
            raise RejectedError(f"it takes {self.trials.peak_bytes >> 20} MiB of memory, more than {memory >> 20} MiB")
        return f"at most {1000 * self.trials.slowest_s:.1f} ms a call, {self.trials.peak_bytes / 2**20:.1f} MiB"

    async def repeatable(self) -> str:
        """The same seed and actions give the same transcript: from zygotes with different hashes, too."""
        firsts: dict[int, Observed] = {}
        for transcript in self.transcripts:
            same(firsts.setdefault(transcript.seed, transcript.answers[0]), transcript.answers[0], "reset")
        for first in (self.transcripts[1], self.transcripts[-1]):
            again = await self.trials.play(first.seed, consuming(list(first.actions)), REPEATS)
            same(first.answers[0], again.answers[0], "reset")
            for action, one, two in zip(first.actions, first.answers[1:], again.answers[1:], strict=False):
                same(one, two, f"action {action[:40]!r}")
        return ""

    async def solution(self) -> str:
        """Where `solution()` lists actions, they win; asked in one process, played in another."""
        for seed in self.seeds[:SOLVED_PLAYS]:
            async with self.trials.opened(seed, PLAYS) as (process, _):
                solved = await self.trials.ask(process, Solve())
            if not isinstance(solved, Solved) or solved.actions is None:
                return "described or left out, not replayed"
            play = await self.probe(seed, consuming(list(solved.actions)))
            if not play.won(self.win_return) or len(play.actions) > len(solved.actions):
                listed = ", ".join(solved.actions)[:200]
                raise RejectedError(f"the solution does not win; its {len(solved.actions)} actions are [{listed}]")
        return ""

    async def effect(self) -> str:
        """What happens depends on the actions."""
        reason = indifferent(self.transcripts, self.win_return)
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
