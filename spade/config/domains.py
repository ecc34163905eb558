"""Name each domain's skills and the settings that the domain allows.

`actors.play.domains` has the prompts and the conversation format of each domain.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple, get_args

DomainName = Literal["games", "tools"]
GameSkill = Literal[
    "mathematical reasoning",
    "logical deduction",
    "spatial reasoning",
    "pattern recognition",
    "optimization",
    "causal inference",
]
ToolSkill = Literal[
    "API orchestration",
    "data retrieval",
    "state modification",
    "error recovery",
    "tool selection",
    "multi-step workflows",
]
Skill = Literal[GameSkill, ToolSkill]
SKILLS: tuple[Skill, ...] = get_args(GameSkill)
"""The skills of games."""


class DomainTraits(NamedTuple):
    """One domain."""

    skills: tuple[Skill, ...]
    """Skills that design jobs ask for, unless the run names others."""
    thoughts: tuple[str, ...]
    """Values of play.thoughts that the domain's conversations allow. The first one is suggested in errors."""
    variants: tuple[str, ...] = ()
    """Kinds of task that design jobs ask for, in the order of tools.variants. () if the domain does not use kinds."""


DOMAINS: Mapping[DomainName, DomainTraits] = {
    "games": DomainTraits(SKILLS, ("keep", "strip")),
    # Chat templates keep the thoughts between the calls of one request.
    "tools": DomainTraits(
        get_args(ToolSkill), ("keep",), ("execute", "read then write", "missing value", "irrelevant")
    ),
}
