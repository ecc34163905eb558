"""A suite: its items as programs, the chat format of a play, and its protocols by name."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

import msgspec

from actors.suites.chat_format import make_suite_chat_formats
from actors.text.conversation import ChatFormat
from spade.config import SUITE_TRAITS, Library, ProtocolName
from spade.errors import ConfigError
from spade.evaluations import Protocol, SampleSchedule, SuiteItem
from spade.extras import describe_installing
from spade.protocol import Needs
from spade.text import as_line
from spade.tokens import Tokenizer

ChatFormats = Callable[[Protocol, Tokenizer], Callable[[], ChatFormat]]
"""For a protocol and a checkpoint's tokenizer, returns a function that makes the chat format of one play.

Raises RunError if the checkpoint cannot play the suite.
"""

Reader = Callable[[Protocol, Path | None], list[SuiteItem]]
"""Reads the items of a protocol from the given data file, if the suite has one.

Raises RunError, which names the row that cannot be read, or OSError.
"""


@dataclass(frozen=True)
class Suite:
    """One suite."""

    name: str
    """The suite's name in commands and settings."""

    protocols: Mapping[ProtocolName, Protocol]
    """Protocols by name. A suite need not have all names."""

    read: Reader
    """See Reader."""

    size: int = 0
    """Number of items that a given file must have for any protocol except `short`. 0 for a suite without a data
    file."""

    columns: str = ""
    """The columns of the given file, in words for messages. "" for a suite without a data file."""

    chat_formats: ChatFormats = make_suite_chat_formats
    """See ChatFormats."""

    packages: Mapping[str, str] = field(default_factory=dict)
    """The required version of each package. The protocol `short` accepts other versions."""

    remedy: str = describe_installing("suites")
    """The command that installs the packages."""

    needs: Needs = field(default_factory=Needs)
    """Time and memory that an item needs beyond the env-runner's own limits."""

    @property
    def library(self) -> Library | None:
        """Return the library that the programs extend, by its name in `sandbox.libraries`, or None."""
        return SUITE_TRAITS[self.name].library

    def protocol(self, name: ProtocolName) -> Protocol:
        """Return the protocol of this name. Raises ConfigError if the suite lacks it."""
        if name not in self.protocols:
            raise ConfigError(f"suite {self.name}: has no protocol {name!r}; it has {', '.join(self.protocols)}")
        return self.protocols[name]

    def with_examples(self, protocol: Protocol, examples: tuple[tuple[str, str], ...]) -> Protocol:
        """Return the protocol with the examples of a run's plays (`play.examples`).

        The examples put their answers in a box. If the suite reads another form of answer, or words its own messages,
        its protocol is returned unchanged.
        """
        if protocol.grading == "program" or self.chat_formats is not make_suite_chat_formats:
            return protocol
        return msgspec.structs.replace(protocol, examples=examples)

    def items(self, protocol: Protocol, data: Path | None = None) -> list[SuiteItem]:
        """Read the items, at least one.

        Raises ConfigError if data is missing or not the whole suite, RunError, OSError. Only the protocol `short` may
        play a part of a suite, or made-up rows. So figures of another protocol always mean the whole suite.
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
                "these items by the protocol short"
            )
        return items

    def versions(self, protocol: Protocol) -> dict[str, str]:
        """Return the installed versions of the packages.

        Raises ConfigError if a package is missing or its version is not the protocol's.
        """
        return {name: self._check_version(name, wanted, protocol) for name, wanted in self.packages.items()}

    def _check_version(self, package: str, wanted: str, protocol: Protocol) -> str:
        try:
            installed = metadata.version(package)
        except metadata.PackageNotFoundError:
            raise ConfigError(f"suite {self.name}: needs {package} {wanted}: {self.remedy}") from None
        if installed != wanted and protocol.name != "short":
            raise ConfigError(
                f"suite {self.name}: {package} {as_line(installed, 40)} is installed, and the protocol "
                f"{protocol.name} needs {wanted}: {self.remedy}, or take the protocol short"
            )
        return installed


def schedule_samples(items: Sequence[SuiteItem], protocol: Protocol) -> SampleSchedule:
    """Return the samples of an evaluation of these items."""
    return SampleSchedule({item.name: item.category for item in items}, protocol.samples)


def compute_items_digest(items: Sequence[SuiteItem]) -> str:
    """Return the BLAKE2b digest of all items in order, 32 hex digits."""
    return hashlib.blake2b(msgspec.json.encode(items), digest_size=16).hexdigest()
