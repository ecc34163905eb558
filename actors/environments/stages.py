"""The stages that the admissions of all domains share, and the base class that runs and records stages.

    budget       no call took more than half of its time, and no process took more than half of its memory
    repeatable   under another hash seed the same actions give the same transcript
    effect       the outcome depends on the actions

Every play makes the same calls as an agent's play: a fresh process, load, one reset, turns, the end. So a program
cannot tell admission from a play by the order of calls. Other requests go to processes that are not played, or come
after the last turn. Stages with few plays come first. The tests of luck (`sequential.py`) need the most plays, each on
its own instance.
"""

import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import ClassVar, Generic

import trio

from actors.environments.probes import Action, Transcript, describe_difference, has_other_rewards, is_unchanging
from actors.environments.sequential import BOUND, decide
from actors.environments.trials import Probing, RejectedError, make_policy
from actors.sandbox.host import PLAYS, REPEATS
from actors.text.measures.program import measure
from spade.config import PATIENCE
from spade.protocol import Measures, Observed, Stage, Verdict
from spade.text import format_beside

REFUSED_GAP = 0.15
"""A program whose random play wins a share of random_win_share + REFUSED_GAP passes at most once in 100 admissions."""
PLAYS_A_STEP = 5
"""Number of plays of a test of luck that together may take `step_s`."""
WINS_REPEATED = 3
"""The largest number of won instances that the stage `effect` plays again by doing nothing."""


