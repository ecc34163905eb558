"""The environments of a run in three parts, by the order of their jobs: the change of designs over a run."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from replay.ledger.records import Environment, PlayRecord, Source
from replay.store import Store, open_reader
from spade.protocol import MOST_PROGRAMS


class Third(msgspec.Struct, frozen=True):
    """Means over the environments of a third; None where none of them has the figure.

    `revealing_share` is over those of which it is known, `turns` the mean over all unhinted plays that finished.
    """

    environments: int
    lines: float | None
    hidden_variables: float | None
    reward_levels: float | None
    turns: float | None
    win_rate_unhinted: float | None
    win_rate_hinted: float | None
    regret: float | None
    revealing_share: float | None
    similarity: float | None


def read_thirds(path: Path) -> list[tuple[Third, list[str]]]:
    """Each third with its newest sources, at most MOST_PROGRAMS. Raises RunError if there is no store."""
    with open_reader(path) as store, store.pinned():
        environments = store.scan("environments", Environment)
        parts = _split(environments)
        turns = _turns(store)
        return [(_third(part, turns), _sources(store, part)) for part in parts]


def _split(environments: Sequence[Environment]) -> list[Sequence[Environment]]:
    count = len(environments)
    return [environments[count * part // 3 : count * (part + 1) // 3] for part in range(3)]


def _turns(store: Store) -> dict[str, tuple[int, int]]:
    """Of each environment: unhinted plays that finished, and their turns together."""
    found: dict[str, tuple[int, int]] = {}
    for _, play in store.decoded("plays", PlayRecord):
        if play.state == "finished" and not play.hinted:
            plays, turns = found.get(play.environment, (0, 0))
            found[play.environment] = plays + 1, turns + play.turns
    return found


def _sources(store: Store, part: Sequence[Environment]) -> list[str]:
    ids = [environment.id for environment in part[-MOST_PROGRAMS:]]
    return [source.source for source in store.get_many("sources", ids, Source)]


def _third(part: Sequence[Environment], turns: dict[str, tuple[int, int]]) -> Third:
    played = [turns[environment.id] for environment in part if environment.id in turns]
    scores = [environment.score for environment in part if environment.score is not None]
    plays = sum(count for count, _ in played)
    return Third(
        environments=len(part),
        lines=_mean(environment.measures.lines for environment in part),
        hidden_variables=_mean(environment.measures.hidden_variables for environment in part),
        reward_levels=_mean(len(environment.levels) or None for environment in part),
        turns=sum(total for _, total in played) / plays if plays else None,
        win_rate_unhinted=_mean(score.win_rate for score in scores),
        win_rate_hinted=_mean(score.win_rate_hinted for score in scores),
        regret=_mean(score.regret for score in scores),
        revealing_share=_mean(environment.measures.reveals for environment in part),
        similarity=_mean(environment.measures.similarity for environment in part),
    )


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
