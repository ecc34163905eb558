"""The pages of docs/: the site lists each, the page of Python's names has those of `import spade`, and the page for a
run that is stuck quotes what the code says."""

import re
from pathlib import Path
from pydoc import locate

import pytest

import spade
from spade.app import door

ROOT = Path(__file__).parents[2]
STUCK = (ROOT / "docs/stuck.md").read_text()
SAYINGS = [saying for row in re.findall(r"^\| (`.*?`.*?) \|", STUCK, re.M) for saying in re.findall(r"`(.+?)`", row)]
SOURCES = "".join(path.read_text() for room in ("spade", "replay") for path in (ROOT / room).rglob("*.py"))


def test_the_site_lists_each_page_once():
    listed = re.findall(r"[\w-]+\.md", (ROOT / "mkdocs.yml").read_text())
    assert sorted(listed) == sorted(path.name for path in (ROOT / "docs").glob("*.md"))


def test_the_page_of_names_has_all_that_a_user_calls():
    listed = [locate(name) for name in re.findall("^::: (.+)", (ROOT / "docs/api.md").read_text(), re.M)]
    assert None not in listed
    called = {*(getattr(spade, name) for name in spade.__all__), *(getattr(door, name) for name in door.__all__)}
    assert called <= set(listed)


@pytest.mark.parametrize("saying", SAYINGS)
def test_what_a_stuck_run_says_is_in_the_code(saying):
    assert [part for part in saying.split("…") if part.strip() not in SOURCES] == []


def test_the_page_has_sayings():
    assert len(SAYINGS) > 15
