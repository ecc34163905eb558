"""The domains as the kernel knows them: their skills, and the settings that they allow.

`actors.roles.domains` has the prompts and the talk of each.
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
    """One domain.

    skills    those that design jobs ask for, unless the run names some
    thoughts  the values of play.thoughts that its conversations allow
    variants  the kinds of task that design jobs ask for, in the order of tools.variants; () where there are none
    """

    skills: tuple[Skill, ...]
    thoughts: tuple[str, ...]
    variants: tuple[str, ...] = ()


DOMAINS: Mapping[DomainName, DomainTraits] = {
    "games": DomainTraits(SKILLS, ("keep", "strip")),
    # Chat templates keep the thoughts between the calls of one request.
    "tools": DomainTraits(
        get_args(ToolSkill), ("keep",), ("execute", "read then write", "missing value", "irrelevant")
    ),
}
