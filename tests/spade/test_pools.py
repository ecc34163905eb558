"""The form of a pool on disk, hostile files in it, and the order in which its programs are drawn."""

import os
from collections import Counter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spade.codec import compute_program_digest
from spade.disk import replace
from spade.errors import RunError
from spade.pools import Drawing, Draws, Entry, PoolList, PoolProgram, list_names, read_list, read_program, write_program
from spade.pools import folder as pool_folder
from spade.pools.served import read_served
from spade.seeds import derive

PROGRAM = PoolProgram("tide-1", "class TideEnv: ...\n", "Wait for the ebb.", "causal inference", "a beach")


def test_a_program_is_read_as_it_was_written(tmp_path):
    plain = PoolProgram("plain", "class PlainEnv: ...\n")
    write_program(tmp_path, PROGRAM)
    write_program(tmp_path, plain)
    assert list_names(tmp_path) == ["plain", "tide-1"]
    assert [read_program(tmp_path, name) for name in list_names(tmp_path)] == [plain, PROGRAM]
    assert [(entry.name, entry.skill, bool(entry.hint)) for entry in read_list(tmp_path).entries] == [
        ("plain", "", False), ("tide-1", "causal inference", True),
    ]  # fmt: skip


def test_what_is_written_can_be_read_again_whatever_it_is(tmp_path):
    write_program(tmp_path, PoolProgram("odd", "é\r\n\x00\u202e", "\t so \n", origin="\x1b[2J"))
    assert read_program(tmp_path, "odd") == PoolProgram("odd", "é\r\n\x00\u202e", "so", origin="\x1b[2J")
    with pytest.raises(RunError, match="the program huge is over 1048576 bytes"):
        write_program(tmp_path, PoolProgram("huge", "#" * (1 << 20) + "\n"))
    assert list_names(tmp_path) == ["odd"]


