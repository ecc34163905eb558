"""The designer's prompt within the context: how a document and the examples of the memory share the room.

What the rest of the prompt leaves is halved. The document has one half, cut where it takes more; the examples go into
the other, in their order (those to vary, then the one to avoid), each whole or not at all. What either leaves of its
half the other has. Pure: no I/O and no clock.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from actors.text.profile import NO_SITUATION, Document, Profile, Situation
from spade.errors import ConfigError
from spade.protocol import DesignJob, MemorySeed
from spade.tokens import Tokenizer


@dataclass(frozen=True)
class Prompt:
    """A designer's prompt as tokens; `shown` are the environments of the memory that are in it."""

    ids: list[int]
    shown: tuple[str, ...]


def fit_prompt(
    profile: Profile,
    tokenizer: Tokenizer,
    job: DesignJob,
    document: Document | None,
    room: int,
    situation: Situation = NO_SITUATION,
) -> Prompt:
    """The prompt of an attempt from `document` (None: from none) in at most `room` tokens.

    Raises ConfigError where not even one without document and examples fits.
    """
    return _Fitting(profile, tokenizer, job, document, room, situation).prompt()


class _Fitting:
    """One attempt's prompt in the making."""

    def __init__(
        self,
        profile: Profile,
        tokenizer: Tokenizer,
        job: DesignJob,
        document: Document | None,
        room: int,
        situation: Situation,
    ) -> None:
        self._profile = profile
        self._tokenizer = tokenizer
        self._job = job
        self._document = document
        self._room = room
        self._situation = situation
        self._seeds: list[MemorySeed] = []
        self._avoid: MemorySeed | None = None

    def prompt(self) -> Prompt:
        bare = len(self._ids(0))
        if bare > self._room:
            raise ConfigError(
                f"engine.context_tokens: a design prompt does not fit the {self._room} tokens that design.max_tokens "
                "leaves; raise the one or lower the other"
            )
        half = self._longest(0, bare + (self._room - bare) // 2)
        self._add_examples(half)
        ids = self._ids(self._longest(half, self._room))
        avoided = [self._avoid] if self._avoid else []
        return Prompt(ids, tuple(example.environment for example in (*self._seeds, *avoided)))

    def _add_examples(self, length: int) -> None:
        """Take the examples that fit beside `length` characters of the document; a profile may leave some out."""
        prompt = self._ids(length)
        for seed in self._job.seeds:
            self._seeds.append(seed)
            longer = self._ids(length)
            if len(longer) > self._room or longer == prompt:
                self._seeds.pop()
            else:
                prompt = longer
        self._avoid = self._job.avoid
        if len(self._ids(length)) > self._room:
            self._avoid = None

    def _longest(self, fits: int, room: int) -> int:
        """Characters of the document with which the prompt, as it is now, takes at most `room` tokens; `fits` do."""
        whole = 0 if self._document is None else len(self._document.text)
        if len(self._ids(whole)) <= room:
            return whole
        return bisect_right(range(whole), room, lo=fits + 1, key=lambda length: len(self._ids(length))) - 1

    def _ids(self, length: int) -> list[int]:
        """The prompt with so many characters of the document; one that is too long may not be whole."""
        document = self._document
        if document is not None:
            document = msgspec.structs.replace(document, text=document.text[:length])
        seeds: Sequence[MemorySeed] = tuple(self._seeds)
        messages = self._profile.design(self._job.skill, document, seeds, self._avoid, self._job.draw, self._situation)
        return self._tokenizer.prompt_ids(messages, self._room)
