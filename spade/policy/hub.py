"""Models of the Hugging Face hub: a snapshot of the files that a run needs, from the hub or from its cache."""

import logging
import re
from pathlib import Path

from spade.decoding import read_first_line
from spade.errors import ConfigError
from spade.policy.parameter_files import list_parameter_files

_FILES = ["*.json", "*.safetensors", "*.jinja", "*.txt", "*.model"]
_NAME = re.compile(r"[\w.-]+/[\w.-]+(?:@[0-9a-f]{40})?", re.ASCII)

log = logging.getLogger(__name__)


def is_name(text: str) -> bool:
    """Return True if `text` could name a model of the hub: `OWNER/NAME` or `OWNER/NAME@COMMIT`. Asks nobody."""
    return _NAME.fullmatch(text) is not None


def find_snapshot(name: str) -> Path:
    """Return the folder of `OWNER/NAME` or `OWNER/NAME@COMMIT`, which is named after the commit.

    A commit never changes, so one that the cache has is taken from there. Another name is looked up, and the cache
    serves if the hub cannot. Raises ConfigError if neither has it.
    """
    if not is_name(name):
        raise ConfigError(
            f"model.path: there is no folder {name!r} here; give nano, nano-tools, a checkpoint folder, a name of the "
            "hub such as Qwen/Qwen3-0.6B, or OWNER/NAME@COMMIT with the 40 digits of a commit"
        )
    if "@" in name and (cached := _find_cached(name)) and all(file.is_file() for file in list_parameter_files(cached)):
        return cached
    try:
        return _download_snapshot(name, offline=False)
    except Exception as error:  # of the hub's client, of HTTP below it, or of an answer that is no JSON
        cached = _find_cached(name)
        if cached is None:
            raise ConfigError(
                f"model.path: {name!r} is no folder here, and the hub did not give it: {read_first_line(error)}; "
                f"check the "
                "name, the network and `hf auth whoami`, or give a checkpoint folder"
            ) from None
        log.warning(
            "the hub did not answer for %s (%s); its cached copy %s is used", name, read_first_line(error), cached
        )
        return cached


def _find_cached(name: str) -> Path | None:
    try:
        return _download_snapshot(name, offline=True)
    except Exception:
        return None


def _download_snapshot(name: str, offline: bool) -> Path:
    from huggingface_hub import snapshot_download

    repository, _, revision = name.partition("@")
    folder = snapshot_download(repository, revision=revision or None, allow_patterns=_FILES, local_files_only=offline)
    return Path(folder)
