"""Describe each domain: its skills, its base class, its documents and the settings that it allows.

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
    documents: str
    """The file of `actors/corpus/` with the shipped documents."""
    thoughts: tuple[str, ...]
    """Values of play.thoughts that the domain's conversations allow. The first one is suggested in errors."""
    base: str = ""
    """The base class that programs extend. "" if they need not extend any."""
    takes_calls: bool = False
    """True if a player calls tools. Otherwise each message of a player is one action as text."""
    variants: tuple[str, ...] = ()
    """Kinds of task that design jobs ask for, in the order of tools.variants. () if the domain does not use kinds."""


DOMAINS: Mapping[DomainName, DomainTraits] = {
    "games": DomainTraits(SKILLS, "documents.jsonl", ("keep", "strip")),
    # Chat templates keep the thoughts between the calls of one request.
    "tools": DomainTraits(
        get_args(ToolSkill),
        "notes.jsonl",
        ("keep",),
        "ToolUseBaseEnv",
        takes_calls=True,
        variants=("execute", "read then write", "missing value", "irrelevant"),
    ),
}
