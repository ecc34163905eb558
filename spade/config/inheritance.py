"""Merge a config file with all configs that it extends, and remember the file that each setting came from."""

import difflib
import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from spade.decoding import UnreadableError, try_decode
from spade.disk import read
from spade.errors import ConfigError, RunError, format_reason
from spade.text import as_line

EXTENDS = "extends"
RUN_CONFIG = "config.toml"  # the config file in a run directory
_LONGEST_SHOWN = 200  # characters
_SETTING = re.compile(r"\w+\.\w+")


class MergedConfig(msgspec.Struct, frozen=True):
    """A config file merged with its bases."""

    tree: dict[str, Any]
    """Settings by section, as TOML gives them."""
    files: tuple[str, ...]
    """Name of the config, then the name of each base."""
    origins: dict[str, str]
    """For each "section" and "section.field": the name of the file in `files` whose value holds."""

    def name_files(self, text: str) -> str:
        """Return `text`. If the config has several files, append the file that set each setting that `text` names."""
        named = dict.fromkeys(setting for setting in _SETTING.findall(text) if setting in self.origins)
        if len(self.files) == 1 or not named:
            return text
        return f"{text} ({', '.join(f'{setting} is set in {self.origins[setting]}' for setting in named)})"


def list_recipes() -> dict[str, Path]:
    """Return the paths of the shipped recipes by name."""
    return _list_shipped(".")


def make_short_name(config: str) -> str:
    """Return the name of a recipe, or of a file without its suffix. Runs and pools are named after it."""
    return config if config in list_recipes() else Path(config).stem


def list_mixtures() -> dict[str, Path]:
    """Return the paths of the shipped mixtures of documents by name (`spade corpus build`)."""
    return _list_shipped("corpora")


def _list_shipped(folder: str) -> dict[str, Path]:
    package = Path(__file__).parents[1]
    configs = package / "configs" if (package / "configs").is_dir() else package.parent / "configs"
    return {path.stem: path for path in sorted((configs / folder).glob("*.toml"), key=lambda path: path.stem)}


def read_toml(path: Path) -> dict[str, Any]:
    """Parse a TOML file. Raises ConfigError if it is not TOML, and RunError and OSError as `spade.disk.read` does."""
    try:
        return try_decode(_parse_toml, read(path))
    except UnreadableError as error:
        raise ConfigError(f"{path}: is not TOML: {error}") from None


def _parse_toml(data: bytes) -> dict[str, Any]:
    return tomllib.loads(data.decode("utf-8-sig"))  # an editor of Windows may write a byte order mark


def read_merged(name: str) -> MergedConfig:
    """Read the recipe, TOML file or run directory `name`, merged with the whole chain of configs that it extends.

    A table is merged key by key with the table of the base. Any other value replaces the base's. Raises ConfigError.
    """
    layers = _read_layers(name)
    tree: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for file, layer in reversed(layers):
        for section, table in layer.items():
            origins[section] = file
            if isinstance(table, dict):
                below = tree.get(section)
                tree[section] = {**(below if isinstance(below, dict) else {}), **table}
                origins |= {f"{section}.{field}": file for field in table}
            else:
                tree[section] = table
    return MergedConfig(tree, tuple(file for file, _ in layers), origins)


def _read_layers(name: str) -> list[tuple[str, dict[str, Any]]]:
    """Return (name, settings) of a file, then of its base, and so on to the last base. Removes each `extends`."""
    path = list_recipes().get(name, _find_file(Path(name)))
    try:
        layers = [(name, _read(path))]
    except FileNotFoundError:
        near = ", ".join(difflib.get_close_matches(name, list_recipes(), 3, 0.0))
        raise ConfigError(
            f"no config {name!r}; did you mean {near}? Give a TOML file or a recipe of `spade config ls`"
        ) from None
    seen = {path.resolve()}
    while EXTENDS in layers[-1][1]:
        file, tree = layers[-1]
        base = _check_base(file, tree.pop(EXTENDS))
        shipped = list_recipes().get(base)
        path = shipped or _find_file(path.parent / base)
        if path.resolve() in seen:
            circle = " -> ".join([*(each for each, _ in layers), base])
            raise ConfigError(f"{file}: {EXTENDS} goes round in a circle: {circle}")
        seen.add(path.resolve())
        try:
            layers.append((base if shipped else str(path), _read(path)))
        except FileNotFoundError:
            raise ConfigError(
                f"{file}: {EXTENDS} {base!r}: {path} does not exist; give a path from that file's folder, or one of "
                f"{', '.join(list_recipes())}"
            ) from None
    return layers


def _check_base(file: str, base: object) -> str:
    if isinstance(base, str) and base and base.isprintable():
        return base
    raise ConfigError(
        f"{file}: {EXTENDS}: must be the name of a recipe or the path of a file, is "
        f"{as_line(repr(base), _LONGEST_SHOWN)}"
    )


def _find_file(path: Path) -> Path:
    return path / RUN_CONFIG if (path / RUN_CONFIG).is_file() else path


def _read(path: Path) -> dict[str, Any]:
    """Read one file. Raises FileNotFoundError if the file is missing, ConfigError if it is empty or cannot be read."""
    try:
        tree = read_toml(path)
        if not path.stat().st_size:  # perhaps it was cut short
            raise ConfigError(f'{path}: is empty; write settings, or {EXTENDS} = "nano" for the defaults')
        return tree
    except FileNotFoundError:
        raise
    except RunError as error:
        raise ConfigError(str(error)) from None
    except OSError as error:
        raise ConfigError(f"{path}: {format_reason(error)}") from None
