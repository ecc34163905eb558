"""The use of tools in plays: what a play did, and the figures over several plays. Pure."""

from collections.abc import Iterable

import msgspec

from spade.protocol import EndedPlay


class ToolUse(msgspec.Struct, array_like=True, frozen=True):
    """The use of tools in one play; fields as in `EndedPlay`."""

    calls: int
    refused: int
    malformed: int
    instructions: int
    done: int
    free: int


class ToolFigures(msgspec.Struct, frozen=True):
    """Figures over plays; None: no play used tools, or there is nothing to take a share of.

    Calls are those that the model wrote, the malformed ones included. `done_share` is of the plays' instructions,
    `free_share` of those that are done.
    """

    calls_per_turn: float | None = None
    malformed_share: float | None = None
    refused_share: float | None = None
    done_share: float | None = None
    free_share: float | None = None


def used(play: EndedPlay) -> ToolUse | None:
    """The use of tools in a play; None where its program has none, since each that has tools has instructions."""
    if not play.instructions:
        return None
    return ToolUse(play.calls, play.refused, play.malformed, play.instructions, play.done, play.free)


def figures(plays: Iterable[tuple[ToolUse | None, int]]) -> ToolFigures:
    """The figures over plays, each with its turns."""
    with_tools = [(use, turns) for use, turns in plays if use is not None]
    turns, uses = sum(turns for _, turns in with_tools), [use for use, _ in with_tools]
    written, done = sum(use.calls + use.malformed for use in uses), sum(use.done for use in uses)
    return ToolFigures(
        calls_per_turn=_share(written, turns),
        malformed_share=_share(sum(use.malformed for use in uses), written),
        refused_share=_share(sum(use.refused for use in uses), written),
        done_share=_share(done, sum(use.instructions for use in uses)),
        free_share=_share(sum(use.free for use in uses), done),
    )


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
