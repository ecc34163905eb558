"""Read a configuration from TOML and overrides, write it as TOML, and compute its digest."""

import difflib
import hashlib
import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any

import msgspec
import tomli_w

from spade.config.allowed import describe_allowed, list_fields
from spade.config.checks import check
from spade.config.inheritance import MergedConfig, read_merged
from spade.config.paths import make_paths_absolute
from spade.config.retired import current
from spade.config.sections import Config
from spade.errors import ConfigError
from spade.text import as_line

# These sections say what a run trains. A resume or a peer with other values is refused.
MEANING = ("run", "model", "reward")
LONGEST_SHOWN = 200  # characters of a refused value in an error line
_NEAREST = 3
"""The largest number of suggested settings."""
_NO_TOML = (ValueError, RecursionError)  # tomllib raises both for thousands of digits or brackets


def load(name: str = "nano", overrides: tuple[str, ...] = ()) -> Config:
    """Load the recipe, TOML file or run directory `name`, apply `overrides` ("learner.lr=1e-4"), and check the result.

    Raises ConfigError with one line that names the fault, its place and the remedy.
    """
    merged = read_merged(name)
    for override in overrides:
        _apply_override(merged, override)
    try:
        config = config_of(merged.tree)
    except ConfigError as error:
        raise ConfigError(f"{merged.files[0]}: {merged.name_files(str(error))}") from None
    except msgspec.ValidationError as error:
        raise ConfigError(_explain_refused(str(error), merged)) from None
    if config.bus.keys:  # absolute, because observers in other working directories read the keys too
        config = make_paths_absolute(config, ("bus.keys",))
    try:
        check(config)
    except ConfigError as error:
        raise ConfigError(merged.name_files(str(error))) from None
    return config


def config_of(tree: Mapping[str, Any]) -> Config:
    """Convert settings that this version or an earlier one wrote. Raises ConfigError or msgspec.ValidationError."""
    return msgspec.convert(current(tree), Config)


def list_differences(one: Config, other: Config) -> dict[str, tuple[Any, Any]]:
    """Return the values of both configs for each setting that differs, by "section.field". None means left out."""
    ours, theirs = msgspec.to_builtins(one), msgspec.to_builtins(other)
    return {
        f"{section}.{field}": (value, theirs[section][field])
        for section, table in ours.items()
        for field, value in table.items()
        if value != theirs[section][field]
    }


def _explain_refused(error: str, merged: MergedConfig) -> str:
    """Turn msgspec's `error` into a line with the file, the setting, its allowed values and its present value."""
    text, _, path = error.replace(" - at `key` in `", " - at `", 1).partition(" - at `$.")
    path = path.removesuffix("`")
    if unknown := re.fullmatch("Object contains unknown field `(.+)`", text):
        wrong = f"{path}{path and '.'}{unknown[1]}"
        return f"{_find_origin(merged, wrong)}: unknown setting {wrong}; {_suggest_setting(wrong)}"
    if setting := re.match(r"(\w+)\.(\w+)", path):
        section, field = setting.groups()
        values = describe_allowed(list_fields(type(getattr(Config(), section)))[field].type)
        wrong = f"{section}.{field}"
        return (
            f"{_find_origin(merged, wrong)}: {wrong}: must be {values}, is {_format_value(merged.tree[section][field])}"
        )
    return f"{_find_origin(merged, path)}: {path}: {text}" if path else f"{merged.files[0]}: {text}"


def _suggest_setting(wrong: str) -> str:
    """Suggest the nearest settings, or the nearest sections if `wrong` names a section."""
    sections = Config.__struct_fields__
    fields = (f"{section}.{field}" for section in sections for field in getattr(Config(), section).__struct_fields__)
    near = difflib.get_close_matches(wrong, list(fields) if "." in wrong else sections, _NEAREST)
    meant = f"did you mean {' or '.join(near)}?" if near else "correct or remove it"
    return f"{meant} (`spade config show` lists all)"


def _find_origin(merged: MergedConfig, setting: str) -> str:
    return merged.origins.get(setting, merged.files[0])


def _format_value(value: object) -> str:
    try:
        return as_line(repr(value), LONGEST_SHOWN)
    except ValueError:  # raised for a hexadecimal number with too many decimal digits
        return "a number of too many digits"


def _apply_override(merged: MergedConfig, override: str) -> None:
    """Apply one override `section.key=value`. The value is TOML, or a bare word that is taken as a string."""
    key, equals, text = override.partition("=")
    section, dot, field = key.strip().partition(".")
    if not (equals and dot and section and field):
        raise ConfigError(f"--set {override!r}: write section.key=value, for example learner.lr=1e-4")
    try:
        override.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"--set {override!r}: is not UTF-8 text") from None
    table = merged.tree.setdefault(section, {})
    if not isinstance(table, dict):
        raise ConfigError(f"--set {override!r}: {section} is not a section")
    table[field] = _parse_value(text)
    merged.origins.pop(f"{section}.{field}", None)


def _parse_value(text: str) -> object:
    """Parse one TOML value. A text that is not exactly one TOML value is taken as a string."""
    try:
        tree = tomllib.loads(f"value = {text}")
    except _NO_TOML:
        tree = {}
    return tree["value"] if len(tree) == 1 else text.strip()


def dump(config: Config) -> str:
    """Return the resolved config as TOML, which `load` reads back unchanged. TOML lacks null, so None is left out."""
    tree = {
        name: {field: value for field, value in msgspec.to_builtins(getattr(config, name)).items() if value is not None}
        for name in config.__struct_fields__
    }
    return tomli_w.dumps(tree)


def compute_digest(config: Config) -> str:
    """Return the digest of the sections in `MEANING`. Peers and resumes must agree on the digest."""
    meaning = {name: msgspec.to_builtins(getattr(config, name)) for name in MEANING}
    shrink, slow = (meaning["reward"].pop(name) for name in ("shrink", "slow"))
    # `novelty_weight` and `fast` were settings once. The digest still has them, so that older runs resume.
    meaning["reward"] |= {"novelty_weight": 0.2, "shrink": shrink, "fast": 0.2, "slow": slow}
    return hashlib.blake2b(msgspec.json.encode(meaning), digest_size=16).hexdigest()


def format_inline(value: Any) -> str:
    """Format a number, or a table of numbers, as TOML in one line."""
    if not isinstance(value, Mapping):
        return str(value)
    names = ((name if name.replace("-", "").isalnum() and name.isascii() else json.dumps(name)) for name in value)
    return (
        "{" + ",".join(f"{name}={format_inline(each)}" for name, each in zip(names, value.values(), strict=True)) + "}"
    )
