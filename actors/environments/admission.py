"""Admission: named stages that a candidate program passes one after the other; each may reject it.

    parse        it compiles, its literal braces doubled where need be (`actors/sandbox/inside/repair.py`)
    class        its module runs, and has one environment class
    interface    solution and close are methods, where there are such
    construct    the class builds
    episode      it resets and steps under secret seeds, with answers of the right types
    solution     if `solution()` lists actions, they win; it shows which form of an action the program reads
    garbage      nonsense for an action neither raises nor wins
    random       random actions of those that the observation offers seldom win
    constant     one action, repeated, seldom wins
    budget       no call took more than half of its time so far, and no process more than half of its memory
    repeatable   under another hash seed the same actions give the same transcript
    effect       the outcome depends on the actions

Every play has the calls of an agent's play: a fresh process, load, one reset, steps, the end. So a program cannot tell
admission from a play by the order of calls; `solution()` is called in processes that are not played. Stages of few
plays come first: the tests of luck (`sequential.py`), of which each play has its own instance, need the most.
"""

import time
from functools import cached_property

import trio

from actors.environments.forms import Probing, consuming
from actors.environments.offers import offered
from actors.environments.probes import NONSENSE, NUMBERS, Transcript, difference, indifferent
from actors.environments.sequential import decide
from actors.environments.trials import Policy, RejectedError
from actors.sandbox import Sandbox
from actors.sandbox.host import REPEATS
from actors.text.actions import sent
from actors.text.measures.program import measure
from spade.config import Play
from spade.config import Sandbox as Limits
from spade.protocol import Measures, Observed, Stage, Verdict

LOADING = ("parse", "class", "interface", "construct")
UNREADABLE = (
    "the first observation offers no actions that can be read; end each observation with a line that lists them, as "
    "`Actions: look take open` or `Actions: 1..20`"
)
REFUSED_GAP = 0.15
"""A program that random play wins this much more often than random_win_share passes at most once in a hundred times."""
PLAYS_A_STEP = 5
"""Plays of a test of luck that together may take `step_s`."""


async def validate(sandbox: Sandbox, source: str, seed: int, limits: Limits, play: Play | None = None) -> Verdict:
    """Admit a program or give a reason. `seed` keys the secret instance seeds, `play` bounds a play and says what wins.

    A whole admission takes at most load_s + 4 step_s, and step_s / 5 more for each play of the stages `random` and
    `constant`. Raises RunError where the sandbox fails, not the program.
    """
    admission = Admission(sandbox, source, seed, limits, play or Play())
    with admission.deadline as scope:
        try:
            await admission.run()
        except RejectedError as rejection:
            admission.close(str(rejection), passed=False)
    if scope.cancelled_caught:
        admission.close(f"all stages together take more than {admission.patience_s:g} s", passed=False)
    return await admission.verdict()


