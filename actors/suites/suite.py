"""A suite: its items as programs, the talk of a play, and its protocols by their names."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

import msgspec

from actors.suites.talk import suite_talks
from actors.text.conversation import Talk
from spade.config import SUITE_TRAITS, Library, ProtocolName
from spade.errors import ConfigError
from spade.evaluations import Protocol, Scheduled, SuiteItem
from spade.extras import installing
from spade.protocol import Needs
from spade.text import line
from spade.tokens import Tokenizer

Talks = Callable[[Protocol, Tokenizer], Callable[[], Talk]]
"""Makes the talk of each play by a protocol with this checkpoint. Raises RunError where it cannot have any."""

Reader = Callable[[Protocol, Path | None], list[SuiteItem]]
"""The items of a protocol; `Path` is the given data file.

Raises RunError with the row that cannot be read, OSError.
"""


@dataclass(frozen=True)
class Suite:
    """One suite.

    protocols  by their names; a suite may lack one
    read       see Reader
    size       the number of items that a given file must have for any protocol but `short`; 0 where none is given
    columns    of the given file, for a person; "" where none is given
    talks      see Talks
    packages   the one version by package with which the protocols but `short` are played
    remedy     the command that installs them
    needs      what an item needs beyond the env-runner's own limits
    """

    name: str
    protocols: Mapping[ProtocolName, Protocol]
    read: Reader
    size: int = 0
    columns: str = ""
    talks: Talks = suite_talks
    packages: Mapping[str, str] = field(default_factory=dict)
    remedy: str = installing("suites")
    needs: Needs = field(default_factory=Needs)

    @property
    def library(self) -> Library | None:
        """The entry of `sandbox.libraries` that the programs extend; None where they extend none."""
        return SUITE_TRAITS[self.name].library

    def protocol(self, name: ProtocolName) -> Protocol:
        """Raises ConfigError where the suite has none of that name."""
        if name not in self.protocols:
            raise ConfigError(f"suite {self.name}: has no protocol {name!r}; it has {', '.join(self.protocols)}")
        return self.protocols[name]

    def with_examples(self, protocol: Protocol, examples: tuple[tuple[str, str], ...]) -> Protocol:
        """Return the protocol with the examples of a run's plays (`play.examples`).

        Their answers are in a box, so a suite that reads another form, or has a talk of its own, takes none.
        """
        if protocol.grading != "box" or self.talks is not suite_talks:
            return protocol
        return msgspec.structs.replace(protocol, examples=examples)

    def items(self, protocol: Protocol, data: Path | None = None) -> list[SuiteItem]:
        """The items, at least one. Raises ConfigError where data is missing or not the whole suite, RunError, OSError.

        A part of a suite, or made-up rows, can be played by the protocol `short` alone, so that no figure of them
        stands under the name of the suite's own protocols.
        """
        if self.columns and data is None:
            raise ConfigError(f"suite {self.name}: needs its data, {self.columns}; give --data {self.name}=FILE")
        if data is not None and not self.columns:
            raise ConfigError(f"suite {self.name}: makes its items itself and takes no data; leave {data} out")
        items = self.read(protocol, data)
        if not items:
            raise ConfigError(f"suite {self.name}: {data} has no item")
        if self.size and len(items) != self.size and protocol.name != "short":
            raise ConfigError(
                f"suite {self.name}: has {self.size} items, {data} has {len(items)}; give the whole suite, or play "
                "what there is by the protocol short"
            )
        return items

    def versions(self, protocol: Protocol) -> dict[str, str]:
        """The installed versions of the packages. Raises ConfigError where one is missing or not the protocol's."""
        return {name: self._version(name, wanted, protocol) for name, wanted in self.packages.items()}

    def _version(self, package: str, wanted: str, protocol: Protocol) -> str:
        try:
            installed = metadata.version(package)
        except metadata.PackageNotFoundError:
            raise ConfigError(f"suite {self.name}: needs {package} {wanted}: {self.remedy}") from None
        if installed != wanted and protocol.name != "short":
            raise ConfigError(
                f"suite {self.name}: {package} {line(installed, 40)} is installed, and the protocol {protocol.name} is "
                f"of {wanted}: {self.remedy}, or take the protocol short"
            )
        return installed


def scheduled(items: Sequence[SuiteItem], protocol: Protocol) -> Scheduled:
    """The samples of an evaluation of these items."""
    return Scheduled({item.name: item.category for item in items}, protocol.samples)


def items_digest(items: Sequence[SuiteItem]) -> str:
    """BLAKE2b of all items in their order, 32 hex digits."""
    return hashlib.blake2b(msgspec.json.encode(items), digest_size=16).hexdigest()
