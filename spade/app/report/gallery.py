"""Choose the environments and plays of a run that a page shows. Pure."""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest

from replay.ledger.records import Environment, PlayRecord, Score

LONGEST_REASON = 200
_DETAILS = re.compile(r"\be\d{6,}\b|\d+(\.\d+)?")


def choose(environments: Sequence[Environment], most: int) -> dict[str, list[str]]:
    """Choose up to `most` environments, one by each way of `_list_ways` in turn. Return the reasons for each, by id."""
    chosen: dict[str, list[str]] = {}
    ways = [(why, iter(order)) for why, order in _list_ways(environments)]
    for turn in zip_longest(*(order for _, order in ways)):
        for (why, _), environment in zip(ways, turn, strict=True):
            if environment is None:
                continue
            if environment.id in chosen:
                if why not in chosen[environment.id]:
                    chosen[environment.id].append(why)
            elif len(chosen) < most:
                chosen[environment.id] = [why]
        if len(chosen) >= most:
            break
    return chosen


def _list_ways(environments: Sequence[Environment]) -> Iterator[tuple[str, list[Environment]]]:
    """Yield each way to choose environments: its reason, and the environments, the best first."""
    scored = [(each, each.score) for each in environments if each.score is not None and each.state == "closed"]
    yield "highest regret", _sort_scored(scored, lambda score: None if score.regret is None else -score.regret)
    yield "hardest that was won", _sort_scored(scored, lambda score: score.win_rate or None)
    yield "newest scored", [each for each, _ in reversed(scored)]
    yield "quarantined", [each for each in reversed(environments) if each.state == "quarantined"]
    children = [(each, score) for each, score in scored if each.parents]
    yield "highest reward among variations", _sort_scored(children, _negate_reward)
    for skill in sorted({each.skill for each, _ in scored}):
        own = [(each, score) for each, score in scored if each.skill == skill]
        yield "highest reward of its skill", _sort_scored(own, _negate_reward)[:1]


def _negate_reward(score: Score) -> float | None:
    return None if score.reward is None else -score.reward


def _sort_scored(
    scored: Sequence[tuple[Environment, Score]], key: Callable[[Score], float | None]
) -> list[Environment]:
    """Sort by rising key, the newest first among equals. Leave out environments without a key."""
    known = [(value, each) for each, score in reversed(scored) if (value := key(score)) is not None]
    return [each for _, each in sorted(known, key=lambda pair: pair[0])]


def choose_pair(plays: Sequence[PlayRecord]) -> list[PlayRecord]:
    """Return the two finished plays to show side by side, the unhinted one first.

    They are the plays of both arms on the instance on which the hint gained most. If no instance has both arms, returns
    the plays of the least and the greatest return.
    """
    arms = {(play.index, play.hinted): play for play in reversed(plays) if play.chunk == 0}
    both = [
        (play, twin)
        for (index, hinted), play in sorted(arms.items())
        if not hinted and (twin := arms.get((index, True))) is not None
    ]
    if both:
        unhinted, hinted = max(both, key=lambda two: two[1].episode_return - two[0].episode_return)
        return [unhinted, hinted]
    if not plays:
        return []
    least = min(plays, key=lambda play: play.episode_return)
    most = max(plays, key=lambda play: play.episode_return)
    return [least] if least is most else [least, most]


def pick(plays: Sequence[PlayRecord]) -> list[str]:
    """Return the ids of `choose_pair`."""
    return [play.id for play in choose_pair(plays)]


def find_children(environments: Sequence[Environment]) -> dict[str, list[str]]:
    """Return for each environment the ids of its variations, in order."""
    found: dict[str, list[str]] = {}
    for each in environments:
        for parent in each.parents:
            found.setdefault(parent, []).append(each.id)
    return found


def find_kind(reason: str) -> str:
    """Return the first clause of a rejection's reason. Numbers and ids become `…`."""
    return _DETAILS.sub("…", " ".join(reason[:LONGEST_REASON].split())).partition(";")[0]
