"""Read the files of a checkpoint folder, in the Hugging Face layout, that describe its tokens."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tokenizers

from spade.decoding import make_printable
from spade.errors import RunError
from spade.tokens.foreign import GenerationFile, TokenizerFile, read_json, read_text


def read_settings(folder: Path) -> dict[str, Any]:
    """Read tokenizer_config.json. Raises RunError if it is missing or not a JSON object."""
    return read_json(folder / "tokenizer_config.json", dict[str, Any])


def read_tokenizer(path: Path) -> tokenizers.Tokenizer:
    """Read a tokenizer.json and turn off truncation and padding. Raises RunError if it does not parse."""
    text = read_text(path)
    try:
        bpe = tokenizers.Tokenizer.from_str(text)
    except Exception as error:  # the package tokenizers raises plain Exceptions
        raise RunError(f"{path}: {make_printable(error)}") from None
    bpe.no_truncation()
    bpe.no_padding()
    return bpe


def read_special_tokens(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return `bos_token`, `eos_token` and the like as templates use them.

    In the settings, each is a string or an object with `content`.
    """
    tokens = {}
    for name in ("bos_token", "eos_token", "pad_token", "unk_token"):
        value = settings.get(name)
        text = value.get("content") if isinstance(value, dict) else value
        if isinstance(text, str):
            tokens[name] = text
    return tokens


def end_ids(folder: Path) -> frozenset[int]:
    """Return the tokens that end a turn: generation_config's eos_token_id and the tokenizer's eos_token.

    Raises RunError if the files name no such token.
    """
    found: set[int] = set()
    generation = folder / "generation_config.json"
    if generation.exists():
        listed = read_json(generation, GenerationFile).eos_token_id
        found.update([listed] if isinstance(listed, int) else listed or [])
    eos = read_special_tokens(read_settings(folder)).get("eos_token")
    entries = read_json(folder / "tokenizer.json", TokenizerFile).added_tokens
    found.update(entry.id for entry in entries if entry.content == eos)
    if not found:
        raise RunError(f"{folder}: neither generation_config.json nor tokenizer_config.json names an end-of-turn token")
    return frozenset(found)


def read_template(folder: Path, settings: Mapping[str, Any]) -> str:
    """Return the chat template from chat_template.jinja, or else from tokenizer_config.json (`settings`)."""
    file = folder / "chat_template.jinja"
    if file.exists():
        return read_text(file)
    template = settings.get("chat_template")
    if isinstance(template, list):
        named = [entry for entry in template if isinstance(entry, dict) and entry.get("name") == "default"]
        template = named[-1].get("template") if named else None
    if not isinstance(template, str):
        raise RunError(
            f"{folder}: no chat template (chat_template.jinja or tokenizer_config.json); use an instruct checkpoint"
        )
    return template
