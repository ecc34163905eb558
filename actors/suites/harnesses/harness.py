"""A suite that an external program drives."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
import trio

from actors.suites.chat_format import make_suite_chat_formats
from actors.suites.harnesses import environment
from actors.suites.harnesses.worker import ListedItem, start_worker
from actors.suites.suite import Suite
from actors.text.conversation import ChatFormat
from actors.text.toolcalls import DIALECTS, find_dialect
from spade.config import Library, ProtocolName, Tier
from spade.errors import ConfigError, RunError
from spade.evaluations import Protocol, SuiteItem
from spade.tokens import Tokenizer

THINKING_TOKENS = 8_192
"""Tokens for one turn of a thinking model, as many as `play.max_turn_tokens` gives it in training."""


@dataclass(frozen=True)
class Harness(Suite):
    """A suite with items that a harness provides, plays and judges."""

    package: str = ""
    """The package with the version that identifies the harness."""

    users: bool = False
    """True if a model also plays the simulated users."""

    @property
    def library(self) -> Library | None:
        """Return None (see Suite), because no env-runner plays the items."""
        return None

    def for_thoughts(self, protocol: Protocol) -> Protocol:
        """Return the protocol with room for thoughts in each turn. Otherwise, a turn may be cut before its answer."""
        sampling = msgspec.structs.replace(protocol.sampling, max_tokens=THINKING_TOKENS)
        return msgspec.structs.replace(protocol, sampling=sampling)

    def versions(self, protocol: Protocol) -> dict[str, str]:
        """Return the pinned version and the digest of all pins.

        Raises ConfigError if the environment is not installed.
        """
        environment.find_python(self.name)
        return {
            self.package: environment.read_version(self.name, self.package),
            "pins": environment.compute_digest(self.name),
        }

    @classmethod
    def of(
        cls,
        name: str,
        package: str,
        protocols: Mapping[ProtocolName, Protocol],
        *,
        tools: bool = True,
        users: bool = False,
        columns: str = "",
        size: int = 0,
    ) -> "Harness":
        """Build the harness with this name. The driver is the module of the same name.

        `tools`: True if its requests offer tools through the API. Then the checkpoint must be able to call tools.
        """

        def read(_: Protocol, data: Path | None) -> list[SuiteItem]:
            return [SuiteItem(each.name, each.category, each.digest) for each in list_items(name, data)]

        def chat_formats(protocol: Protocol, tokenizer: Tokenizer) -> Callable[[], ChatFormat]:
            try:
                if tools:
                    find_dialect(tokenizer, DIALECTS, "this model")
            except RunError as error:
                raise RunError(f"suite {name}: {error}") from None
            # Nobody uses these, because the harness itself writes the messages.
            return make_suite_chat_formats(protocol, tokenizer)

        return cls(
            name, protocols, read, size=size, columns=columns, chat_formats=chat_formats, package=package, users=users
        )


def list_items(name: str, data: Path | None, tier: Tier | str = "auto") -> list[ListedItem]:
    """List the items of a harness. Raises ConfigError, HarnessError."""

    async def ask() -> list[ListedItem]:
        async with start_worker(name, environment.find_folder(name) / "items.log", tier, data) as found:
            return await found.items()

    items = trio.run(ask)
    if len({item.name for item in items}) < len(items):
        raise ConfigError(f"suite {name}: two items have the same name")
    return items
