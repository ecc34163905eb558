"""The folder of a model: the shipped "nano", a path, or a name on the hub. No torch here."""

from pathlib import Path
from typing import Literal

import msgspec

from spade.decoding import UnreadableError, decoded
from spade.disk import read
from spade.errors import ConfigError, RunError, reason

NANO = Path(__file__).parents[1] / "data" / "nano"
_LONGEST = 1 << 20  # tokens of a model that names no bound


class _Part(msgspec.Struct):
    """The part of a `config.json` that is read here."""

    max_position_embeddings: int | None = None
    dtype: str | None = None
    torch_dtype: str | None = None


class _ModelFile(_Part):
    text_config: _Part | None = None


_files: msgspec.json.Decoder[_ModelFile] = msgspec.json.Decoder(_ModelFile)


class ModelFacts(msgspec.Struct, frozen=True):
    """The longest sequence that a model is made for, in tokens, and the number format of its checkpoint."""

    context_tokens: int
    dtype: Literal["float32", "bfloat16"]


def facts(folder: Path) -> ModelFacts:
    """Of a checkpoint folder; another number format than float32 counts as bfloat16. Raises RunError."""
    file = folder / "config.json"
    try:
        whole = decoded(_files.decode, read(file))
    except (OSError, UnreadableError) as error:
        raise RunError(f"{file}: {reason(error)}; a checkpoint folder needs this file") from None
    texts = whole.text_config or _Part()
    dtype = whole.dtype or whole.torch_dtype or texts.dtype or texts.torch_dtype
    tokens = whole.max_position_embeddings or texts.max_position_embeddings or _LONGEST
    return ModelFacts(tokens, "float32" if dtype == "float32" else "bfloat16")


def resolve(path: str) -> Path:
    """The folder of the checkpoint called `path`; a hub name is downloaded once and then found in the hub's cache.

    Raises ConfigError if there is no such checkpoint.
    """
    if path == "nano":
        folder = NANO
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
            "give 'nano', a checkpoint folder or a hub name"
        ) from None
