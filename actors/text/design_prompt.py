"""Fit the designer's prompt into the context: share its tokens between a document and the memory's examples.

The tokens that the rest of the prompt leaves free are halved. The document gets one half and is cut if it is longer.
The other half is for the examples: first the examples to vary, then the example to avoid. Each example is shown whole
or not at all. Tokens that one half does not use go to the other half. Pure: no I/O and no clock.
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
    """A designer's prompt as tokens."""

    ids: list[int]
    """The prompt's token ids."""

    shown: tuple[str, ...]
    """Ids of the environments from the memory that the prompt shows as examples."""


def fit_prompt(
    profile: Profile,
    tokenizer: Tokenizer,
    job: DesignJob,
    document: Document | None,
    room: int,
    situation: Situation = NO_SITUATION,
) -> Prompt:
    """Build the prompt of an attempt, with at most `room` tokens. Without a `document`, the design is ungrounded.

    Raises ConfigError if the prompt does not fit even without a document and examples.
    """
    return _Fitting(profile, tokenizer, job, document, room, situation).prompt()


class _Fitting:
    """Builds the prompt of one attempt."""

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
        bare = len(self._make_ids(0))
        if bare > self._room:
            raise ConfigError(
                f"engine.context_tokens: a design prompt does not fit the {self._room} tokens that design.max_tokens "
                "leaves; raise engine.context_tokens or lower design.max_tokens"
            )
        half = self._find_longest(0, bare + (self._room - bare) // 2)
        self._add_examples(half)
        ids = self._make_ids(self._find_longest(half, self._room))
        avoided = [self._avoid] if self._avoid else []
        return Prompt(ids, tuple(example.environment for example in (*self._seeds, *avoided)))

    def _add_examples(self, length: int) -> None:
        """Take the examples that fit with `length` characters of the document. The profile may leave out examples."""
        prompt = self._make_ids(length)
        for seed in self._job.seeds:
            self._seeds.append(seed)
            longer = self._make_ids(length)
            if len(longer) > self._room or longer == prompt:
                self._seeds.pop()
            else:
                prompt = longer
        self._avoid = self._job.avoid
        if len(self._make_ids(length)) > self._room:
            self._avoid = None

    def _find_longest(self, fits: int, room: int) -> int:
        """Return how many characters of the document fit into a prompt of at most `room` tokens with the examples.

        The caller knows that `fits` characters fit.
        """
        whole = 0 if self._document is None else len(self._document.text)
        if len(self._make_ids(whole)) <= room:
            return whole
        return bisect_right(range(whole), room, lo=fits + 1, key=lambda length: len(self._make_ids(length))) - 1

    def _make_ids(self, length: int) -> list[int]:
        """Return the prompt with the first `length` characters of the document.

        A prompt that is longer than the available tokens may be cut.
        """
        document = self._document
        if document is not None:
            document = msgspec.structs.replace(document, text=document.text[:length])
        seeds: Sequence[MemorySeed] = tuple(self._seeds)
        messages = self._profile.design(self._job.skill, document, seeds, self._avoid, self._job.draw, self._situation)
        return self._tokenizer.prompt_ids(messages, self._room)
