"""Pools of other people: tables in the schema of the paper's authors, from files and from a hub on loopback."""

import hashlib
import json
import signal
import subprocess
import sys
import time

import pyarrow
import pytest
from pyarrow import parquet

from spade.app.pools import admission, tables
from spade.app.pools.importing import import_programs
from spade.app.pools.tables import is_table, read_table
from spade.config import load
from spade.errors import ConfigError, RunError
from spade.pools import list_names, read_program
from spade.pools.folder import PROGRAM_BYTES
from spade.protocol import MOST_HINT
from tests.actors.roles.test_designer import CRASHES, GOOD
from tests.app.commands.test_pool import run_spade
from tests.spade.hub_server import use_hub

SET = "spade-rl/some-pool"


def make_row(code, file="game_1.py", skill="Logical_Deduction", **more):
    digest = hashlib.sha256(code.encode()).hexdigest()
    lines, size = code.count("\n"), len(code.encode())
    return {
        "game_id": "g1", "file_name": file, "original_file_name": "x.py", "skill": skill, "sha256": digest,
        "line_count": lines, "byte_count": size, "code": code,
    } | more  # fmt: skip


ROWS = [
    make_row(GOOD),
    make_row(GOOD),  # a copy
    make_row(GOOD + "\n# another\n", file="dir/game 1.py", skill="Poetry", game_id="g2"),
    make_row(CRASHES, file="../crash.py", game_id="g3"),
    make_row("def no(): pass\n", file="game_1.py", game_id="g4"),
]


def write_parquet(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return path


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def config():
    return load("nano", ())


@pytest.fixture(params=["pool.parquet", "pool.jsonl"])
def table(request, tmp_path):
    return (write_parquet if request.param.endswith("parquet") else write_lines)(tmp_path / request.param, ROWS)


def test_a_table_becomes_a_pool_of_its_sound_programs(table, tmp_path):
    pool = tmp_path / "pool"
    code, told = run_spade("pool", "import", table, "-o", pool)
    assert code == 0, told
    assert told.splitlines()[-1] == f"{pool}: 2 of 4 programs of {table}"
    stages = {row.split()[0]: int(row.split()[1]) for row in told.splitlines() if row.split()[1:2] == ["1"]}
    assert set(stages) == {"episode", "class"}, told
    assert list_names(pool) == ["game_1", "game_1_2"]
    first, second = (read_program(pool, name) for name in list_names(pool))
    assert first.source == GOOD
    assert (first.skill, second.skill) == ("logical deduction", None)
    assert "game_id g2, skill Poetry" in second.origin, "a skill that is none of ours stays in words"
    assert not list(tmp_path.glob("*.import"))


def test_a_data_set_of_the_hub_is_imported_and_named_with_its_commit(tmp_path, monkeypatch):
    file = write_parquet(tmp_path / "rows" / "train.parquet", ROWS[:1])
    with use_hub(tmp_path / "cache", monkeypatch) as server:
        commit = server.push(SET, {"data/train-00000.parquet": file.read_bytes(), "README.md": b"a card"})
        [program] = read_table(f"hub:{SET}")
        assert program.origin.startswith(f"hub:{SET}@{commit}, game_id g1")
        server.fault = "429"
        assert read_table(f"hub:{SET}") == [program], "the cache serves"
        with pytest.raises(ConfigError, match="the hub did not"):
            read_table("hub:spade-rl/another")
        server.fault = ""
        with pytest.raises(ConfigError, match="the hub did not"):
            read_table("hub:spade-rl/none")
        server.push("spade-rl/empty", {"README.md": b"a card"})
        with pytest.raises(ConfigError, match=r"has no file \*\.parquet or \*\.jsonl"):
            read_table("hub:spade-rl/empty")
    with pytest.raises(ConfigError, match="does not name"):
        read_table("hub:nobody")


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (make_row(GOOD, sha256="0" * 64), "row 2: its program does not have the digest"),
        (make_row(GOOD + "#", sha256="0" * 64), "row 2: its program does not have the digest"),
        (make_row(""), "row 2: its column code is empty"),
        ({**make_row(GOOD), "code": None}, "row 2: its column code is empty"),
        (make_row(GOOD + "#" * PROGRAM_BYTES), "row 2: the program game_1_2 is over 1048576 bytes"),
        (make_row(GOOD, hint="h" * (MOST_HINT + 1)), "row 2: the hint of game_1_2 is over 65536 characters"),
    ],
)
def test_a_bad_row_is_named_and_nothing_is_written(row, says, tmp_path, config):
    table = write_parquet(tmp_path / "in" / "pool.parquet", [make_row(GOOD + "#", hint=""), row])
    with pytest.raises(RunError, match=says):
        import_programs(str(table), tmp_path / "pool", config, print)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


@pytest.mark.parametrize("digest", [b"0" * 32, ["0" * 64], 1.5, False])
def test_a_digest_that_is_no_text_is_refused(digest, tmp_path):
    table = write_parquet(tmp_path / "pool.parquet", [make_row(GOOD, sha256=digest)])
    with pytest.raises(RunError, match=r"row 1: its column sha256 holds .*, not text"):
        read_table(str(table))


