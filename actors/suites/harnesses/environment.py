"""The environment of a harness: a virtual environment of exact pins below the user's cache, made once.

Nothing of it is ever imported by a process of ours.
"""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from spade.errors import ConfigError, RunError, reason
from spade.text import line

_PINS = Path(__file__).parent / "pins"
_INSTALLED = "installed"
_SHOWN = 20  # lines of what pip says


def pins(name: str) -> Path:
    """The file with the pins of a harness."""
    return _PINS / f"{name}.txt"


def digest(name: str) -> str:
    """Names the pins, 16 hex digits."""
    return hashlib.blake2b(pins(name).read_bytes(), digest_size=8).hexdigest()


def folder(name: str) -> Path:
    """The place of its environment; other pins have another one."""
    return Path.home() / ".cache" / "spade" / "harnesses" / f"{name}-{digest(name)}"


def installed(name: str) -> bool:
    """True where its environment is whole."""
    return (folder(name) / _INSTALLED).is_file()


def version(name: str, package: str) -> str:
    """The pinned version of a package."""
    pinned = dict(each.split("==") for each in pins(name).read_text().split())
    return pinned[package]


def python(name: str) -> Path:
    """Its interpreter. Raises ConfigError where the environment is not there."""
    if not installed(name):
        raise ConfigError(f"suite {name}: its harness is not here: spade eval setup {name}")
    return folder(name) / "bin" / "python"


def set_up(name: str, index: str, say: Callable[[str], None]) -> Path:
    """Make the environment, unless it is there; `index` is pip's, "" its own. Raises RunError."""
    place = folder(name)
    if installed(name):
        return place
    try:
        shutil.rmtree(place, ignore_errors=True)  # half of one
        place.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"{place}: cannot be made ({reason(error)})") from None
    say(f"making {place}")
    base = getattr(sys, "_base_executable", sys.executable)
    _run([base, "-m", "venv", str(place)], place)
    words = ["--index-url", index] if index else []
    pip = [str(place / "bin" / "python"), "-m", "pip", "install", "--no-deps", "--quiet", *words]
    _run([*pip, "-r", str(pins(name))], place)
    (place / _INSTALLED).touch()
    return place


def _run(command: list[str], place: Path) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    except OSError as error:
        raise RunError(f"{command[0]}: {reason(error)}") from None
    if done.returncode:
        said = " · ".join(line(each, 200) for each in done.stderr.splitlines()[-_SHOWN:] if "WARNING" not in each)
        raise RunError(f"{place}: pip or venv ended with {done.returncode}: {said}")
