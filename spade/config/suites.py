"""Name the suites on which a run can be measured, and their traits.

`actors.suites` has the items, prompts and protocols of the suites.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple, cast, get_args

from spade.config.domains import DomainName

Library = Literal["reasoning-gym", "rlve", "gem", "gymnasium", "verifiers", "answers", "code"]
"""Libraries with environments that programs may extend, by the names of `sandbox.libraries`."""

ONE_ANSWER: frozenset[Library] = frozenset({"reasoning-gym", "rlve", "answers", "code"})
"""Programs of these libraries ask one question, and end with the first answer."""

ProtocolName = Literal["paper", "release", "short"]
"""Ways to play a suite. A suite may lack some of them."""


class SuiteChoice(NamedTuple):
    """The parts of `evaluation.suite`: "folder:DIR", or "NAME", "NAME:FILE", each with or without "@PROTOCOL"."""

    name: str = ""
    """Name of the suite, "" for a folder of programs."""
    path: str = ""
    """The folder, or the file with the suite's items."""
    protocol: ProtocolName = "paper"
    """Name of the suite's protocol."""

    @classmethod
    def parse(cls, text: str) -> "SuiteChoice":
        """Parse the setting. In the path of a file, an @ begins the protocol only if a protocol's name follows."""
        kind, _, folder = text.partition(":")
        if kind == "folder":
            return cls("", folder)
        suite, at, protocol = text.rpartition("@")
        if not at or (":" in text and protocol not in get_args(ProtocolName)):
            suite, protocol = text, "paper"
        name, _, path = suite.partition(":")
        return cls(name, path, cast(ProtocolName, protocol))  # the checks of a config refuse other protocols

    def __str__(self) -> str:
        """Format the choice as the setting writes it."""
        protocol = f"@{self.protocol}" if self.name and self.protocol != "paper" else ""
        return f"{self.name or 'folder'}{':' if self.path else ''}{self.path}{protocol}"


class SuiteTraits(NamedTuple):
    """Traits of one suite."""

    library: Library | None = None
    """Library that the suite's programs extend, or None."""
    given: bool = False
    """True if the user brings the items as a file."""
    domain: DomainName = "games"
    """Domain of the suite's programs."""


SUITE_TRAITS: Mapping[str, SuiteTraits] = {
    "aime25": SuiteTraits("answers", given=True),
    "aime26": SuiteTraits("answers", given=True),
    "gpqa-diamond": SuiteTraits("answers", given=True),
    "livecodebench-v6": SuiteTraits("code", given=True),
    "reasoning-gym-hard": SuiteTraits("reasoning-gym"),
    "gem": SuiteTraits("gem"),
    "nano": SuiteTraits(),
    "nano-tools": SuiteTraits(domain="tools"),
    "reasoning-gym-nano": SuiteTraits("reasoning-gym"),
    "reasoning-gym-transfer": SuiteTraits("reasoning-gym"),
}
"""Traits by the names of `evaluation.suite`."""

HARNESS_SUITES = ("bfcl", "tau2", "acebench")
"""Suites that a third-party program plays and judges."""
