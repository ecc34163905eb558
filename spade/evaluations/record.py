"""One sample of one item, as it is kept."""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from spade.decoding import decoded
from spade.seeds import derive

ErrorKind = Literal["unfit", "environment", "ungeneratable", "harness", "server", "timeout"]

ERRORS: Mapping[ErrorKind, bool] = {
    "unfit": True,
    "environment": False,
    "ungeneratable": False,
    "harness": False,
    "server": False,
    "timeout": False,
}
"""Reasons why a sample was not played to its end, and if that is the policy's own doing.

unfit          the prompt does not fit the model's context
environment    the item's program failed
ungeneratable  the item's program never gave a first observation
harness        somebody else's program that drives the model failed
server         the server that was to answer failed, or refused
timeout        the sample was not over within its time
"""

NO_PROMPT = hashlib.blake2b(b"", digest_size=16).hexdigest()
"""`SampleRecord.prompt` of a sample that failed before it had a prompt."""

Name = Annotated[str, Meta(min_length=1, max_length=200)]
_Count = Annotated[int, Meta(ge=0)]

LONGEST_DETAIL = 1000  # characters


class SampleRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One sample. An error is a wrong answer.

    prompt     BLAKE2b of the prompt's tokens, of a server's the JSON of its messages; 32 hex digits
    text       all that the model said, turn by turn
    extracted  the answer that was graded
    score      the suite's own figure, finite; `correct` is what counts
    finish     the reason why sampling ended, in the engine's word
    read       tokens of the prompts, each counted once
    sampled    tokens that the model sampled
    seconds    from the first request to the verdict; the one figure that two equal evaluations differ in
    detail     of an error: one line
    """

    item: Name
    sample: _Count
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    prompt: Annotated[str, Meta(pattern=r"^[0-9a-f]{32}\Z")]
    text: str
    extracted: str
    correct: bool
    score: Annotated[float, Meta(ge=-1e6, le=1e6)]
    finish: Annotated[str, Meta(max_length=40)]
    read: _Count
    sampled: _Count
    seconds: Annotated[float, Meta(ge=0, le=1e9)]
    error: ErrorKind | None = None
    detail: Annotated[str, Meta(max_length=LONGEST_DETAIL)] = ""

    def __post_init__(self) -> None:
        if self.error is not None and self.correct:
            raise ValueError(f"a sample that ended in an error ({self.error}) is not correct")

    @property
    def key(self) -> tuple[str, int]:
        """Item and sample: there is one record of each."""
        return self.item, self.sample


def sample_seed(suite: str, item: str, sample: int, seed: int) -> int:
    """The seed of a sample's tokens: of every policy the same, so that two differ by themselves and not by luck."""
    return derive(b"", "eval", suite, item, sample, seed)


class Scheduled(msgspec.Struct, frozen=True):
    """The samples of an evaluation: `samples` of each item, whose category stands by its name."""

    items: Mapping[str, str]
    samples: int

    def __contains__(self, key: tuple[str, int]) -> bool:
        return key[0] in self.items and 0 <= key[1] < self.samples

    def __iter__(self) -> Iterator[tuple[str, int]]:
        """All of them: a sample of each item before the next of any, so that a part of them tells of all items."""
        return ((item, sample) for sample in range(self.samples) for item in self.items)

    def __len__(self) -> int:
        return self.samples * len(self.items)


_records: msgspec.json.Decoder[SampleRecord] = msgspec.json.Decoder(SampleRecord)


def read_record(line: bytes) -> SampleRecord:
    """The record of a line. Raises UnreadableError where it is none."""
    return decoded(_records.decode, line)


def write_record(record: SampleRecord) -> bytes:
    """The line from which `read_record` makes the same record."""
    return msgspec.json.encode(record) + b"\n"
