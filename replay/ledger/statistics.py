"""The last plays, slots, chunks and candidates, and the gauges computed from them."""

from collections import deque
from collections.abc import Callable

import msgspec

from replay.ledger.records import Environment, PlayRecord, Score
from spade.config import Design
from spade.estimates import compute_clustered_mean, compute_mean_and_error
from spade.protocol import Diversity, Evaluation, Measures, Recent, SkillFigures, ToolUse

PLAYS = 512  # the standard error of a win rate is then at most 0.022
CANDIDATES = 100
HISTORY = 240
METER_S = 60


class PlayFigures(msgspec.Struct, array_like=True, frozen=True):
    """A finished play."""

    environment: str
    hinted: bool
    won: bool
    turns: int
    sampled: int
    """Tokens that the policy sampled."""
    skill: str = ""
    variant: str = ""
    tools: ToolUse | None = None
    """None if the program has no tools."""

    @classmethod
    def of(cls, play: PlayRecord, environment: Environment, won: bool) -> "PlayFigures":
        """Return the figures of a finished play."""
        return cls(
            environment=environment.id,
            hinted=play.hinted,
            won=won,
            turns=play.turns,
            sampled=play.sampled,
            skill=environment.skill,
            variant=environment.variant,
            tools=play.tools,
        )


class SlotFigures(msgspec.Struct, array_like=True, frozen=True):
    """The figures of a slot when its window closed or its job failed. None means not measured.

    A failed job has reward 0 and is not learnable.
    """

    reward: float | None
    learnable: bool
    regret: float | None = None
    levels: int | None = None
    """Number of distinct rewards that the environment handed out."""
    skill: str = ""
    measures: Measures = Measures()
    variant: str = ""

    @classmethod
    def of(cls, environment: Environment, score: Score) -> "SlotFigures":
        """Return the figures of an environment with a closed window."""
        return cls(
            reward=score.reward,
            learnable=score.learnable,
            regret=score.regret,
            levels=len(environment.levels),
            skill=environment.skill,
            measures=environment.measures,
            variant=environment.variant,
        )


