"""The stored form of one sample of one item."""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from spade.decoding import try_decode
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
"""Reasons why a sample was not played to its end. The value is True if the policy caused the error.

unfit          the prompt does not fit the model's context
environment    the item's program failed
ungeneratable  the item's program never gave a first observation
harness        a foreign program that drives the model failed
server         the server that samples for the policy failed or refused
timeout        the sample did not end within its time"""

NO_PROMPT = hashlib.blake2b(b"", digest_size=16).hexdigest()
"""`SampleRecord.prompt` of a sample that failed before it had a prompt."""

Name = Annotated[str, Meta(min_length=1, max_length=200)]
_Count = Annotated[int, Meta(ge=0)]

LONGEST_DETAIL = 1000  # characters


class SampleRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One sample. An error counts as a wrong answer."""

    item: Name
    """Name of the item."""

    sample: _Count
    """Number of the sample, from 0."""

    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    """Seed of the sampling."""

    prompt: Annotated[str, Meta(pattern=r"^[0-9a-f]{32}\Z")]
    """BLAKE2b of the prompt's tokens, or for a server, of the JSON of its messages. 32 hex digits."""

    text: str
    """Everything that the model said, turn by turn."""

    extracted: str
    """Answer that was graded."""

    correct: bool
    """True if the answer is right. The figures of an evaluation count this field, not `score`."""

    score: Annotated[float, Meta(ge=-1e6, le=1e6)]
    """Score that the suite itself gave. It is finite."""

    finish: Annotated[str, Meta(max_length=40)]
    """The reason why sampling ended, in the engine's word."""

    read: _Count
    """Tokens of the prompts, each counted once."""

    sampled: _Count
    """Tokens that the model sampled."""

    seconds: Annotated[float, Meta(ge=0, le=1e9)]
    """Time from the first request to the verdict. Only this figure differs in two equal evaluations."""

    error: ErrorKind | None = None
    """Kind of the error, if there was one."""

    detail: Annotated[str, Meta(max_length=LONGEST_DETAIL)] = ""
    """One line that describes the error."""

    def __post_init__(self) -> None:
        if self.error is not None and self.correct:
            raise ValueError(f"a sample that ended in an error ({self.error}) is not correct")

    @property
    def key(self) -> tuple[str, int]:
        """Return item and sample. Each pair has one record."""
        return self.item, self.sample


def sample_seed(suite: str, item: str, sample: int, seed: int) -> int:
    """Return the seed of a sample's tokens.

    The seed does not depend on the policy, so that two policies are compared with the same random numbers.
    """
    return derive(b"", "eval", suite, item, sample, seed)


class SampleSchedule(msgspec.Struct, frozen=True):
    """The samples of an evaluation."""

    items: Mapping[str, str]
    """Category of each item, by its name."""

    samples: int
    """Samples of each item."""

    def __contains__(self, key: tuple[str, int]) -> bool:
        return key[0] in self.items and 0 <= key[1] < self.samples

    def __iter__(self) -> Iterator[tuple[str, int]]:
        """Yield all samples. Each item has one sample before any item has two.

        So an evaluation that stops early has measured all items about equally often.
        """
        return ((item, sample) for sample in range(self.samples) for item in self.items)

    def __len__(self) -> int:
        return self.samples * len(self.items)


_records: msgspec.json.Decoder[SampleRecord] = msgspec.json.Decoder(SampleRecord)


def read_record(line: bytes) -> SampleRecord:
    """Parse a line into a record. Raises UnreadableError if the line is not a record."""
    return try_decode(_records.decode, line)


def write_record(record: SampleRecord) -> bytes:
    """Return the line from which `read_record` makes the same record."""
    return msgspec.json.encode(record) + b"\n"
