"""The word lists of NLTK's corpus `words`, for a stand-in of NLTK."""

import os
import sys
from collections.abc import Iterable

FOLDERS = ("nltk_data", "share/nltk_data", "lib/nltk_data")
"""The folders that NLTK searches below the interpreter's prefix. A sandboxed process cannot read other folders."""


class WordLists:
    """A replacement of `nltk.corpus.words`. It reads all lists when it is made, each from the first of `folders` that
    has it."""

    def __init__(self, folders: Iterable[str] | None = None) -> None:
        self._lists: dict[str, list[str]] = {}
        self._folders = [os.path.join(sys.prefix, folder) for folder in FOLDERS] if folders is None else list(folders)
        for folder in self._folders:
            for name in ("en", "en-basic"):
                path = os.path.join(folder, "corpora", "words", name)
                if name not in self._lists and os.path.isfile(path):
                    with open(path, encoding="utf-8") as file:
                        self._lists[name] = file.read().split()

    def words(self, name: str) -> list[str]:
        """Return the word list `name`. Raises LookupError if the corpus is not installed."""
        if name not in self._lists:
            wanted = f"NLTK's corpus `words` (https://www.nltk.org/nltk_data), unpacked in {self._folders[0]}/corpora"
            raise LookupError(f"the list of words {name!r} is not here: this game needs {wanted}")
        return self._lists[name]
