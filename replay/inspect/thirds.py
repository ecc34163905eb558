"""Summarise the environments of a run in three parts, in the order of their jobs. Shows how designs change."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from replay.ledger.records import Environment, PlayRecord, Source
from replay.store import Store, open_reader
from spade.protocol import MOST_PROGRAMS


class RunThird(msgspec.Struct, frozen=True):
    """Means over the environments of one third of the run. A figure is None if no environment has it."""

    environments: int
    """Number of environments."""
    lines: float | None
    hidden_variables: float | None
    reward_levels: float | None
    turns: float | None
    """Mean number of turns of the finished unhinted plays."""
    win_rate_unhinted: float | None
    win_rate_hinted: float | None
    regret: float | None
    revealing_share: float | None
    """Share of the programs whose first observation reveals the method. Leaves out programs for which it is unknown."""
    tools: float | None
    """Mean number of tools of a program with tools."""
    instructions: float | None
    """Mean number of instructions in a play of a program with tools."""
    conditions: float | None
    """Mean number of conditions in a criterion of a program with tools."""
    guarded_share: float | None
    """Share of programs that have a guarded failure, among the programs with tools."""
    seed_share: float | None
    """Share of programs that play differently under another seed, among the programs with tools."""
    similarity: float | None


class _Played:
    """Counts over an environment's finished plays: unhinted plays and their turns, plays with tools and their
    instructions.
    """

    def __init__(self) -> None:
        self.plays = self.turns = self.with_tools = self.instructions = 0


def read_thirds(path: Path) -> list[tuple[RunThird, list[str]]]:
    """Return each third of the run with the sources of its newest programs, at most MOST_PROGRAMS.

    Raises RunError if the store does not exist.
    """
    with open_reader(path) as store, store.pinned():
        environments = store.scan("environments", Environment)
        parts = _split(environments)
        played = _count_played(store)
        return [(_summarise_third(part, played), _read_sources(store, part)) for part in parts]


def _split(environments: Sequence[Environment]) -> list[Sequence[Environment]]:
    count = len(environments)
    return [environments[count * part // 3 : count * (part + 1) // 3] for part in range(3)]


def _count_played(store: Store) -> dict[str, _Played]:
    """Count the finished plays of each environment that has any."""
    found: dict[str, _Played] = {}
    for _, play in store.decoded("plays", PlayRecord):
        if play.state != "finished":
            continue
        sums = found.setdefault(play.environment, _Played())
        if not play.hinted:
            sums.plays += 1
            sums.turns += play.turns
        if play.tools is not None:
            sums.with_tools += 1
            sums.instructions += play.tools.instructions
    return found


def _read_sources(store: Store, part: Sequence[Environment]) -> list[str]:
    ids = [environment.id for environment in part[-MOST_PROGRAMS:]]
    return [source.source for source in store.get_many("sources", ids, Source)]


def _summarise_third(part: Sequence[Environment], played: dict[str, _Played]) -> RunThird:
    sums = [played[environment.id] for environment in part if environment.id in played]
    scores = [environment.score for environment in part if environment.score is not None]
    with_tools = [environment for environment in part if environment.measures.tools is not None]
    plays = sum(each.plays for each in sums)
    return RunThird(
        environments=len(part),
        lines=_compute_mean(environment.measures.lines for environment in part),
        hidden_variables=_compute_mean(environment.measures.hidden_variables for environment in part),
        reward_levels=_compute_mean(len(environment.levels) or None for environment in part),
        turns=sum(each.turns for each in sums) / plays if plays else None,
        win_rate_unhinted=_compute_mean(score.win_rate for score in scores),
        win_rate_hinted=_compute_mean(score.win_rate_hinted for score in scores),
        regret=_compute_mean(score.regret for score in scores),
        revealing_share=_compute_mean(environment.measures.reveals for environment in part),
        tools=_compute_mean(environment.measures.tools for environment in with_tools),
        instructions=_compute_mean(each.instructions / each.with_tools for each in sums if each.with_tools),
        conditions=_compute_mean(environment.measures.conditions for environment in with_tools),
        guarded_share=_compute_mean(environment.measures.guarded for environment in with_tools),
        seed_share=_compute_mean(environment.seed_sensitive for environment in with_tools),
        similarity=_compute_mean(environment.measures.similarity for environment in part),
    )


def _compute_mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
