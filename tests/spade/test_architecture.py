"""docs/architecture.md, compared with the tree: each path it names exists, and each room has its line."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/architecture.md").read_text()
PATHS = sorted(set(re.findall(r"`((?:spade|replay|actors|learner|tests)/[\w./]*)`", PAGE)))
ROOMS = sorted(
    folder.relative_to(ROOT).as_posix()
    for package in ("spade", "replay", "actors", "learner")
    for folder in (ROOT / package).iterdir()
    if any(file.is_file() and "__pycache__" not in file.parts for file in folder.rglob("*"))
)


@pytest.mark.parametrize("path", PATHS)
def test_a_path_of_the_page_exists(path):
    assert (ROOT / path).exists() or (ROOT / f"{path}.py").is_file()


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_has_its_line(room):
    assert re.search(rf"^\| `{room}/?` \| ", PAGE, re.MULTILINE)