class Admission(Probing):
    """One candidate on its way through the stages."""

    def __init__(self, sandbox: Sandbox, source: str, seed: int, limits: Limits, play: Play) -> None:
        super().__init__(sandbox, source, seed, limits, play)
        self.limits = limits
        self.stages: list[Stage] = []
        self.seed_sensitive = False
        self.stage, self.began = LOADING[0], time.monotonic()
        self.deadline = trio.move_on_after(self.patience_s)

    def close(self, reason: str, passed: bool) -> None:
        """End the running stage, with its reason and time."""
        now = time.monotonic()
        self.stages.append(Stage(self.stage, passed, reason, now - self.began))
        self.began = now

    async def verdict(self) -> Verdict:
        passed = all(stage.passed for stage in self.stages)
        first = self.transcripts[0].answers[0].observation if self.transcripts else ""
        name, repairs = self.trials.name, self.trials.repairs
        # Beside the event loop: a long program takes its time. A rejected one is not kept, so nobody would read them.
        measures = await trio.to_thread.run_sync(measure, self.trials.source, name) if passed else Measures()
        return Verdict(passed, tuple(self.stages), name, self.seed_sensitive, first, self.reads, repairs, measures)

    async def run(self) -> None:
        """All stages; raises RejectedError from the one that fails."""
        try:
            await self.probe(self.seed(0), self.anything)
        except (RejectedError, trio.Cancelled):
            self.reach(self.trials.life if self.trials.life in LOADING else "episode")
            raise
        self.reach("episode")
        few, many = (self.episode, self.solution, self.garbage), (self.random, self.constant)
        for stage in (*few, *many, self.budget, self.repeatable, self.effect):
            self.stage = stage.__name__
            self.close(await stage(), passed=True)

    def reach(self, stage: str) -> None:
        """Pass the stages before this one, by the first play, whose time counts for the first of them."""
        for name in LOADING[: LOADING.index(stage) if stage in LOADING else None]:
            self.stage = name
            self.close("", passed=True)
        self.stage = stage

    async def seldom_wins(self, who: str, plays: list[Transcript], high: float, policy: Policy) -> str:
        """Play instance after instance until the share that `who` wins is certain enough.

        A program with a share of `high` or more is rejected, one with random_win_share or less passes.
        """
        low, extra_s = self.limits.random_win_share, self.limits.step_s / PLAYS_A_STEP
        while True:
            self.patience_s += extra_s
            self.deadline.deadline += extra_s
            plays.append(await self.probe(self.seed(len(plays)), policy))
            wins = sum(play.won(self.win_return) for play in plays)
            decision = decide(wins, len(plays), low, high) if low < high else "admit"
            if decision == "reject":
                raise RejectedError(f"{who} wins {wins} of {len(plays)} plays, more than a share of {low:g}")
            if decision == "admit" and len(plays) > 1:
                return f"{wins} of {len(plays)} won"

    # ------------------------------------------------------------ the stages

    async def episode(self) -> str:
        """It resets and steps, with answers of the right types."""
        turns = len(self.transcripts[0].actions)
        if not turns:
            raise RejectedError("the episode is over before the first action")
        return f"{turns} turns"

    async def random(self) -> str:
        """Random actions seldom win."""
        if self.limits.readable_actions and not self.readable:
            raise RejectedError(UNREADABLE)
        high = min(1.0, self.limits.random_win_share + REFUSED_GAP)
        first = self.transcripts[:1] if self.reads == "inside" else []
        told = await self.seldom_wins("random play", first, high, self.anything)
        return f"{told}{self.guessed}"

    async def constant(self) -> str:
        """One action, repeated, seldom wins. The same actions under several seeds also show if the seed matters.

        Random play has shown most of it: only a share halfway to 1 or more is rejected, which takes few plays.
        """
        always = self.anything(self.transcripts[0].answers[0].observation)
        plays: list[Transcript] = []
        high = (1 + self.limits.random_win_share) / 2
        told = await self.seldom_wins(f"always {always[:40]!r}", plays, high, lambda _: always)
        self.seed_sensitive = len({play.answers for play in plays}) > 1
        return told

    async def solution(self) -> str:
        """If `solution()` lists actions, they win; it is called in one process and played in another."""
        said = "" if await self.find_form() else "described or left out, not replayed"
        return "; ".join(filter(None, (said, "it reads the box" if self.reads == "box" else "")))

    async def garbage(self) -> str:
        """Nonsense for an action neither raises nor wins."""
        left = [*NONSENSE, *NUMBERS]
        while left:
            play = await self.probe(self.seed(0), consuming(left))
            if play.won(self.win_return) and play.actions[-1] in {sent(each, self.reads) for each in NONSENSE}:
                raise RejectedError(f"nonsense wins: {play.actions[-1][:40]!r}")
        return ""

    async def budget(self) -> str:
        """Calls and memory stay under half of their limits: a program near a limit would exceed it beside others."""
        time_s, memory = self.limits.step_s / 2, self.limits.memory_bytes // 2
        if self.trials.slowest_s > time_s:
            raise RejectedError(f"a call took {self.trials.slowest_s:.2f} s, more than {time_s:g} s")
        if self.trials.peak_bytes > memory:
            raise RejectedError(f"it takes {self.trials.peak_bytes >> 20} MiB of memory, more than {memory >> 20} MiB")
        return f"at most {1000 * self.trials.slowest_s:.1f} ms a call, {self.trials.peak_bytes / 2**20:.1f} MiB"

    async def repeatable(self) -> str:
        """The same seed and actions give the same transcript, from a zygote with other hashes as well."""
        firsts: dict[int, Observed] = {}
        for transcript in self.transcripts:
            same(firsts.setdefault(transcript.seed, transcript.answers[0]), transcript.answers[0], "reset")
        for first in (self.transcripts[0], self.transcripts[-1]):
            again = await self.trials.play(first.seed, consuming(list(first.actions)), REPEATS)
            same(first.answers[0], again.answers[0], "reset")
            for action, one, two in zip(first.actions, first.answers[1:], again.answers[1:], strict=False):
                same(one, two, f"action {action[:40]!r}")
        return ""

    async def effect(self) -> str:
        """Check that the outcome depends on the actions."""
        reason = indifferent(self.transcripts, self.win_return)
        if reason:
            raise RejectedError(f"{reason}{self.guessed}")
        return ""

    @cached_property
    def readable(self) -> bool:
        """The first observation lists the possible actions."""
        return offered(self.transcripts[0].answers[0].observation).readable

    @property
    def guessed(self) -> str:
        """The remark on actions that had to be guessed, for a stage of random actions; "" if none had."""
        if self.readable and not self.unoffered:
            return ""
        if self.readable:
            return f"; no list that can be read has {self.unoffered[0][:40]!r} of the solution"
        source = "its words and the solution" if self.known else "its words"
        return f"; the observation lists no actions, drawn from {source}"


def same(first: Observed, second: Observed, after: str) -> None:
    """Raise RejectedError if the program answered the same actions otherwise."""
    changed = difference(first, second)
    if changed:
        raise RejectedError(f"not repeatable: after {after} under the same seed, {changed}")
