"""Check the files of a checkpoint before anything of a run starts. No torch here: a check takes milliseconds.

It finds what the files alone show. Loading finds the rest (`spade.policy.model.load`), and so do the engine's and the
learner's comparisons with the model's own forward.
"""

from pathlib import Path

import msgspec
from safetensors import SafetensorError, safe_open

from spade.decoding import UnreadableError, decoded, printable
from spade.errors import RunError, reason
from spade.policy import model_folder
from spade.policy.manifest import PARAMETERS
from spade.tokens import Tokenizer

_INDEX = f"{PARAMETERS}.index.json"


class _Index(msgspec.Struct):
    """The part of a sharded checkpoint's index that is read here."""

    weight_map: dict[str, str]


_indexes: msgspec.json.Decoder[_Index] = msgspec.json.Decoder(_Index)


def check_files(folder: Path, *, thinking: bool = False) -> Tokenizer:
    """Check the files of a checkpoint folder, and return its tokenizer.

    Raises RunError if a file is missing, cannot be read or does not fit the others.
    """
    facts = model_folder.facts(folder)
    tokenizer = Tokenizer.load(folder, thinking=thinking)
    if facts.vocabulary is not None and tokenizer.size > facts.vocabulary:
        raise RunError(
            f"{folder}: its tokenizer has {tokenizer.size} tokens, and its model embeds {facts.vocabulary}; give a "
            "checkpoint whose tokenizer.json and config.json belong together"
        )
    for file in _parameter_files(folder):
        try:
            with safe_open(file, framework="numpy"):
                pass
        except (OSError, SafetensorError) as error:
            raise RunError(f"{file}: {printable(error)}; give a whole checkpoint") from None
    return tokenizer


def _parameter_files(folder: Path) -> list[Path]:
    """The files that hold the parameters. Raises RunError if the index of a sharded checkpoint cannot be read."""
    index = folder / _INDEX
    if (folder / PARAMETERS).is_file() or not index.is_file():
        return [folder / PARAMETERS]
    try:
        names = set(decoded(_indexes.decode, index.read_bytes()).weight_map.values())
    except (OSError, UnreadableError) as error:
        raise RunError(f"{index}: {reason(error)}; give a whole checkpoint") from None
    if outside := sorted(name for name in names if Path(name).name != name):
        raise RunError(f"{index}: names {outside[0]!r}, which is no file of this folder; give a whole checkpoint")
    return [folder / name for name in sorted(names)]
