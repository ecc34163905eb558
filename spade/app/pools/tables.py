"""Programs as rows of tables: Parquet or JSON Lines, from files, folders, or a data set of the Hugging Face hub.

The columns are as in the pools that the paper's authors published under `spade-rl` on the hub.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from actors.corpus.sources import TextRow, list_files, read_rows
from spade.config import SKILLS
from spade.disk import expand_home
from spade.errors import RunError
from spade.policy import hub
from spade.pools import MOST_PROGRAMS, PoolProgram, ProgramLineage, refuse_oversize
from spade.text import as_line

CODE, DIGEST, SKILL, HINT = "code", "sha256", "skill", "hint"
NAMES = ("file_name", "game_id", "name")
"""Columns that name a program, best first."""
HUB = "hub:"
TABLES = ("*.parquet", "*.jsonl")
TABLE_CHARACTERS = 1 << 30
"""Most characters of all programs of a table, because memory holds them. A small compressed file may exceed this."""
_UNFIT = re.compile(r"[^A-Za-z0-9_.-]+")
_LONGEST_NAME = 90  # characters of a name, so that a number can be appended to the name
_LONGEST_GIVEN = 4_096  # a longer name in a table is cut to its last characters


class PoolRow(msgspec.Struct, frozen=True):
    """A program as a row of a table. `read_table` reads these columns."""

    game_id: str
    file_name: str
    original_file_name: str
    """Name of the program's class as a file name."""
    skill: str
    sha256: str
    """SHA-256 of the program, in hex."""
    line_count: int
    byte_count: int
    code: str
    hint: str
    """The hint, or ""."""
    lineage: ProgramLineage | None


def to_row(program: PoolProgram) -> PoolRow:
    """Convert a program into a row."""
    lineage, data = program.lineage, program.source.encode()
    return PoolRow(
        game_id=program.name,
        file_name=f"{program.name}.py",
        original_file_name=f"{lineage.name if lineage and lineage.name else program.name}.py",
        skill=program.skill or "",
        sha256=hashlib.sha256(data).hexdigest(),
        line_count=len(program.source.splitlines()),
        byte_count=len(data),
        code=program.source,
        hint=program.hint,
        lineage=lineage,
    )


def is_table(source: str) -> bool:
    """Return True if `source` is a data set of the hub, a Parquet or JSON Lines file, or a folder with such files.

    If a folder has `.py` files, tables in its subfolders do not count.
    """
    if source.startswith(HUB):
        return True
    path = expand_home(source)
    if any(path.match(pattern) or next(path.glob(pattern), None) is not None for pattern in TABLES):
        return True
    if not path.is_dir() or next(path.glob("*.py"), None) is not None:
        return False
    with suppress(RunError):  # the folder has no file that could be a table
        return bool(_list_tables(path))
    return False


def _list_tables(folder: Path) -> list[Path]:
    """Return the tables of a folder and of the folders below it, or the file itself.

    Raises OSError if the folder cannot be read, and RunError if no file of the folder is a table or a text.
    """
    return [file for file in list_files(folder) if any(file.match(pattern) for pattern in TABLES)]


def read_table(source: str) -> list[PoolProgram]:
    """Read all programs of a table, in its order. Equal programs are read once.

    Raises ConfigError if the hub does not give the data set. Raises RunError, which names the row, if a row

    * cannot be read
    * lacks a program
    * has a program that is too large for a pool
    * is the first one beyond MOST_PROGRAMS programs or TABLE_CHARACTERS characters
    * has a program that differs from its digest
    """
    if source.startswith(HUB):
        name = source.removeprefix(HUB)
        folder = hub.data_set(name, TABLES)
        origin = f"{HUB}{name.partition('@')[0]}@{folder.name}"
    else:
        folder = expand_home(source)
        origin = as_line(folder.name, 100)
    taken = Counter[str]()
    return [_read_program(row, origin, taken) for row in _read_distinct(_list_tables(folder))]


def _read_distinct(files: list[Path]) -> Iterator[TextRow]:
    seen: set[str] = set()
    characters = 0
    for file in files:
        for row in read_rows(file, CODE, (DIGEST, SKILL, HINT, *NAMES)):
            _check_row(row)
            if row.text in seen:
                continue
            seen.add(row.text)
            characters += len(row.text)
            if len(seen) > MOST_PROGRAMS:
                raise RunError(f"{row.where}: the table has more than {MOST_PROGRAMS} programs, too many for a pool")
            if characters > TABLE_CHARACTERS:
                raise RunError(f"{row.where}: the programs of the table have over {TABLE_CHARACTERS} characters in all")
            yield row


def _check_row(row: TextRow) -> None:
    """Raise RunError if a row lacks a program, or if its digest differs from the program's."""
    if not row.text.strip():
        raise RunError(f"{row.where}: its column {CODE} is empty")
    digest = row.columns.get(DIGEST)
    if digest in (None, ""):
        return
    if not isinstance(digest, str):
        raise RunError(f"{row.where}: its column {DIGEST} holds {type(digest).__name__}, not text")
    if digest.lower() != hashlib.sha256(row.text.encode("utf-8", "surrogatepass")).hexdigest():
        raise RunError(f"{row.where}: its program does not have the digest of the column {DIGEST}; get the table again")


def _read_program(row: TextRow, origin: str, taken: Counter[str]) -> PoolProgram:
    """Convert a row into a program. Counts the program's name in `taken`."""
    skill = row.word(SKILL).replace("_", " ").casefold()
    ids = (row.word(column) for column in NAMES)
    given = next((each for each in ids if each), row.id)
    named = ", ".join(f"{column} {as_line(row.word(column), 100)}" for column in ("game_id", SKILL) if row.word(column))
    program = PoolProgram(
        choose_name(given, taken),
        row.text,
        row.word(HINT),
        next((each for each in SKILLS if each == skill), None),
        f"{origin}, {named}" if named else origin,
    )
    refuse_oversize(row.where, program)
    return program


def choose_name(given: str, taken: Counter[str]) -> str:
    """Turn the name that the table gives into a valid name that is still free. `taken` counts the uses of each name."""
    last = Path(given[-_LONGEST_GIVEN:]).name.removesuffix(".py")
    name = _UNFIT.sub("_", last)[:_LONGEST_NAME].strip("._-") or "program"
    chosen = name
    while chosen in taken:
        taken[name] += 1
        chosen = f"{name}_{taken[name]}"
    taken[chosen] = 1
    return chosen