class Statistics(msgspec.Struct, array_like=True):
    """Bounded lists of the newest events."""

    keep_plays: int
    """Length of `plays`."""
    keep_slots: int
    """Length of `slots` and `variances`."""
    plays: list[PlayFigures] = []
    slots: list[SlotFigures] = []
    variances: list[bool] = []
    """For each scored chunk: True if its returns differ."""
    candidates: list[bool] = []
    """For each candidate: True if it was admitted."""
    examples: list[int] = []
    """For each candidate: number of examples of the memory in its prompt."""

    @classmethod
    def of(cls, design: Design) -> "Statistics":
        """Make empty statistics that keep the last `design.active_environments` slots."""
        return cls(PLAYS, design.active_environments)

    def add_play(self, figures: PlayFigures) -> None:
        """Add a finished play of either arm."""
        self.plays.append(figures)
        del self.plays[: -self.keep_plays]

    def add_slot(self, figures: SlotFigures) -> None:
        """Add a slot that closed or failed."""
        self.slots.append(figures)
        del self.slots[: -self.keep_slots]

    def add_chunk(self, variance: bool) -> None:
        """Add a scored unhinted chunk."""
        self.variances.append(variance)
        del self.variances[: -self.keep_slots]

    def add_candidate(self, valid: bool, shown: int) -> None:
        """Add a candidate, admitted or rejected. Its prompt had `shown` examples of the memory."""
        self.candidates.append(valid)
        del self.candidates[:-CANDIDATES]
        self.examples.append(shown)
        del self.examples[:-CANDIDATES]

    def win_rate(self, hinted: bool) -> tuple[float | None, float | None]:
        """Return the win rate of one arm with its standard error, clustered by environment."""
        wins: dict[str, list[float]] = {}
        for play in self.plays:
            if play.hinted == hinted:
                wins.setdefault(play.environment, []).append(float(play.won))
        return compute_clustered_mean(wins.values()) if wins else (None, None)

    def regret(self) -> tuple[float | None, float | None]:
        """Return the mean regret of the slots that have one, with its standard error over environments."""
        regrets = [slot.regret for slot in self.slots if slot.regret is not None]
        return compute_mean_and_error(regrets) if regrets else (None, None)

    def learnable_share(self) -> float | None:
        """Return the share of the last slots with a learnable win rate. A failed job counts 0."""
        return _compute_share([slot.learnable for slot in self.slots])

    def validity(self) -> float | None:
        """Return the share of the last candidates that were admitted."""
        return _compute_share(self.candidates)

    def examples_shown(self) -> float | None:
        """Return the mean number of examples in the prompts of the last candidates."""
        return _compute_mean(self.examples)

    def zero_variance_share(self) -> float | None:
        """Return the share of the last unhinted chunks with equal returns."""
        return _compute_share([not variance for variance in self.variances])

    def reward_levels(self) -> float | None:
        """Return the mean number of distinct rewards that an environment handed out."""
        return _compute_mean([slot.levels for slot in self.slots if slot.levels is not None])

    def response_tokens(self, hinted: bool) -> float | None:
        """Return the mean number of sampled tokens per turn in one arm."""
        plays = [play for play in self.plays if play.hinted == hinted and play.turns]
        return sum(play.sampled for play in plays) / sum(play.turns for play in plays) if plays else None

    def turns(self, hinted: bool) -> float | None:
        """Return the mean number of turns per play in one arm."""
        return _compute_mean([play.turns for play in self.plays if play.hinted == hinted])

    def recent(self) -> Recent:
        """Return all figures of these lists."""
        unhinted, unhinted_error = self.win_rate(hinted=False)
        regret, regret_error = self.regret()
        return msgspec.structs.replace(
            self.tools(),
            validity=self.validity(),
            win_rate_unhinted=unhinted,
            win_rate_hinted=self.win_rate(hinted=True)[0],
            win_rate_error=unhinted_error,
            regret=regret,
            regret_error=regret_error,
            learnable_share=self.learnable_share(),
            zero_variance_share=self.zero_variance_share(),
            reward_levels=self.reward_levels(),
            response_tokens=self.response_tokens(hinted=False),
            response_tokens_hinted=self.response_tokens(hinted=True),
            designer_reward=self.designer_reward(),
            examples_shown=self.examples_shown(),
            turns=self.turns(hinted=False),
            turns_hinted=self.turns(hinted=True),
            program_lines=self.program_lines(),
            hidden_variables=self.hidden_variables(),
            revealing_share=self.revealing_share(),
            similarity=self.similarity(),
            skills=self.skills(),
            variants=self.variants(),
        )

    def tools(self) -> Recent:
        """Return the figures of tool use in the last unhinted plays.

        A figure is None if no play used tools, or if its denominator is 0.
        """
        plays = [(play.tools, play.turns) for play in self.plays if play.tools is not None and not play.hinted]
        turns, uses = sum(turns for _, turns in plays), [use for use, _ in plays]
        written, done = sum(use.calls + use.malformed for use in uses), sum(use.done for use in uses)
        return Recent(
            calls_per_turn=_compute_part(written, turns),
            malformed_share=_compute_part(sum(use.malformed for use in uses), written),
            refused_share=_compute_part(sum(use.refused for use in uses), written),
            done_share=_compute_part(done, sum(use.instructions for use in uses)),
            free_share=_compute_part(sum(use.free for use in uses), done),
        )

    def program_lines(self) -> float | None:
        """Return the mean number of lines in the programs of the last slots."""
        return _compute_mean([n for slot in self.slots if (n := slot.measures.lines) is not None])

    def hidden_variables(self) -> float | None:
        """Return the mean number of hidden variables in the programs of the last slots."""
        return _compute_mean([n for slot in self.slots if (n := slot.measures.hidden_variables) is not None])

    def revealing_share(self) -> float | None:
        """Return the share of the last slots' programs with a first observation that reveals the method.

        Programs are left out if this is not known.
        """
        return _compute_share([reveals for slot in self.slots if (reveals := slot.measures.reveals) is not None])

    def similarity(self) -> float | None:
        """Return the mean similarity of the last slots' programs to the most similar program of the memory.

        The memory is the one at the time of admission.
        """
        return _compute_mean([s for slot in self.slots if (s := slot.measures.similarity) is not None])

    def skills(self) -> dict[str, SkillFigures]:
        """Return the figures of each skill that occurs in the last plays or slots."""
        return self._group_parts(lambda figures: figures.skill)

    def variants(self) -> dict[str, SkillFigures]:
        """Return the figures of each variant that occurs in the last plays or slots."""
        return self._group_parts(lambda figures: figures.variant)

    def _group_parts(self, name_of: Callable[[PlayFigures | SlotFigures], str]) -> dict[str, SkillFigures]:
        """Return the figures by name. Plays and slots with the name "" are left out: their name is not known."""
        plays: dict[str, list[PlayFigures]] = {}
        slots: dict[str, list[SlotFigures]] = {}
        for play in self.plays:
            plays.setdefault(name_of(play), []).append(play)
        for slot in self.slots:
            slots.setdefault(name_of(slot), []).append(slot)
        names = sorted((plays.keys() | slots.keys()) - {""})
        return {
            name: _compute_figures(
                Statistics(self.keep_plays, self.keep_slots, plays.get(name, []), slots.get(name, []))
            )
            for name in names
        }

    def designer_reward(self) -> float | None:
        """Return the mean designer reward of the last slots."""
        return _compute_mean([slot.reward for slot in self.slots if slot.reward is not None])