class Admission(ABC, Generic[Action]):
    """The admission of one candidate program: the stages of its domain and their results."""

    loading: ClassVar[Sequence[str]]
    """The stages that a candidate has passed once its first process answers `reset`."""
    nothing: Action
    """The action of a player that does nothing."""

    def __init__(self, probing: Probing[Action]) -> None:
        self.probing = probing
        self.trials = probing.trials
        self.limits = probing.trials.limits
        self.stages: list[Stage] = []
        self.seed_sensitive = False
        self.stage, self.began = self.loading[0], time.monotonic()
        self.deadline = trio.move_on_after(PATIENCE * probing.trials.patience_s)

    # ------------------------------------------------------------ stages that each domain defines

    @abstractmethod
    async def begin(self) -> None:
        """Load the program and call `reset` for the first time."""

    @abstractmethod
    def order(self) -> Sequence[Callable[[], Awaitable[str]]]:
        """Return the methods of the stages after the loading, `episode` first. A method returns the stage's remark."""

    @abstractmethod
    def describe(self, action: Action) -> str:
        """Describe an action in the text of a rejection."""

    @property
    def remark(self) -> str:
        """A text to append to the reasons of stages with random actions."""
        return ""

    # ------------------------------------------------------------ from stage to stage

    async def run(self) -> None:
        """Run all stages. Raises RejectedError at the first stage that fails."""
        try:
            await self.begin()
        except (RejectedError, trio.Cancelled):
            self.reach(self.trials.life if self.trials.life in self.loading else "episode")
            raise
        self.reach("episode")
        for stage in self.order():
            self.stage = stage.__name__
            self.close(await stage(), passed=True)

    def close(self, reason: str, passed: bool) -> None:
        """Record the end of the running stage, with its reason and duration."""
        now = time.monotonic()
        self.stages.append(Stage(self.stage, passed, reason, now - self.began))
        self.began = now

    def reach(self, stage: str) -> None:
        """Record that all loading stages before `stage` passed. The first of them gets the duration of all."""
        for name in self.loading[: self.loading.index(stage) if stage in self.loading else None]:
            self.stage = name
            self.close("", passed=True)
        self.stage = stage

    async def verdict(self) -> Verdict:
        passed = all(stage.passed for stage in self.stages)
        plays = self.probing.transcripts
        first = plays[0].answers[0].observation if plays else ""
        name, repairs = self.trials.name, self.trials.repairs
        # In a thread, since a long program takes time. A rejected program is not stored, so nobody reads its measures.
        measures = await trio.to_thread.run_sync(measure, self.trials.source, name) if passed else Measures()
        return Verdict(passed, tuple(self.stages), name, self.seed_sensitive, first, "inside", repairs, measures)

    async def seldom_wins(
        self,
        who: str,
        plays: list[Transcript[Action]],
        high: float,
        play: Callable[[int], Awaitable[Transcript[Action]]],
    ) -> str:
        """Play one instance after the other until it is certain enough whether `who` wins too often.

        The program is rejected if the share is `high` or more, and passes if it is random_win_share or less.
        """
        low, extra_s = self.limits.random_win_share, self.limits.step_s / PLAYS_A_STEP
        while True:
            self.trials.patience_s += extra_s
            self.deadline.deadline += PATIENCE * extra_s
            plays.append(await play(self.probing.seed(len(plays))))
            wins = sum(each.won(self.probing.win_return) for each in plays)
            decision = decide(wins, len(plays), low, high) if low < high else "admit"
            sure = "" if len(plays) < BOUND else "uncertain: "
            if decision == "reject":
                raise RejectedError(f"{sure}{who} wins {wins} of {len(plays)} plays, more than a share of {low:g}")
            if decision == "admit" and len(plays) > 1:
                return f"{sure}{wins} of {len(plays)} won"

    @property
    def refused_share(self) -> float:
        """The share of wins at which random play is refused for certain."""
        return min(1.0, self.limits.random_win_share + REFUSED_GAP)

    @property
    def refused_constant(self) -> float:
        """The share of wins at which a constant action is refused for certain.

        It is halfway from random_win_share to 1, since the stage `random` has already tested for luck.
        """
        return (1 + self.limits.random_win_share) / 2

    # ------------------------------------------------------------ the last stages

    async def budget(self) -> str:
        """Check that the time of calls and the memory stay under half of their limits.

        A program near a limit would exceed it in some plays.
        """
        time_s, memory = self.limits.step_s / 2, self.limits.memory_bytes // 2
        if self.trials.slowest_s > time_s:
            raise RejectedError(f"a call took {format_beside(self.trials.slowest_s, time_s)} s, more than {time_s:g} s")
        if self.trials.peak_bytes > memory:
            raise RejectedError(f"it takes {self.trials.peak_bytes >> 20} MiB of memory, more than {memory >> 20} MiB")
        return f"at most {1000 * self.trials.slowest_s:.1f} ms a call, {self.trials.peak_bytes / 2**20:.1f} MiB"

    async def repeatable(self) -> str:
        """Check that the same seed and actions give the same transcript, also in a zygote with another hash seed."""
        plays = self.probing.transcripts
        firsts: dict[int, Observed] = {}
        for transcript in plays:
            require_same(firsts.setdefault(transcript.seed, transcript.answers[0]), transcript.answers[0], "reset")
        for first in (plays[0], plays[-1]):
            again = await self.trials.play(first.seed, make_policy(list(first.actions), self.nothing), REPEATS)
            require_same(first.answers[0], again.answers[0], "reset")
            for action, one, two in zip(first.actions, first.answers[1:], again.answers[1:], strict=False):
                require_same(one, two, self.describe(action))
        return ""

    async def effect(self) -> str:
        """Check that the outcome depends on the actions.

        Two plays of one instance that differ in a reward prove it. If an instance was played only once, and won, it is
        played again by a player that does nothing. If no instance is won, the remark says that the test is uncertain,
        and the program passes. Its designer is paid only after an agent wins, and wins are audited.
        """
        plays = list(self.probing.transcripts)
        if has_other_rewards(plays):
            return ""
        times = Counter(play.seed for play in plays)
        won = {play.seed: play for play in plays if play.won(self.probing.win_return)}
        for play in [play for seed, play in won.items() if times[seed] == 1][:WINS_REPEATED]:
            plays.append(await self.trials.play(play.seed, make_policy([], self.nothing), PLAYS))
            if has_other_rewards((play, plays[-1])):
                return ""
        if is_unchanging(plays):
            raise RejectedError(f"whatever was tried, the same happened{self.remark}")
        figures = f"{len(won)} of {len(times)} instances were won"
        if won:
            raise RejectedError(f"winning depends on the seed alone: {figures}, whatever was done{self.remark}")
        return f"uncertain: {figures}, and no two plays of one instance differ in a reward{self.remark}"


def require_same(first: Observed, second: Observed, after: str) -> None:
    """Raise RejectedError if two answers to the same actions differ."""
    changed = describe_difference(first, second)
    if changed:
        raise RejectedError(f"not repeatable: after {after} under the same seed, {changed}")
