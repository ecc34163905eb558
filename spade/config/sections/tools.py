"""Settings of tool use, the domain whose programs simulate a service."""

from typing import Annotated

from msgspec import Meta

from spade.config.sections.bounds import Name, PositiveOrZero, Section, Share
from spade.protocol import MOST_CALLS


class ToolUse(Section, frozen=True):
    """Tool use. These settings do nothing in a run of games."""

    calls_per_turn: Annotated[int, Meta(ge=1, le=MOST_CALLS)] = 8
    """Largest number of calls in one message of the model that are executed. Each further call gets an error."""

    free_share: Share = 0.0
    """Share of a program's instructions that may already be fulfilled when they are given, before any call. Admission
    rejects a program with a greater share. 0 allows none."""

    screen: bool = False
    """True asks the model about each admitted program if a player can know everything needed to win. The program is
    rejected if the answer is no (docs/designing.md). For `model.profile` "full"."""

    variants: tuple[PositiveOrZero, PositiveOrZero, PositiveOrZero, PositiveOrZero] = (3.0, 2.0, 1.0, 1.0)
    """Weights with which jobs ask for the four variants: execute, read then write, missing value, irrelevant. A
    weight of 0 leaves a variant out. The default is the paper's."""

    settings: Name = "builtin"
    """The everyday services that programs simulate. Each job draws one of them. Give a text file with one service a
    line, or `builtin` for the ten services in the package (the paper has ten as well). A resumed run keeps the services
    with which it was started."""
