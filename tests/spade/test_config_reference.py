"""The documentation of settings: at each of them, and the page that is made of it."""

from pathlib import Path

from spade.config import Config
from spade.config.described import list_sections
from spade.config.reference import write_reference

PAGE = Path(__file__).parents[2] / "docs" / "config.md"
OPENINGS = {"who", "what", "whom", "whether", "how"}


def test_every_setting_has_a_documentation_of_its_own():
    docs = {f"{section.name}.{each.name}": each.doc for section in list_sections() for each in section.settings}
    assert [path for path, doc in docs.items() if not doc.endswith(".")] == []
    assert [path for path, doc in docs.items() if doc.split()[0].lower() in OPENINGS] == []


def test_all_settings_are_described_in_their_order():
    described = {section.name: [each.name for each in section.settings] for section in list_sections()}
    config = Config()
    assert described == {name: list(getattr(config, name).__struct_fields__) for name in config.__struct_fields__}


def test_there_are_no_more_settings_than_a_person_can_look_through():
    assert sum(len(section.settings) for section in list_sections()) <= 160


def test_the_page_is_current():
    assert PAGE.read_text(encoding="utf-8") == write_reference(), "run `make docs`"


def test_a_row_of_the_page_has_values_default_and_documentation():
    row = next(line for line in write_reference().splitlines() if line.startswith("| `retain_s`"))
    setting, values, default, doc = row.strip("| ").split(" | ")
    assert (setting, values, default) == ("`retain_s`", "a number from 0", "`0.0`")
    assert doc.startswith("Seconds")
