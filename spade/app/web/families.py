"""The parents and children of an environment as a small tree. Pure."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from replay.ledger.records import Environment
from spade.app.report.drawing import format_figure
from spade.text import as_line

MOST = 40
"""Most relatives in a tree."""
GENERATIONS = 2
"""Generations above and below an environment."""


class Relative(NamedTuple):
    """A line of the tree."""

    depth: int
    """Indentation of the line."""

    id: str
    """Id of the environment on this line."""

    name: str
    """Name of this environment, or "" if it belongs to another run."""

    says: str
    """Win rate of this environment in words, or its state."""

    link: str
    """Address of this environment's page. "" if the page is already open, or if it belongs to another run."""


def make_family(
    id: str, environments: Mapping[str, Environment], children: Mapping[str, Sequence[str]], link: Callable[[str], str]
) -> list[Relative]:
    """Return ancestors, the environment and its descendants, each line below its parent."""
    above = _collect_generations(id, lambda each: environments[each].parents if each in environments else ())
    lines = [(depth, each) for depth, found in enumerate(reversed(above)) for each in found]
    return [
        _make_relative(depth, each, environments.get(each), "" if each == id else link(each))
        for depth, each in (*lines, (len(above), id), *_walk_down(id, children, len(above) + 1, GENERATIONS))
    ][:MOST]


def _collect_generations(id: str, parents: Callable[[str], Sequence[str]]) -> list[list[str]]:
    """Return the ids of the parents, then the ids of the grandparents, each id once."""
    found, newest, seen = list[list[str]](), [id], {id}
    for _ in range(GENERATIONS):
        newest = [each for each in dict.fromkeys(one for child in newest for one in parents(child)) if each not in seen]
        if not newest:
            break
        seen.update(newest)
        found.append(newest)
    return found


def _walk_down(id: str, children: Mapping[str, Sequence[str]], depth: int, left: int) -> list[tuple[int, str]]:
    if not left:
        return []
    found = list[tuple[int, str]]()
    for child in children.get(id, ())[:MOST]:
        found += [(depth, child), *_walk_down(child, children, depth + 1, left - 1)]
    return found[:MOST]


def _make_relative(depth: int, id: str, environment: Environment | None, link: str) -> Relative:
    if environment is None:
        return Relative(depth, as_line(id, 100), "", "not of this run", "")
    rate = None if environment.score is None else environment.score.win_rate
    says = environment.state if rate is None else f"won {format_figure(rate, share=True)}"
    return Relative(depth, id, as_line(environment.name, 100), says, link)
