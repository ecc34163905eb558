"""A configuration read from TOML and overrides, written as TOML, and its digest."""

import hashlib
import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import tomli_w

from spade.config.allowed import allowed, fields
from spade.config.checks import check
from spade.config.sections import Config
from spade.decoding import UnreadableError, decoded
from spade.disk import read
from spade.errors import ConfigError, RunError, reason
from spade.text import line

# These define the meaning of a run: a resume or a peer with other values is refused.
MEANING = ("run", "model", "reward")
LONGEST_SHOWN = 200  # characters of a value that is refused
_NO_TOML = (ValueError, RecursionError)  # not TOMLDecodeError alone: thousands of digits or brackets raise others


def recipes() -> dict[str, Path]:
    """The shipped recipes by name."""
    return _shipped(".")


def mixtures() -> dict[str, Path]:
    """The shipped mixtures of documents by name (`spade corpus build`)."""
    return _shipped("corpora")


def _shipped(folder: str) -> dict[str, Path]:
    package = Path(__file__).parents[1]
    configs = package / "configs" if (package / "configs").is_dir() else package.parent / "configs"
    return {path.stem: path for path in sorted((configs / folder).glob("*.toml"))}


def load(name: str = "nano", overrides: tuple[str, ...] = ()) -> Config:
    """The recipe or TOML file `name` with `overrides` ("learner.lr=1e-5") applied and checked.

    Raises ConfigError with one line that says what, where and what to do.
    """
    path = recipes().get(name, Path(name))
    try:
        tree = decoded(_toml, read(path))
    except FileNotFoundError:
        raise ConfigError(f"no config {name!r}: give a TOML file or one of {', '.join(recipes())}") from None
    except UnreadableError as error:
        raise ConfigError(f"{path}: is not TOML: {error}") from None
    except RunError as error:
        raise ConfigError(str(error)) from None
    except OSError as error:
        raise ConfigError(f"{path}: {reason(error)}") from None
    for override in overrides:
        _override(tree, override)
    try:
        config = msgspec.convert(tree, Config)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{name}: {_refused(str(error), tree)}") from None
    if config.bus.keys:  # a run's processes and its observers have different working directories
        keys = str(Path(config.bus.keys).expanduser().absolute())
        config = msgspec.structs.replace(config, bus=msgspec.structs.replace(config.bus, keys=keys))
    check(config)
    return config


def _toml(data: bytes) -> dict[str, Any]:
    return tomllib.loads(data.decode())


def _refused(error: str, tree: dict[str, Any]) -> str:
    """A line on msgspec's `error` about `tree`: the setting's path, the values that it may have, and the one it has."""
    text, _, path = error.partition(" - at `$.")
    path = path.removesuffix("`")
    if unknown := re.fullmatch("Object contains unknown field `(.+)`", text):
        name = f"{path}{path and '.'}{unknown[1]}"
        return f"unknown setting {name}; correct or remove it (`spade config show` lists all)"
    if setting := re.match(r"(\w+)\.(\w+)", path):
        section, field = setting.groups()
        values = allowed(fields(type(getattr(Config(), section)))[field].type)
        return f"{section}.{field}: must be {values}, is {_shown(tree[section][field])}"
    return f"{path}: {text}" if path else text


def _shown(value: object) -> str:
    try:
        return line(repr(value), LONGEST_SHOWN)
    except ValueError:  # raised for a hexadecimal number with too many decimal digits
        return "a number of too many digits"


def _override(tree: dict[str, Any], override: str) -> None:
    """Set one `section.key=value`; the value is TOML, or a bare word taken as a string."""
    key, equals, text = override.partition("=")
    section, dot, field = key.strip().partition(".")
    if not (equals and dot and section and field):
        raise ConfigError(f"--set {override!r}: write section.key=value, for example learner.lr=1e-5")
    try:
        override.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"--set {override!r}: is not UTF-8 text") from None
    table = tree.setdefault(section, {})
    if not isinstance(table, dict):
        raise ConfigError(f"--set {override!r}: {section} is not a section")
    table[field] = _value(text)


def _value(text: str) -> object:
    """One value as TOML; a text that is not exactly one TOML value is a string."""
    try:
        tree = tomllib.loads(f"value = {text}")
    except _NO_TOML:
        tree = {}
    return tree["value"] if len(tree) == 1 else text.strip()


def dump(config: Config) -> str:
    """The resolved config as TOML; `load` of it gives the same config. TOML has no null: None is left out."""
    tree = {
        name: {field: value for field, value in msgspec.to_builtins(getattr(config, name)).items() if value is not None}
        for name in config.__struct_fields__
    }
    return tomli_w.dumps(tree)


def digest(config: Config) -> str:
    """Digest of the run-wide fields: peers and resumes must agree on it."""
    meaning = {name: msgspec.to_builtins(getattr(config, name)) for name in MEANING}
    return hashlib.blake2b(msgspec.json.encode(meaning), digest_size=16).hexdigest()
