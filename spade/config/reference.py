"""Generate docs/config.md from the sections: `python -m spade.config.reference docs/config.md`."""

import sys
from pathlib import Path
from typing import Any

import msgspec

from spade.config.allowed import describe_allowed
from spade.config.described import DescribedSection, Setting, list_sections
from spade.config.retired import RETIRED
from spade.config.sections.bounds import MOST, MOST_BYTES, MOST_SECONDS

_HEAD = """\
# Settings

<!-- `make docs` makes this page from spade/config/sections/: edit the text there. -->

"""
_INTRODUCTION = (
    "Every setting of a run. A recipe (`spade config ls`) or a TOML file states only the settings that differ from the "
    'defaults, in a table for each section. If its first key is `extends = "NAME"`, it states the differences from '
    "that recipe, or from the file at that path, relative to its own folder. Tables are merged key by key. Other "
    "values and lists are replaced. `--set section.key=value` overrides a setting. "
    "`spade config show RECIPE --help-fields` prints a recipe's values with this text.\n\n"
    "If the table gives no upper bound, a number is at most 2_147_483_647, a time 1e9 seconds, a size 2^50 bytes. "
    "Rules across settings are in `spade/config/checks.py`. `spade config check` applies them, too. A setting of an "
    "earlier version is ignored if it has its old default. Otherwise the error says what to write instead "
    '("Settings that are gone").\n'
)
_OMITTED_BOUNDS = (MOST, MOST_BYTES, MOST_SECONDS)


def write_reference() -> str:
    """Return the whole page as Markdown."""
    return "\n".join([_HEAD + _INTRODUCTION, *map(_write_section, list_sections()), _write_retired()])


def _write_section(section: DescribedSection) -> str:
    rows = "".join(map(_write_row, section.settings))
    return f"## {section.name}\n\n{section.doc}\n\n| setting | values | default | |\n|---|---|---|---|\n{rows}"


def _write_row(setting: Setting) -> str:
    cells = (
        f"`{setting.name}`",
        describe_allowed(setting.type, _OMITTED_BOUNDS),
        _format_default(setting.default),
        setting.doc,
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _write_retired() -> str:
    rows = (
        f"| `{name}` | {' or '.join(map(_format_default, old.was))} | {old.instead} |\n"
        for name, old in RETIRED.items()
    )
    return f"## Settings that are gone\n\n| setting | default | now |\n|---|---|---|\n{''.join(rows)}"


def _format_default(value: Any) -> str:
    """Format a default in one line as TOML writes it."""
    if value is None:
        return "left out"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"`{value:_}`"
    return f"`{msgspec.json.encode(value).decode()}`"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(write_reference(), encoding="utf-8")
