"""The rules of an evaluation: a protocol, and all else that its figures depend on."""

import hashlib
import tomllib
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
import tomli_w
from msgspec import Meta

from spade.config.suites import ProtocolName
from spade.decoding import decoded
from spade.errors import ConfigError
from spade.evaluations.record import Name
from spade.text import line

PROBLEM = "{problem}"
"""Stands in a protocol's prompt for what the item's program says first."""

ROOM = 16_384
"""Tokens of a context for what the program says."""

_Count = Annotated[int, Meta(ge=1, le=1 << 31)]


class Sampling(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The distribution of a policy's tokens. `top_p` 1 and `top_k` 0 are off; `max_tokens` is of one turn."""

    temperature: Annotated[float, Meta(ge=0, le=100)]
    top_p: Annotated[float, Meta(gt=0, le=1)] = 1.0
    top_k: Annotated[int, Meta(ge=0, le=1 << 31)] = 0
    max_tokens: _Count


class Protocol(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One way to play a suite.

    prompt    the user's first message, with PROBLEM in it once
    samples   plays of each item
    grading   the name of the rule by which an answer is read and judged
    turns     the most answers of a play
    draws     items of each generator (a dataset, a game); 0 where the items are given
    examples  pairs of a question and an answer in the form of `grading`, said before the user's first message
    """

    name: ProtocolName
    prompt: str
    sampling: Sampling
    samples: _Count
    grading: Name
    turns: _Count = 1
    draws: Annotated[int, Meta(ge=0, le=1 << 31)] = 0
    examples: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if self.prompt.count(PROBLEM) != 1:
            raise ValueError(f"a prompt holds {PROBLEM} once")

    def ask(self, problem: str) -> str:
        """The user's first message; braces of the problem mean nothing."""
        return self.prompt.replace(PROBLEM, problem)

    def context_tokens(self, most: int) -> int:
        """Tokens of the longest sequence of a play; `most` is the bound of the model or of its engine."""
        return min(most, ROOM + self.turns * self.sampling.max_tokens)


class Rules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that the records of an evaluation follow from.

    policy     digest of the weights
    seed       the S of `spade eval --seed`
    items      the number of items, and `items_digest` that of their names, programs and seeds in order
    libraries  versions by package
    data       SHA-256 of each given file by its suite
    conditions settings by which the model is run: context_tokens, dtype, thinking, thoughts
    """

    suite: Name
    policy: Name
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    protocol: Protocol
    items: _Count
    items_digest: Name
    libraries: Mapping[str, str] = {}
    data: Mapping[str, str] = {}
    conditions: Mapping[str, str] = {}

    @property
    def digest(self) -> str:
        """Names these rules: BLAKE2b of what they say, 32 hex digits."""
        # As it is read back: a temperature of 1 is then 1.0.
        said = _tree(msgspec.convert(msgspec.to_builtins(self), Rules))
        return hashlib.blake2b(msgspec.json.encode(said, order="sorted"), digest_size=16).hexdigest()

    def toml(self) -> bytes:
        """`protocol.toml`: the rules and their digest."""
        return tomli_w.dumps({"digest": self.digest, **_tree(self)}).encode()


def _tree(rules: Rules) -> dict[str, Any]:
    """Return the rules as plain values. Without examples they are the same as before protocols could have any."""
    tree: dict[str, Any] = msgspec.to_builtins(rules)
    if not rules.protocol.examples:
        del tree["protocol"]["examples"]
    return tree


def read_toml(data: bytes) -> Rules:
    """The rules of a `protocol.toml`. Raises UnreadableError, also where its digest is not that of what it says."""
    return decoded(_rules, data)


def _rules(data: bytes) -> Rules:
    tree = tomllib.loads(data.decode())
    digest = tree.pop("digest", "")
    rules = msgspec.convert(tree, Rules)
    if rules.digest != digest:
        raise ValueError("its digest is not that of what it says: it was changed")
    return rules


def differing(one: Rules, other: Rules) -> list[str]:
    """The fields, the policy apart, in which two evaluations differ; their figures compare where there is none."""
    fields = [name for name in Rules.__struct_fields__ if name not in ("policy", "protocol")]
    found = [name for name in fields if getattr(one, name) != getattr(other, name)]
    rules = one.protocol, other.protocol
    inner = [name for name in Protocol.__struct_fields__ if getattr(rules[0], name) != getattr(rules[1], name)]
    return found + [f"protocol.{name}" for name in inner]


def refuse_other(one: Rules, other: Rules) -> None:
    """Raises ConfigError unless the figures of the two compare."""
    names = differing(one, other)
    if names:
        suites = f"{line(one.suite, 80)} and {line(other.suite, 80)}"
        raise ConfigError(f"evaluations ({suites}) that differ in {', '.join(names)} do not compare; play one again")
