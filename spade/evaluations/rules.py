"""The rules of an evaluation: a protocol, and everything else on which its figures depend."""

import hashlib
import tomllib
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
import tomli_w
from msgspec import Meta

from spade.config.suites import ProtocolName
from spade.decoding import try_decode
from spade.errors import ConfigError
from spade.evaluations.record import Name
from spade.text import as_line

PROBLEM = "{problem}"
"""Placeholder, in a protocol's prompt, for the first text of the item's program."""

ROOM = 16_384
"""Tokens of a play's context that are reserved for the texts of the program."""

_Count = Annotated[int, Meta(ge=1, le=1 << 31)]


class Sampling(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The distribution of a policy's tokens."""

    temperature: Annotated[float, Meta(ge=0, le=100)]
    """Divisor of the logits."""

    top_p: Annotated[float, Meta(gt=0, le=1)] = 1.0
    """Total probability of the likeliest tokens that are kept. 1 is off."""

    top_k: Annotated[int, Meta(ge=0, le=1 << 31)] = 0
    """Number of likeliest tokens that are kept. 0 is off."""

    max_tokens: _Count
    """Most tokens of one turn."""


class Protocol(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One way to play a suite."""

    name: ProtocolName
    """Name of the protocol."""

    prompt: str
    """The user's first message. It contains PROBLEM once."""

    sampling: Sampling
    """Distribution of the tokens."""

    samples: _Count
    """Plays of each item."""

    grading: Name
    """Name of the rule that reads and judges an answer."""

    turns: _Count = 1
    """Most answers of a play."""

    draws: Annotated[int, Meta(ge=0, le=1 << 31)] = 0
    """Number of items drawn from each generator (a data set, a game). 0 if the items are given."""

    examples: tuple[tuple[str, str], ...] = ()
    """Pairs of a question and an answer in the form of `grading`. They come before the user's first message."""

    def __post_init__(self) -> None:
        if self.prompt.count(PROBLEM) != 1:
            raise ValueError(f"a prompt holds {PROBLEM} once")

    def ask(self, problem: str) -> str:
        """Return the user's first message. Braces of the problem stay as they are."""
        return self.prompt.replace(PROBLEM, problem)

    def context_tokens(self, most: int) -> int:
        """Return the most tokens of a play's sequence. `most` is the bound of the model or of its engine."""
        return min(most, ROOM + self.turns * self.sampling.max_tokens)


class Rules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything on which the records of an evaluation depend."""

    suite: Name
    """Name of the suite."""

    policy: Name
    """Digest of the weights."""

    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    """Value of `spade eval --seed`."""

    protocol: Protocol
    """Protocol of the evaluation."""

    items: _Count
    """Number of items."""

    items_digest: Name
    """Digest of the items' names, programs and seeds, in order."""

    libraries: Mapping[str, str] = {}
    """Version of each package that the suite needs, by name."""

    data: Mapping[str, str] = {}
    """SHA-256 of each data file that the user gave, by suite."""

    conditions: Mapping[str, str] = {}
    """Settings that the model runs with: context_tokens, dtype, thinking, thoughts."""

    @property
    def digest(self) -> str:
        """Return the name of these rules: BLAKE2b of their content, 32 hex digits."""
        # Convert as a reader would: a temperature of 1 is then 1.0.
        tree = _make_tree(msgspec.convert(msgspec.to_builtins(self), Rules))
        return hashlib.blake2b(msgspec.json.encode(tree, order="sorted"), digest_size=16).hexdigest()

    def toml(self) -> bytes:
        """Return the content of `protocol.toml`: the rules and their digest."""
        return tomli_w.dumps({"digest": self.digest, **_make_tree(self)}).encode()


def _make_tree(rules: Rules) -> dict[str, Any]:
    """Return the rules as plain values. Empty examples are left out, so that older rules keep their digest."""
    tree: dict[str, Any] = msgspec.to_builtins(rules)
    if not rules.protocol.examples:
        del tree["protocol"]["examples"]
    return tree


def read_toml(data: bytes) -> Rules:
    """Parse a `protocol.toml`. Raises UnreadableError, also if the digest in it does not fit its content."""
    return try_decode(_parse_rules, data)


def _parse_rules(data: bytes) -> Rules:
    tree = tomllib.loads(data.decode())
    digest = tree.pop("digest", "")
    rules = msgspec.convert(tree, Rules)
    if rules.digest != digest:
        raise ValueError("its digest does not fit its content: it was changed")
    return rules


def list_differing(one: Rules, other: Rules) -> list[str]:
    """Return the differing fields of two evaluations, ignoring the policy.

    If the result is empty, their figures are comparable.
    """
    fields = [name for name in Rules.__struct_fields__ if name not in ("policy", "protocol")]
    found = [name for name in fields if getattr(one, name) != getattr(other, name)]
    rules = one.protocol, other.protocol
    inner = [name for name in Protocol.__struct_fields__ if getattr(rules[0], name) != getattr(rules[1], name)]
    return found + [f"protocol.{name}" for name in inner]


def refuse_other(one: Rules, other: Rules) -> None:
    """Raise ConfigError unless the figures of two evaluations are comparable."""
    names = list_differing(one, other)
    if names:
        suites = f"{as_line(one.suite, 80)} and {as_line(other.suite, 80)}"
        raise ConfigError(
            f"evaluations ({suites}) cannot be compared, they differ in {', '.join(names)}; play one again"
        )
