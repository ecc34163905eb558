"""The suites that a run can measure itself on, as the kernel knows them.

`actors.suites` has their items, their words and their protocols.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

Library = Literal["reasoning-gym", "rlve", "gem", "gymnasium", "answers", "code"]
"""Libraries whose environments programs may extend, by the names of `sandbox.libraries`."""

ONE_ANSWER: frozenset[Library] = frozenset({"reasoning-gym", "rlve", "answers", "code"})
"""Libraries whose programs ask one question, and end with its first answer."""

ProtocolName = Literal["paper", "release", "short"]
"""Ways to play a suite; a suite may lack one."""


class SuiteTraits(NamedTuple):
    """One suite.

    library  that its programs extend; None where they extend none
    given    its items are a file of the user's
    tools    its programs offer tools
    """

    library: Library | None = None
    given: bool = False
    tools: bool = False


SUITE_TRAITS: Mapping[str, SuiteTraits] = {
    "aime25": SuiteTraits("answers", given=True),
    "aime26": SuiteTraits("answers", given=True),
    "gpqa-diamond": SuiteTraits("answers", given=True),
    "livecodebench-v6": SuiteTraits("code", given=True),
    "reasoning-gym-hard": SuiteTraits("reasoning-gym"),
    "gem": SuiteTraits("gem"),
    "nano": SuiteTraits(),
    "nano-tools": SuiteTraits(tools=True),
    "reasoning-gym-nano": SuiteTraits("reasoning-gym"),
}
"""By the names of `evaluation.suite`."""

HARNESS_SUITES = ("bfcl", "tau2", "acebench")
"""Suites whose items somebody else's program drives."""
