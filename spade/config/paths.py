"""Make settings that name files and folders independent of the working directory."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from spade.config.sections import Config
from spade.config.suites import SuiteChoice
from spade.disk import expand_home

SETTINGS = (
    "model.path", "design.corpus", "design.seeds", "pool.source", "tools.settings",
    "evaluation.suite", "evaluation.embedding", "endpoint.key", "serve.key", "replay.store", "bus.keys",
)  # fmt: skip
PACKAGE_MODELS = ("nano", "nano-tools")
"""Names of models that come with the package. Write `./nano` for a folder of such a name."""
_MODELS = ("model.path", "evaluation.embedding")
_SOURCES = ("design.seeds", "pool.source")
_WORDS = ("", "builtin", "none")
_KINDS = ("folder", "run")  # kinds of sources that name a folder


def make_paths_absolute(config: Config, settings: Sequence[str] = SETTINGS) -> Config:
    """Return `config` with the paths of these settings made absolute from the working directory.

    A name that is not a path stays: `builtin`, a library of programs, or a model of the hub or of the package.
    """
    return replace_settings(config, {name: _make_absolute(name, get_setting(config, name)) for name in settings})


def hide_folders(text: str) -> str:
    """Shorten an absolute path in the text of a setting to its last name. Return other texts unchanged."""
    if Path(text).is_absolute():
        return Path(text).name
    kind, colon, place = text.partition(":")
    return f"{kind}:{hide_folders(place)}" if colon else text


def get_setting(config: Config, name: str) -> str:
    """Return the text of the setting "section.field"."""
    section, field = name.split(".")
    value: str = getattr(getattr(config, section), field)
    return value


def replace_settings(config: Config, values: Mapping[str, str]) -> Config:
    """Return `config` with new values of these settings, each named "section.field"."""
    for name, value in values.items():
        section, field = name.split(".")
        changed = msgspec.structs.replace(getattr(config, section), **{field: value})
        config = msgspec.structs.replace(config, **{section: changed})
    return config


def _make_absolute(setting: str, value: str) -> str:
    if setting == "evaluation.suite":
        measured = SuiteChoice.parse(value)
        return str(measured._replace(path=_expand_path(measured.path))) if measured.path else value
    kind, _, place = value.partition(":")
    if setting in _SOURCES:
        return f"{kind}:{_expand_path(place)}" if kind in _KINDS and place else value
    named = setting in _MODELS and (value in PACKAGE_MODELS or not expand_home(value).is_dir())
    if value in _WORDS or named:
        return value
    return _expand_path(value)


def _expand_path(path: str) -> str:
    return str(expand_home(path).absolute())
