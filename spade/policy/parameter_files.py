"""The files that hold the parameters of a checkpoint: one, or several with an index."""

from pathlib import Path
from typing import Any

import msgspec

from spade.decoding import UnreadableError, try_decode
from spade.disk import read_all
from spade.errors import RunError, format_reason
from spade.policy.manifest import PARAMETERS
from spade.text import as_line

PICKLED = "pytorch_model*.bin"
_INDEX = f"{PARAMETERS}.index.json"
_LONGEST = 255  # bytes of a file's name


class _Index(msgspec.Struct):
    """The part of the index that is read here."""

    weight_map: dict[str, str]
    metadata: dict[str, Any]  # Transformers needs it


_indexes: msgspec.json.Decoder[_Index] = msgspec.json.Decoder(_Index)


def list_parameter_files(folder: Path) -> dict[Path, set[str]]:
    """Return the files that hold the parameters of the checkpoint `folder`, whether they are there or not.

    Maps each file to the names of the tensors that the index places in it. Without an index, the set is empty. Raises
    RunError if the index cannot be read, or if a file is not a regular file.
    """
    index, whole = folder / _INDEX, folder / PARAMETERS
    if whole.exists() or not index.is_file():
        return _regular({whole: set()})
    try:
        places = try_decode(_indexes.decode, read_all(index)).weight_map
    except (OSError, UnreadableError) as error:
        raise RunError(f"{index}: {format_reason(error)}; give a whole checkpoint") from None
    placed: dict[str, set[str]] = {}
    for tensor, name in places.items():
        placed.setdefault(name, set()).add(tensor)
    if outside := [
        name for name in sorted(placed) if not name or len(name.encode()) > _LONGEST or Path(name).name != name
    ]:
        named = as_line(repr(outside[0]), 200)
        raise RunError(f"{index}: names {named}, which is no file of this folder; give a whole checkpoint")
    return _regular({folder / name: placed[name] for name in sorted(placed)})


def is_pickled(folder: Path) -> bool:
    """Return True if a checkpoint has its parameters only in pickled files, PyTorch's former format."""
    files = list_parameter_files(folder)
    return not any(file.exists() for file in files) and any(file.is_file() for file in folder.glob(PICKLED))


def _regular(files: dict[Path, set[str]]) -> dict[Path, set[str]]:
    """Return `files`. Raises RunError if one exists but is not a regular file: safetensors would wait on a FIFO."""
    for file in files:
        if file.exists() and not file.is_file():
            raise RunError(f"{file}: is not a regular file; give a whole checkpoint")
    return files
