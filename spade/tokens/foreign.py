"""Untrusted parts of a checkpoint: files that may hold anything, and a chat template, which is code.

A template runs in jinja2's sandbox and cannot reach our code there. But its time and memory are not bounded
(`docs/security.md`).
"""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from spade.decoding import UnreadableError, make_printable, try_decode
from spade.disk import read_all
from spade.errors import RunError, format_reason

T = TypeVar("T")


class AddedToken(msgspec.Struct):
    """A token of `tokenizer.json` outside of its vocabulary."""

    id: int
    """Token id."""

    content: str
    """Text of the token."""


class TokenizerFile(msgspec.Struct):
    """The part of `tokenizer.json` that we read."""

    added_tokens: list[AddedToken] = []
    """Tokens outside of the vocabulary."""


class GenerationFile(msgspec.Struct):
    """The part of `generation_config.json` that we read."""

    eos_token_id: int | list[int] | None = None
    """Tokens that end a turn."""


def read_json(path: Path, kind: type[T]) -> T:
    """Read a JSON file of a checkpoint folder. Raises RunError if it is missing or cannot be decoded as `kind`."""
    return _read(path, msgspec.json.Decoder(kind).decode)


def read_text(path: Path) -> str:
    """Read a text file of a checkpoint folder. Raises RunError if it is missing or not UTF-8."""
    return _read(path, lambda data: data.decode())


def _read(path: Path, decode: Callable[[bytes], T]) -> T:
    try:
        return try_decode(decode, read_all(path))
    except (OSError, UnreadableError) as error:
        raise RunError(f"{path}: {format_reason(error)}; a checkpoint folder needs this file") from None


def run_template(what: str, run: Callable[[], T]) -> T:
    """Run a chat template. Raises RunError for any exception of its code. `what` is the failure in words."""
    try:
        return run()
    except Exception as error:
        raise RunError(f"the model's chat template {what}: {make_printable(error)}") from None
