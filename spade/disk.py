"""Files and folders that others rely on: made durable, and deleted whole."""

import os
import tempfile
from pathlib import Path
from shutil import rmtree

DRAFT = ".draft-"
"""How the name of a folder begins that is being written, is being deleted, or was left by a crash in either."""


def sync(path: Path) -> None:
    """Make a file, or the names in a folder, survive the machine. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def discard(folder: Path) -> None:
    """Delete a folder that others may be reading: its name goes first, so that who finds it finds it whole.

    Raises OSError.
    """
    draft = Path(tempfile.mkdtemp(prefix=DRAFT, dir=folder.parent))
    os.replace(folder, draft)
    rmtree(draft)
