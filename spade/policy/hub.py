"""Models and data sets of the Hugging Face hub: a snapshot of the needed files, from the hub or from its cache."""

import logging
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from spade.decoding import read_first_line
from spade.errors import ConfigError
from spade.policy.parameter_files import list_parameter_files
from spade.text import as_line

if TYPE_CHECKING:
    import httpx2

ANSWER_S = 60.0
"""Most seconds without a byte from a hub. The client's own default is to wait for ever."""
MOST_WAIT_S = 600
"""Longest wait in seconds that a hub may ask for."""
_FILES = ["*.json", "*.safetensors", "*.jinja", "*.txt", "*.model"]
_NAME = re.compile(r"[\w.-]+/[\w.-]+(?:@[0-9a-f]{40})?", re.ASCII)
_PATH_HEADERS = ("ETag", "X-Linked-ETag", "X-Repo-Commit")
"""Headers from which the client makes paths in its cache."""
_WAIT = re.compile(r"(?:^|\bt=)(\d+)")

log = logging.getLogger(__name__)


@cache
def guard_client() -> None:
    """Make the hub's client check the answers of a hub. Further calls do nothing.

    The client then raises an error if a hub sends nothing, asks for a wait of hours, or names a file outside the cache.
    """
    from huggingface_hub import set_client_factory
    from huggingface_hub.utils import _http

    def make() -> "httpx2.Client":
        client = _http.default_client_factory()
        client.event_hooks = {"request": [*client.event_hooks["request"], _bound_waits], "response": [_check_answer]}
        return client

    set_client_factory(make)


def _bound_waits(request: "httpx2.Request") -> None:
    waits = request.extensions.get("timeout", {})
    request.extensions["timeout"] = {what: ANSWER_S if wait is None else wait for what, wait in waits.items()}


def _check_answer(answer: "httpx2.Response") -> None:
    """Raise ValueError if an answer would lead out of the cache, or into a long wait."""
    host, headers = answer.request.url.host, answer.headers
    if answer.request.method == "HEAD":
        for name in _PATH_HEADERS:
            given = headers.get(name, "").removeprefix("W/").strip('"')
            if "/" in given or given in (".", ".."):
                raise ValueError(f"the {name} of {host} is a path: {as_line(given, 80)}")
    for name in ("Retry-After", "RateLimit"):
        wait = _WAIT.search(headers.get(name, ""))
        if answer.is_error and wait and int(wait[1][:9]) > MOST_WAIT_S:
            raise ValueError(f"status {answer.status_code}, and {host} asks to wait {wait[1][:9]} s")


def is_name(text: str) -> bool:
    """Return True if `text` could name a model of the hub: `OWNER/NAME` or `OWNER/NAME@COMMIT`. Sends no request."""
    return _NAME.fullmatch(text) is not None


def find_snapshot(name: str) -> Path:
    """Return the folder of `OWNER/NAME` or `OWNER/NAME@COMMIT`, which is named after the commit.

    A commit never changes, so if the cache has the commit, the hub is not asked. Any other name is looked up on the
    hub. If the hub does not give it, the cached copy is used. Raises ConfigError if there is no cached copy either.
    """
    if not is_name(name):
        raise ConfigError(
            f"model.path: there is no folder {name!r} here; give nano, nano-tools, a checkpoint folder, a name of the "
            "hub such as Qwen/Qwen3-0.6B, or OWNER/NAME@COMMIT with the 40 digits of a commit"
        )
    cached = _find_cached(name, "model", _FILES) if "@" in name else None
    if cached and all(file.is_file() for file in list_parameter_files(cached)):
        return cached
    try:
        return _look_up(name, "model", _FILES)
    except ConfigError as error:
        raise ConfigError(
            f"model.path: {name!r} is no folder here, and {error}; check the name, the network and `hf auth whoami`, "
            "or give a checkpoint folder"
        ) from None


def data_set(name: str, patterns: Sequence[str]) -> Path:
    """Return a folder with the files of the data set `OWNER/NAME` or `OWNER/NAME@COMMIT` that match a pattern.

    The folder is named after the commit. If the hub does not give the data set, the cached copy is used. Raises
    ConfigError if there is no cached copy either, or if no file of the data set matches.
    """
    if not is_name(name):
        raise ConfigError(
            f"{as_line(name, 100)!r} does not name a data set of the hub; write OWNER/NAME, or OWNER/NAME@COMMIT with "
            "the 40 digits of a commit"
        )
    try:
        folder = _look_up(name, "dataset", patterns)
    except ConfigError as error:
        raise ConfigError(
            f"{name}: {error}; check the name, the network and `hf auth whoami`, or give the folder of a copy"
        ) from None
    if not any(file.match(pattern) for file in folder.rglob("*") for pattern in patterns):
        raise ConfigError(f"{name}: the data set has no file {' or '.join(patterns)}")
    return folder


def read_licence(card: Path | str) -> str:
    """Return the licence that a card states, or "". `card` is a card's file, or the name of a model of the hub."""
    from huggingface_hub import ModelCard

    guard_client()
    with suppress(Exception):  # the card lacks front matter, or the hub does not answer
        return str(ModelCard.load(card).data.license or "")
    return ""


_Kind = Literal["model", "dataset"]


def _look_up(name: str, kind: _Kind, patterns: Sequence[str]) -> Path:
    """Ask the hub. If it fails, take the cached copy. Raises ConfigError if there is no cached copy."""
    try:
        return _download_snapshot(name, kind, patterns, offline=False)
    except Exception as error:  # the hub's client, HTTP and the decoding of answers raise many kinds of errors
        cached = _find_cached(name, kind, patterns)
        if cached is None:
            raise ConfigError(f"the hub did not give it: {read_first_line(error)}") from None
        log.warning(
            "the hub did not answer for %s (%s); its cached copy %s is used", name, read_first_line(error), cached
        )
        return cached


def _find_cached(name: str, kind: _Kind, patterns: Sequence[str]) -> Path | None:
    try:
        return _download_snapshot(name, kind, patterns, offline=True)
    except Exception:
        return None


def _download_snapshot(name: str, kind: _Kind, patterns: Sequence[str], offline: bool) -> Path:
    from huggingface_hub import snapshot_download

    hide_bars_without_terminal()
    guard_client()
    repository, _, revision = name.partition("@")
    return Path(
        snapshot_download(
            repository, repo_type=kind, revision=revision or None, allow_patterns=list(patterns),
            local_files_only=offline,
        )
    )  # fmt: skip


def hide_bars_without_terminal() -> None:
    """Switch off the progress bars of the hub's library, unless stderr is a terminal."""
    from huggingface_hub.utils.tqdm import disable_progress_bars

    if not sys.stderr.isatty():
        disable_progress_bars()
