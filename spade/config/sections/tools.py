"""Settings of tool use, the domain whose programs simulate a service."""

from typing import Annotated

from msgspec import Meta

from spade.config.sections.bounds import Section, Share
from spade.protocol import MOST_CALLS


class ToolUse(Section, frozen=True):
    """Tool use. Nothing here changes a run of another domain."""

    calls_per_turn: Annotated[int, Meta(ge=1, le=MOST_CALLS)] = 8
    """Most calls of one message of the model that are executed; those behind them are answered with an error."""

    free_share: Share = 0.0
    """Share of a program's instructions that may be met at the moment they are given, before any call for them;
    admission rejects a program with more. 0 allows none."""