def _compute_figures(part: Statistics) -> SkillFigures:
    return SkillFigures(
        win_rate_unhinted=part.win_rate(hinted=False)[0],
        win_rate_hinted=part.win_rate(hinted=True)[0],
        regret=part.regret()[0],
        learnable_share=part.learnable_share(),
    )


def _compute_share(flags: list[bool]) -> float | None:
    return sum(flags) / len(flags) if flags else None


def _compute_part(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _compute_mean(values: list[float] | list[int]) -> float | None:
    return sum(values) / len(values) if values else None


class History(msgspec.Struct, array_like=True):
    """Figures over the run, the newest last. Regret and win rates have one point per learner step."""

    regret: list[tuple[float, float]] = []
    """Regret and its standard error."""
    win_rates: list[tuple[float, float | None]] = []
    """Unhinted and hinted win rate. The hinted one is None if nothing was played with a hint."""
    evaluations: list[Evaluation] = []
    """The first evaluation, with which the others are compared, and the newest ones."""
    diversity: Diversity | None = None
    """The newest diversity."""

    def add(self, statistics: Statistics) -> None:
        """Add a point, unless nothing is measured yet."""
        regret, error = statistics.regret()
        if regret is not None:
            self.regret.append((regret, error or 0.0))
            del self.regret[:-HISTORY]
        unhinted = statistics.win_rate(hinted=False)[0]
        if unhinted is not None:
            self.win_rates.append((unhinted, statistics.win_rate(hinted=True)[0]))
            del self.win_rates[:-HISTORY]

    def add_evaluation(self, evaluation: Evaluation) -> bool:
        """Add an evaluation. Returns False if it is the last one, sent again because the answer was lost."""
        if self.evaluations[-1:] == [evaluation]:
            return False
        self.evaluations.append(evaluation)
        del self.evaluations[1 : 1 - HISTORY]
        return True


class Meter:
    """A rate: events per second over the last minute, or since `start` if that is shorter."""

    def __init__(self, start: float) -> None:
        self._start = start
        self._events: deque[tuple[float, float]] = deque(maxlen=METER_S + 1)  # one entry per second

    def add(self, now: float, amount: float) -> None:
        """Count `amount` at `now`. Events of one second share an entry."""
        second = float(int(now))
        if not self._events or self._events[-1][0] != second:
            self._events.append((second, 0.0))
        self._events[-1] = (second, self._events[-1][1] + amount)

    def rate(self, now: float) -> float:
        """Return the amount per second at `now`."""
        while self._events and self._events[0][0] < now - METER_S:
            self._events.popleft()
        return sum(amount for _, amount in self._events) / max(min(float(METER_S), now - self._start), 1.0)
