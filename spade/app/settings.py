"""`spade config show --help-fields`: a config with the documentation of each setting, as TOML with comments."""

import textwrap

import tomli_w

from spade.app.screen import Screen
from spade.config import Config
from spade.config.allowed import allowed
from spade.config.described import Setting, sections

WIDTH = 100  # characters of a comment


def show_settings(config: Config) -> None:
    """Print every setting below its documentation and the values that it may have."""
    screen = Screen()
    for section in sections():
        screen.tell((f"[{section.name}]", "bold"))
        for setting in section.settings:
            _show(screen, setting, getattr(getattr(config, section.name), setting.name))


def _show(screen: Screen, setting: Setting, value: object) -> None:
    for words in textwrap.wrap(f"{setting.doc} Values: {allowed(setting.type)}.", WIDTH - 2):
        screen.tell((f"# {words}", "dim"))
    written = f"# {setting.name} is left out\n" if value is None else tomli_w.dumps({setting.name: value})
    for each in written.splitlines():
        screen.tell(each)
    screen.tell()
