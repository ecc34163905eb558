"""What has to be on the disk before something else may rely on it."""

import os
from pathlib import Path


def sync(path: Path) -> None:
    """Make a file, or the names in a folder, survive the machine. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
