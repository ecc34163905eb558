"""The folder of a model: one that ships with the package, a path, or a name on the hub. No torch here."""

from pathlib import Path
from typing import Literal

import msgspec

from spade.decoding import UnreadableError, decoded
from spade.disk import read
from spade.errors import ConfigError, RunError, reason

NANO = Path(__file__).parents[1] / "data" / "nano"
SHIPPED = {"nano": NANO, "nano-tools": NANO.with_name("nano-tools")}
"""By name: the nano models of games and of tool use."""
_LONGEST = 1 << 20  # tokens of a model that names no bound


class _Part(msgspec.Struct):
    """The part of a `config.json` that is read here."""

    max_position_embeddings: int | None = None
    vocab_size: int | None = None
    dtype: str | None = None
    torch_dtype: str | None = None


class _ModelFile(_Part):
    text_config: _Part | None = None


_files: msgspec.json.Decoder[_ModelFile] = msgspec.json.Decoder(_ModelFile)


class ModelFacts(msgspec.Struct, frozen=True):
    """Facts of a model that its `config.json` states."""

    context_tokens: int
    """The longest sequence that the model is made for."""
    dtype: Literal["float32", "bfloat16"]
    """The number format of its checkpoint. Any other than float32 counts as bfloat16."""
    vocabulary: int | None
    """Rows of its embedding, if stated."""


def facts(folder: Path) -> ModelFacts:
    """Read the facts of a checkpoint folder. Raises RunError if it has no readable `config.json`."""
    file = folder / "config.json"
    try:
        whole = decoded(_files.decode, read(file))
    except (OSError, UnreadableError) as error:
        raise RunError(f"{file}: {reason(error)}; a checkpoint folder needs this file") from None
    texts = whole.text_config or _Part()
    dtype = whole.dtype or whole.torch_dtype or texts.dtype or texts.torch_dtype
    tokens = whole.max_position_embeddings or texts.max_position_embeddings or _LONGEST
    vocabulary = whole.vocab_size or texts.vocab_size
    return ModelFacts(tokens, "float32" if dtype == "float32" else "bfloat16", vocabulary)


def resolve(path: str) -> Path:
    """The folder of the checkpoint called `path`; a hub name is downloaded once and then found in the hub's cache.

    Raises ConfigError if there is no such checkpoint.
    """
    if path in SHIPPED:
        folder = SHIPPED[path]
    elif Path(path).is_dir():
        folder = Path(path)
    else:
        return _download(path)
    if not (folder / "config.json").is_file():
        raise ConfigError(f"model.path: {folder} holds no config.json; give a Hugging Face checkpoint folder")
    return folder


def _download(name: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError, RepositoryNotFoundError

    try:
        return Path(snapshot_download(name, allow_patterns=["*.json", "*.safetensors", "*.jinja", "*.txt", "*.model"]))
    except (HFValidationError, LocalEntryNotFoundError, RepositoryNotFoundError, OSError):
        raise ConfigError(
            f"model.path: {name!r} is not a folder here and could not be fetched from the hub; "
            f"give {', '.join(map(repr, SHIPPED))}, a checkpoint folder or a hub name"
        ) from None