@pytest.mark.parametrize("after", range(3))
def test_a_program_whose_writing_is_killed_is_not_listed_and_can_be_written_again(tmp_path, monkeypatch, after):
    done = []

    def killed(file, data):
        if len(done) == after:
            raise KeyboardInterrupt
        done.append(file)
        replace(file, data)

    monkeypatch.setattr(pool_folder, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        write_program(tmp_path, PROGRAM)
    monkeypatch.undo()
    with pytest.raises(RunError, match="has no environment program"):
        list_names(tmp_path)
    unhinted = msgspec.structs.replace(PROGRAM, hint="")
    write_program(tmp_path, unhinted)
    assert read_program(tmp_path, PROGRAM.name) == unhinted


def test_an_empty_program_has_a_digest_as_any_other(tmp_path):
    (tmp_path / "empty.py").write_text("")
    assert read_list(tmp_path).entries == (Entry("empty", compute_program_digest("")),)
    write_program(tmp_path, PoolProgram("empty", ""))
    assert read_program(tmp_path, "empty").source == ""


def test_a_folder_of_plain_programs_is_a_pool(tmp_path):
    (tmp_path / "a.py").write_text("class AEnv: ...\n")
    (tmp_path / "a.hint").write_text(" Look. \n")
    (tmp_path / "notes.txt").write_text("no program")
    assert read_list(tmp_path).entries[0].skill == ""
    assert read_program(tmp_path, "a") == PoolProgram("a", "class AEnv: ...\n", "Look.")


@pytest.mark.parametrize("file", ["tide-1.py", "tide-1.hint"])
def test_a_program_unlike_its_record_is_refused(tmp_path, file):
    write_program(tmp_path, PROGRAM)
    (tmp_path / file).write_text("something else")
    with pytest.raises(RunError, match=rf"{file} was changed since tide-1\.json was written"):
        read_list(tmp_path)


def test_lists_differ_by_what_is_played_and_say_where(tmp_path):
    pool = PoolList((Entry("a", "1"), Entry("b", "2")))
    for entries, difference in (
        ((Entry("a", "1"),), "b is missing"),
        ((Entry("a", "1"), Entry("b", "2"), Entry("c", "3")), "c is new"),
        ((Entry("a", "1"), Entry("b", "2", hint="4")), "b was changed"),
    ):
        assert pool.difference(PoolList(entries)) == difference
        assert pool.digest != PoolList(entries).digest
    assert pool.difference(pool) == ""


def hostile(folder, kind):
    """A pool in which one file is not what it should be; the end of the line that refuses it."""
    file = folder / "evil.py"
    match kind:
        case "empty folder":
            return "has no environment program"
        case "FIFO":
            os.mkfifo(file)
            return "evil.py: is not a regular file"
        case "device":
            file.symlink_to("/dev/zero")
            return "evil.py: is a link that leaves its folder"
        case "loop":
            file.symlink_to(file)
            return "evil.py: Too many levels of symbolic links"
        case "folder":
            file.mkdir()
            return "evil.py: Is a directory"
        case "huge":
            with file.open("wb") as opened:
                opened.truncate(1 << 40)
            return "evil.py: is over 1048576 bytes"
        case "binary":
            file.write_bytes(bytes(range(256)))
            return "evil.py: is not UTF-8 text"
        case "name":
            (folder / "\x1b[31mred.py").write_text("class RedEnv: ...")
            return "'\\\\x1b[31mred' is no name of a program"
        case "hint":
            file.write_text("class EvilEnv: ...")
            (folder / "evil.hint").write_text("x" * 70_000)
            return "evil.hint: a hint has at most 65536 characters"
        case "record":
            file.write_text("class EvilEnv: ...")
            (folder / "evil.json").write_text("[" * 30_000)
            return "evil.json: is no record of a program"
        case "skill":
            file.write_text("class EvilEnv: ...")
            (folder / "evil.json").write_text('{"program": "", "skill": "world domination"}')
            return "Invalid enum value 'world domination'"


KINDS = ("empty folder", "FIFO", "device", "loop", "folder", "huge", "binary", "name", "hint", "record", "skill")


@pytest.mark.parametrize("kind", KINDS)
def test_a_hostile_file_is_one_printable_line(tmp_path, kind):
    end = hostile(tmp_path, kind)
    with pytest.raises(RunError) as refused:
        read_list(tmp_path)
    assert end in str(refused.value)
    assert str(refused.value).isprintable()


def test_a_missing_folder_is_one_line(tmp_path):
    with pytest.raises(RunError, match="nowhere: cannot be read"):
        list_names(tmp_path / "nowhere")


# ---------------------------------------------------------------- the order


def drawing(size, draws=None, secret=b"pool"):
    entries = tuple(Entry(f"p{index}", str(index)) for index in range(size))
    return Drawing(PoolList(entries), lambda number, index: derive(secret, "pool", number, index), draws)


def test_an_undisturbed_pass_is_a_permutation_of_its_own():
    pool = drawing(20)
    passes = [[pool.next(()).name for _ in range(20)] for _ in range(3)]
    assert all(sorted(each) == sorted(passes[0]) for each in passes)
    assert len(set(map(tuple, passes))) == 3
    other = drawing(20, secret=b"another")
    assert passes[0] != [other.next(()).name for _ in range(20)]


def test_a_pool_smaller_than_the_slots_draws_what_is_not_active():
    pool, active = drawing(3), set()
    active |= {pool.next(active).name for _ in range(3)}
    assert active == {"p0", "p1", "p2"}
    assert pool.next(active) is None
    active.remove("p1")
    assert pool.next(active).name == "p1"
    assert pool.next({"p0", "p1", "p2"}) is None


def test_a_rejected_program_is_drawn_no_more():
    pool = drawing(3)
    pool.reject("p1")
    assert Counter(pool.next(()).name for _ in range(8)) == {"p0": 4, "p2": 4}
    pool.reject("p0")
    pool.reject("p2")
    assert pool.next(()) is None
    assert (pool.playable, pool.left) == (0, 0)


STEPS = st.lists(st.sampled_from(["draw", "draw", "end oldest", "end newest", "reject", "kill"]), max_size=80)


@given(st.integers(1, 9), st.integers(1, 6), STEPS)
def test_draws_are_without_replacement_never_twice_at_once_and_survive_any_kill(size, slots, steps):
    """`kill` loses everything but the draws as they were committed, with the last program that was drawn."""
    pool, undisturbed = drawing(size), drawing(size)
    committed, active, drawn, rejected = msgspec.msgpack.encode(pool.draws), [], [], set()
    for step in steps:
        if step == "draw" and len(active) < slots:
            entry, same = pool.next(active), undisturbed.next(active)
            assert entry == same
            if entry is None:
                continue
            assert entry.name not in active
            assert entry.name not in rejected
            committed = msgspec.msgpack.encode(pool.draws)
            if entry.name in drawn:
                assert {f"p{index}" for index in range(size)} - rejected <= set(drawn)
                drawn = []
            drawn.append(entry.name)
            active.append(entry.name)
        elif step == "reject" and active:
            name = active.pop()
            rejected.add(name)
            pool.reject(name)
            undisturbed.reject(name)
            committed = msgspec.msgpack.encode(pool.draws)
        elif step.startswith("end") and active:
            active.pop(0 if step == "end oldest" else -1)
        elif step == "kill":
            pool = drawing(size, msgspec.msgpack.decode(committed, type=Draws))


SERVED = "class CounterEnv(OpenEnvServerEnv):\n    server = 'http://127.0.0.1:8000'\n"


@pytest.mark.parametrize("source", [
    SERVED.replace("8000", "8001"), SERVED + "import os\n", SERVED + "    note = str(1)\n", SERVED + "    note = 1\n",
    "class CounterEnv:\n    server = 'http://127.0.0.1:8000'  # (OpenEnvServerEnv):\n",
])  # fmt: skip
def test_only_a_program_of_a_known_server_and_nothing_else_is_its_program(source):
    servers = ("http://127.0.0.1:8000",)
    assert read_served(SERVED, servers).name == "CounterEnv"
    assert read_served(source, servers) is None
