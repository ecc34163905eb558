"""Write a folder into a repository of the Hugging Face hub, as one commit."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from spade.decoding import read_first_line
from spade.errors import ConfigError, RunError, SpadeError
from spade.policy import hub
from spade.text import as_line

if TYPE_CHECKING:
    from huggingface_hub import HfApi

Kind = Literal["model", "dataset"]
_OWN_FILES = {".gitattributes"}
"""Files that the hub itself puts into a new repository."""
_QUERY = re.compile(r"\?\S+")


def check_name(repository: str) -> None:
    """Raise ConfigError unless `repository` is OWNER/NAME."""
    if "@" in repository or not hub.is_name(repository):
        raise ConfigError(f"{as_line(repository, 100)!r} does not name a repository of the hub; write OWNER/NAME")


def push_folder(folder: Path, repository: str, kind: Kind, *, public: bool, update: bool, summary: str) -> str:
    """Make the files of `folder` the content of a repository, in one commit. Return the address of the repository.

    Creates a missing repository, which is private unless `public`. Refuses a repository with files unless `update`.
    With `update`, the commit replaces all its files, and the hub keeps the older commits. Raises ConfigError, RunError.
    """
    check_name(repository)
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, constants, get_token

    token = get_token()
    if token is None:
        raise ConfigError(f"{repository}: no token for the hub; run `hf auth login`, or set HF_TOKEN")
    hub.hide_bars_without_terminal()
    hub.guard_client()
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    api = HfApi(endpoint=constants.ENDPOINT, token=token)
    with _explain(repository, token):
        head, there = _open_repository(api, repository, kind, public)
        if there and not update:
            raise RunError(
                f"{repository}: has files already; give another name, or --update to replace them by a new commit"
            )
        files = {file.relative_to(folder).as_posix(): file for file in sorted(folder.rglob("*")) if file.is_file()}
        removed = [CommitOperationDelete(path) for path in sorted(there - files.keys())]
        added = [CommitOperationAdd(path, str(file)) for path, file in files.items()]
        api.create_commit(repository, [*removed, *added], commit_message=summary, repo_type=kind, parent_commit=head)
    return f"{'datasets/' if kind == 'dataset' else ''}{repository}"


def _open_repository(api: "HfApi", repository: str, kind: Kind, public: bool) -> tuple[str | None, set[str]]:
    """Create a missing repository. Return the newest commit (None if new) and the files of the repository."""
    from huggingface_hub.errors import HfHubHTTPError

    try:
        api.create_repo(repository, repo_type=kind, private=not public)
    except HfHubHTTPError as error:
        if error.response.status_code != HTTPStatus.CONFLICT:
            raise
    else:
        return None, set()
    info = api.model_info(repository) if kind == "model" else api.dataset_info(repository)
    return info.sha, {each.rfilename for each in info.siblings or ()} - _OWN_FILES


@contextmanager
def _explain(repository: str, token: str) -> Iterator[None]:
    """Turn each error of the hub into one line without the token and without the queries of signed addresses."""
    from huggingface_hub import constants
    from huggingface_hub.errors import HfHubHTTPError

    try:
        yield
    except SpadeError:
        raise
    except Exception as error:  # from the hub's client, from HTTP, or from decoding an answer
        cause = error.__cause__ if isinstance(error.__cause__, HfHubHTTPError) else error
        status = cause.response.status_code if isinstance(cause, HfHubHTTPError) else None
        if status == HTTPStatus.UNAUTHORIZED:
            why = "the hub does not know the token; run `hf auth login` with another, or set HF_TOKEN"
        elif status == HTTPStatus.FORBIDDEN:
            why = "the token may not write there; `hf auth whoami` names its owner"
        else:
            line = _QUERY.sub("", read_first_line(cause)).replace(token, "…")
            why = f"the hub at {urlsplit(constants.ENDPOINT).hostname} did not accept it: {line}"
        raise RunError(f"{repository}: {why}") from None
