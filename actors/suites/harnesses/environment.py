"""The environment of a harness: a virtual environment with exact pins in the user's cache, made once.

Our processes never import from it.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from spade.disk import open_draft
from spade.errors import ConfigError, RunError, format_reason
from spade.locks import hold_lock
from spade.processes.commands import run_child
from spade.text import as_line

_PINS = Path(__file__).parent / "pins"
_INSTALLED = "installed"
_SHOWN = 20  # last lines of pip's output that are shown


def find_pins(name: str) -> Path:
    """Return the file with the pins of a harness."""
    return _PINS / f"{name}.txt"


def compute_digest(name: str) -> str:
    """Return a digest of the pins, 16 hex digits."""
    return hashlib.blake2b(find_pins(name).read_bytes(), digest_size=8).hexdigest()


def find_folder(name: str) -> Path:
    """Return the folder of the harness's environment. It depends on the pins."""
    return Path.home() / ".cache" / "spade" / "harnesses" / f"{name}-{compute_digest(name)}"


def is_installed(name: str) -> bool:
    """Return True if the harness's environment is complete."""
    return (find_folder(name) / _INSTALLED).is_file()


def read_version(name: str, package: str) -> str:
    """Return the pinned version of a package."""
    pinned = dict(each.split("==") for each in find_pins(name).read_text().split())
    return pinned[package]


def find_python(name: str) -> Path:
    """Return the environment's interpreter. Raises ConfigError if the environment is not installed."""
    if not is_installed(name):
        raise ConfigError(f"suite {name}: its harness is not installed: spade eval setup {name}")
    return find_folder(name) / "bin" / "python"


def set_up(name: str, index: str, say: Callable[[str], None]) -> Path:
    """Make the environment unless it exists. `index` is pip's index, "" for pip's default. Return its folder.

    The environment appears as a whole or not at all. Raises RunError if it cannot be made, or if another command is
    making it.
    """
    place = find_folder(name)
    if is_installed(name):
        return place
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        lock = place.with_name(f"{place.name}.lock")
        with hold_lock(lock, lambda other: f"{place}: another command is making it ({other}); wait for its end"):
            if not is_installed(name):
                say(f"making {place}")
                _make(name, place, index)
    except OSError as error:
        raise RunError(f"{place}: cannot be made ({format_reason(error)})") from None
    return place


def _make(name: str, place: Path, index: str) -> None:
    """Make the environment in a folder beside its final place, and move it there. Raises RunError, OSError."""
    drafts = place.with_name(f".{place.name}")
    for left in (place, drafts):
        # A killed command may have left these folders, and its pip may still write below `drafts`.
        shutil.rmtree(left, ignore_errors=True)
    with open_draft(drafts) as folder:
        made = folder / place.name
        base = getattr(sys, "_base_executable", sys.executable)
        _run([base, "-P", "-m", "venv", str(made)], place)
        words = ["--index-url", index] if index else []
        pip = [str(made / "bin" / "python"), "-P", "-m", "pip", "install", "--no-deps", "--quiet", *words]
        _run([*pip, "-r", str(find_pins(name))], place)
        (made / _INSTALLED).touch()
        os.replace(made, place)
    shutil.rmtree(drafts, ignore_errors=True)


def _run(command: list[str], place: Path) -> None:
    try:
        done = run_child(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    except OSError as error:
        raise RunError(f"{command[0]}: {format_reason(error)}") from None
    if done.returncode:
        shown = " · ".join(as_line(each, 200) for each in done.stderr.splitlines()[-_SHOWN:] if "WARNING" not in each)
        raise RunError(f"{place}: pip or venv ended with {done.returncode}: {shown}")
