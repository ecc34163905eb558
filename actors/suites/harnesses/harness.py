"""A suite that somebody else's program drives."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
import trio

from actors.suites.harnesses import environment
from actors.suites.harnesses.worker import ListedItem, worker
from actors.suites.suite import Suite
from actors.suites.talk import suite_talks
from actors.text.conversation import Talk
from actors.text.toolcalls import DIALECTS, find_dialect
from spade.config import Library, ProtocolName, Tier
from spade.errors import ConfigError, RunError
from spade.evaluations import Protocol, SuiteItem
from spade.tokens import Tokenizer

THINKING_TOKENS = 8_192
"""Tokens of a turn of a model that thinks, as many as `play.max_turn_tokens` gives it while it trains."""


@dataclass(frozen=True)
class Harness(Suite):
    """A suite whose items a harness has, plays and judges.

    package  whose version names the harness
    users    a model plays its users, too
    """

    package: str = ""
    users: bool = False

    @property
    def library(self) -> Library | None:
        """See Suite; no env-runner plays its items."""
        return None

    def for_thoughts(self, protocol: Protocol) -> Protocol:
        """Give the turns of a protocol room for thoughts. A turn that thoughts fill is cut before its answer."""
        sampling = msgspec.structs.replace(protocol.sampling, max_tokens=THINKING_TOKENS)
        return msgspec.structs.replace(protocol, sampling=sampling)

    def versions(self, protocol: Protocol) -> dict[str, str]:
        """The pinned version, and the digest of all pins. Raises ConfigError where the environment is not there."""
        environment.python(self.name)
        return {self.package: environment.version(self.name, self.package), "pins": environment.digest(self.name)}

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
        """The harness of this name, whose driver is the module of the same name. `tools`: its requests have some."""

        def read(_: Protocol, data: Path | None) -> list[SuiteItem]:
            return [SuiteItem(each.name, each.category, each.digest) for each in listed(name, data)]

        def talks(protocol: Protocol, tokenizer: Tokenizer) -> Callable[[], Talk]:
            try:
                if tools:
                    find_dialect(tokenizer, DIALECTS, "this model")
            except RunError as error:
                raise RunError(f"suite {name}: {error}") from None
            return suite_talks(protocol, tokenizer)  # of no use, since the harness talks

        return cls(name, protocols, read, size=size, columns=columns, talks=talks, package=package, users=users)


def listed(name: str, data: Path | None, tier: Tier | str = "auto") -> list[ListedItem]:
    """The items of a harness. Raises ConfigError, HarnessError."""

    async def ask() -> list[ListedItem]:
        async with worker(name, environment.folder(name) / "items.log", tier, data) as found:
            return await found.items()

    items = trio.run(ask)
    if len({item.name for item in items}) < len(items):
        raise ConfigError(f"suite {name}: two items have one name")
    return items