def test_a_small_table_of_huge_cells_does_not_fill_the_memory(tmp_path):
    """Its 64 hints are one text of 64 MiB in the file."""
    hints = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * 64), pyarrow.array(["h" * (64 << 20)]))
    codes = [f"# {number}" for number in range(64)]
    parquet.write_table(pyarrow.table({"code": codes, "hint": hints}), tmp_path / "pool.parquet", compression="zstd")
    reading = f"from spade.app.pools.tables import read_table; read_table({str(tmp_path / 'pool.parquet')!r})"
    bounded = f"import resource; resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30)); {reading}"
    done = subprocess.run([sys.executable, "-c", bounded], capture_output=True, text=True)
    assert "row 1: the hint of 1 is over 65536 characters" in done.stderr.splitlines()[-1]


def test_a_name_of_megabytes_is_cut_at_once(tmp_path):
    rows = [{"code": f"# {number}", "file_name": "ab☃" * 1_000_000 + f"/{number}.py"} for number in range(9)]
    table = write_lines(tmp_path / "pool.jsonl", rows)
    assert [program.name for program in read_table(str(table))] == [str(number) for number in range(9)]


def test_a_folder_with_tables_below_it_is_a_table_and_a_folder_of_programs_is_not(tmp_path):
    """A clone of a data set has its tables in `data`."""
    write_parquet(tmp_path / "clone" / "data" / "deep" / "train.parquet", [make_row(GOOD)])
    assert is_table(str(tmp_path / "clone"))
    write_parquet(tmp_path / "clone" / "data" / "test.parquet", [make_row(GOOD, file="copy.py")])
    assert [program.source for program in read_table(str(tmp_path / "clone"))] == [GOOD]
    (tmp_path / "clone" / "a.py").write_text(GOOD)
    assert not is_table(str(tmp_path / "clone"))
    (tmp_path / "empty").mkdir()
    assert not is_table(str(tmp_path / "empty"))
    assert not is_table(str(tmp_path / "none"))


def test_many_programs_of_one_name_are_numbered(tmp_path):
    """A table may name each program by its folder, as in `17/env.py`."""
    rows = [{"code": f"# {number}", "file_name": f"{number}/env.py"} for number in range(12_000)]
    began = time.process_time()
    named = [program.name for program in read_table(str(write_lines(tmp_path / "pool.jsonl", rows)))]
    assert time.process_time() - began < 15.0, "it grows with the square"
    assert named == ["env", *(f"env_{number}" for number in range(2, 12_001))]


@pytest.mark.parametrize(("most", "says"), [("MOST_PROGRAMS", "more than 4 programs"), ("TABLE_CHARACTERS", "over 4 ")])
def test_a_table_without_end_is_left_after_a_few_rows(most, says, tmp_path, monkeypatch):
    """A small file may hold more text than the memory."""
    monkeypatch.setattr(tables, most, 4)
    rows = [{"code": f"#{number}"} for number in range(9)]
    table = write_lines(tmp_path / "pool.jsonl", rows)
    table.write_text(table.read_text() + "no row\n")
    with pytest.raises(RunError, match=says):
        read_table(str(table))


def test_a_table_of_something_else_lists_its_columns(tmp_path, config):
    table = write_parquet(tmp_path / "in" / "other.parquet", [{"text": "words", "n": 1}])
    with pytest.raises(RunError, match=r"no text in column 'code'; its columns: text, n"):
        import_programs(str(table), tmp_path / "pool", config, print)


def test_a_pool_of_which_nothing_is_admitted_is_not_written(tmp_path):
    table = write_lines(tmp_path / "pool.jsonl", [make_row(CRASHES)])
    code, told = run_spade("pool", "import", table, "-o", tmp_path / "pool")
    assert code == 1
    assert "none of 1 programs is admitted" in told
    assert [*tmp_path.iterdir()] == [table]


def test_a_directory_that_exists_is_left_alone(tmp_path, config):
    (tmp_path / "pool").mkdir()
    with pytest.raises(RunError, match="exists already"):
        import_programs(str(tmp_path / "none.parquet"), tmp_path / "pool", config, print)


def test_a_killed_import_judges_nothing_twice(tmp_path, config, monkeypatch):
    many = [make_row(f"{GOOD}\n# {number}\n", file=f"g{number}.py") for number in range(6)]
    table, pool, log = write_lines(tmp_path / "pool.jsonl", many), tmp_path / "pool", tmp_path / "pool.import"
    command = [sys.executable, "-m", "spade.app.cli", "pool", "import", str(table), "-o", str(pool)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 120
        while process.poll() is None and time.monotonic() < until:
            if log.exists() and log.read_bytes().count(b"}") >= 2:
                break
            time.sleep(0.01)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=30)
    judged = log.read_bytes().count(b"}\n")
    assert not pool.exists()
    with log.open("ab") as torn:
        torn.write(b'{"key": "cut')
    asked = []
    judge = admission.judge

    async def count(sandbox, source, *rest):
        asked.append(source)
        return await judge(sandbox, source, *rest)

    monkeypatch.setattr(admission, "judge", count)
    made = import_programs(str(table), pool, config, print)
    assert (made.admitted, len(asked)) == (6, 6 - judged)
    assert len(list_names(pool)) == 6
