"""Corpora as designers read them: what is taken, what is refused, and what a million documents cost."""

import json
import os
import re
import subprocess
import sys
from array import array
from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import Table, parquet

from actors import corpus
from actors.corpus import indexed
from actors.corpus.documents import Digest, make, read_line, write_line
from actors.text.profile import Document
from spade.decoding import UnreadableError
from spade.errors import ConfigError, RunError


def test_the_builtin_corpus_is_whole():
    documents = corpus.load("builtin")
    assert len(documents) >= 200
    assert len({document.id for document in documents}) == len(documents)
    assert len({document.title for document in documents}) == len(documents)
    assert {document.field for document in documents} == {"mathematics", "science", "everyday"}
    assert all(len(document.text) > 100 for document in documents)


def test_any_jsonl_of_texts_will_do(tmp_path):
    file = tmp_path / "texts.jsonl"
    file.write_text(
        '{"text": "Tides rise and fall.", "url": "x"}\n'
        "\n"
        '{"id": 7, "field": "science", "title": "Ice", "text": " Ice floats. "}\n'
        '{"text": "Moons turn."}'
    )
    documents = [
        Document("1", "", "Tides rise and fall.", "Tides rise and fall."),
        Document("7", "science", "Ice", "Ice floats."),
        Document("3", "", "Moons turn.", "Moons turn."),
    ]
    read = corpus.load(str(file))
    assert list(read) == documents
    assert (read[-1], read[1:]) == (documents[2], documents[1:])
    assert read.digest == Digest(documents).hex
    with pytest.raises(IndexError):
        read[3]


@pytest.mark.parametrize("name", ["a.jsonl", "a.txt"])
def test_a_byte_order_mark_is_no_part_of_a_document(tmp_path, name):
    """Editors of Windows write one. The lines of an index stay where they are."""
    lines = '{"text": "Ice floats."}\n{"text": "Moons turn."}\n' if name == "a.jsonl" else "Ice floats."
    (tmp_path / "plain").mkdir()
    (tmp_path / "marked").mkdir()
    (tmp_path / "plain" / name).write_text(lines)
    (tmp_path / "marked" / name).write_text(lines, encoding="utf-8-sig")
    for place in ("", name) if name == "a.jsonl" else ("",):
        plain, marked = (corpus.load(str(tmp_path / folder / place)) for folder in ("plain", "marked"))
        assert (list(marked), marked.digest) == (list(plain), plain.digest)


def test_the_same_documents_have_one_digest_wherever_they_lie(tmp_path):
    texts = ["A tide rises.", "A moon turns.", "Ice floats."]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n\n" for text in texts))
    parquet.write_table(Table.from_pydict({"text": texts}), tmp_path / "a.parquet")
    (tmp_path / "turned.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts[::-1]))
    lines, table, turned = (corpus.load(str(tmp_path / name)) for name in ("a.jsonl", "a.parquet", "turned.jsonl"))
    assert list(lines) == list(table)
    assert lines.digest == table.digest != turned.digest


def test_a_folder_is_read_file_by_file_and_links_that_go_round_are_not_followed(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "tide.md").write_text("A tide rises.")
    (tmp_path / "deep" / "round").symlink_to(tmp_path)
    (tmp_path / "moon.jsonl").write_text('{"text": "A moon turns."}\n{"text": "Ice floats.", "id": "ice"}\n')
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    (tmp_path / ".hidden.txt").write_text("no")
    found = [(document.id, document.text) for document in corpus.load(str(tmp_path))]
    assert found == [("deep/tide.md", "A tide rises."), ("moon.jsonl:1", "A moon turns."), ("ice", "Ice floats.")]


@pytest.mark.parametrize(("content", "message"), [
    (None, "No such file"),
    (b"", "holds no document"),
    (b'{"text": "good"}\n{"title": "no text"}\n', "line 2: Object missing required field `text`"),
    (b"\n{broken\n", "line 2: JSON is malformed"),
    (b'{"text": "  "}\n', "line 1: the text is empty"),
    (b'{"text": "\xff"}\n', "line 1: "),
    (b'{"text": "\0"}\n', "line 1: JSON is malformed"),
    (b'{"text": "\\ud800"}\n', "line 1: "),
    (b'{"text": "good"}\n{"text": "cut', "line 2: "),
    (b'{"text": "' + b"a" * (1 << 24) + b'"}\n', "line 1: is over 16777216 bytes"),
    (b"[" * 100_000, "line 1: "),
])  # fmt: skip
def test_one_line_says_what_is_wrong(tmp_path, content, message):
    file = tmp_path / "texts.jsonl"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match=re.escape(str(file))) as raised:
        corpus.load(str(file))
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "texts.jsonl.index").exists()


def test_what_is_no_file_of_documents_is_one_line(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "empty").mkdir()
    for name in ("fifo.d", "binary.d", "cut.d", "rows.d"):
        (tmp_path / name).mkdir()
    os.mkfifo(tmp_path / "fifo.d" / "a.txt")
    (tmp_path / "binary.d" / "a.txt").write_bytes(b"a\0b")
    parquet.write_table(Table.from_pydict({"text": ["A tide.", None]}), tmp_path / "rows.d" / "a.parquet")
    (tmp_path / "cut.d" / "a.parquet").write_bytes((tmp_path / "rows.d" / "a.parquet").read_bytes()[:-9])
    parquet.write_table(Table.from_pydict({"body": ["A tide."]}), tmp_path / "other.parquet")
    parquet.write_table(Table.from_pydict({"text": [["A", "tide."]]}), tmp_path / "list.parquet")
    parquet.write_table(Table.from_pydict({"te\x1b[31mxt\n": ["A tide."]}), tmp_path / "controls.parquet")
    for name, says in {
        "list.parquet": "list.parquet, row 1: column 'text' must be text, is list",
        "controls.parquet": "its columns: te\\x1b[31mxt\\n",
        "fifo": "fifo: is not a regular file",
        "loop": "loop: Too many levels",
        "empty": "has no file that ends in .txt",
        "fifo.d": "fifo.d/a.txt: is not a regular file",
        "binary.d": "binary.d/a.txt: holds NUL",
        "cut.d": "cut.d/a.parquet, row 1: ",
        "rows.d": "rows.d/a.parquet, row 2: the text is empty",
        "other.parquet": "other.parquet, row 1: has no text in column 'text'; its columns: body",
    }.items():
        with pytest.raises(ConfigError) as raised:
            corpus.load(str(tmp_path / name))
        assert str(raised.value).startswith("design.corpus: ")
        assert says in str(raised.value)
        assert "\n" not in str(raised.value)


words = st.text(st.characters(exclude_categories=["Cs"]))


@given(words.filter(str.strip), words, words, words)
def test_a_document_written_as_a_line_is_read_as_itself(text, id, field, title):
    document = make(text, id, field, title)
    assert read_line(write_line(document), 0) == document


@given(st.binary())
def test_bytes_that_are_no_document_are_one_error(line):
    with suppress(UnreadableError):
        assert read_line(line, 1).text.strip()


@pytest.fixture
def tides(tmp_path):
    file = tmp_path / "tides.jsonl"
    file.write_text("".join(f'{{"text": "Tide {number}."}}\n' for number in range(100)))
    return file


def test_an_index_is_made_once_and_no_other_files_index_is_taken(tides, tmp_path):
    index = tides.with_name("tides.jsonl.index")
    digest = corpus.load(str(tides)).digest
    first = index.stat().st_ino
    assert corpus.load(str(tides)).digest == digest
    assert index.stat().st_ino == first
    other = tmp_path / "other.jsonl"
    other.write_text('{"text": "A moon."}\n')
    corpus.load(str(other))
    whole = index.read_bytes()
    damaged = bytearray(whole)
    damaged[-5] ^= 1
    misnamed = whole.replace(digest.encode(), digest[::-1].encode())
    for bad in (
        other.with_name("other.jsonl.index").read_bytes(),
        bytes(damaged),
        misnamed,
        whole[:-8],
        b"",
        b"\xff" * 9_000,
    ):
        index.write_bytes(bad)
        documents = corpus.load(str(tides))
        assert documents[99].text == "Tide 99."
        assert documents.digest == digest
        assert index.read_bytes() == whole


@pytest.mark.parametrize("places", [(), (2**64 - 1,), (0, 2**63), (0, 5, 3), (0, 0), (40,)])
def test_a_forged_index_ends_in_one_line(tides, places):
    corpus.load(str(tides))
    file = tides.with_name("tides.jsonl.index")
    forged = array("Q", places).tobytes()
    whole = msgspec.msgpack.decode(file.read_bytes(), type=indexed.CorpusIndex)
    forgery = msgspec.structs.replace(whole, places=forged, check=indexed.compute_check(whole.digest, forged))
    file.write_bytes(msgspec.msgpack.encode(forgery))
    documents = corpus.load(str(tides))
    assert len(documents) >= 1
    with suppress(RunError):
        list(documents)


def test_a_file_that_changes_while_its_index_is_made_is_named(tides, monkeypatch):
    read = indexed.read_lines

    def changed(opened):
        yield from read(opened)
        with tides.open("a") as file:
            file.write('{"text": "A moon."}\n')

    monkeypatch.setattr(indexed, "read_lines", changed)
    with pytest.raises(ConfigError, match=r"tides\.jsonl: changed while"):
        corpus.load(str(tides))
    assert not tides.with_name("tides.jsonl.index").exists()


def test_the_documents_and_the_digest_are_of_one_file_though_another_takes_its_name(tides, monkeypatch):
    new = tides.with_name("new")
    new.write_text(tides.read_text().replace("Tide", "Moon"))
    digest = corpus.load(str(tides)).digest
    tides.with_name("tides.jsonl.index").unlink()

    def replaced(path, found):
        new.replace(tides)

    monkeypatch.setattr(indexed, "_load_kept_index", replaced)
    documents = corpus.load(str(tides))
    assert (documents.digest, documents[99].text) == (digest, "Tide 99.")


def test_a_file_that_changed_gets_another_index(tides):
    before = corpus.load(str(tides))
    tides.write_text(tides.read_text().replace("Tide 99", "Moon 99"))
    os.utime(tides, ns=(1, 1))
    after = corpus.load(str(tides))
    assert after[99].text == "Moon 99."
    assert after.digest != before.digest


def test_where_no_index_can_be_written_a_reader_keeps_it_in_memory(tides, caplog):
    tides.with_name("tides.jsonl.index").mkdir()
    assert corpus.load(str(tides))[99].text == "Tide 99."
    assert "tides.jsonl.index: was not written (Is a directory)" in caplog.text


def test_a_corpus_replaced_while_it_is_read_stays_as_it_was_and_one_overwritten_is_named(tides):
    documents = corpus.load(str(tides))
    new = tides.with_name("new")
    new.write_text('{"text": "A moon."}\n')
    new.replace(tides)
    assert documents[99].text == "Tide 99."
    documents = corpus.load(str(tides))
    with tides.open("r+") as file:
        file.write("broken")
    with pytest.raises(RunError, match=r"tides\.jsonl, document 1: is not what it was"):
        documents[0]


COST = """
import random, sys
from pathlib import Path
from actors import corpus

DRAWS = 2_000

def resident():
    return next(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line)

def bytes_read():
    return next(int(line.split()[1]) for line in Path("/proc/self/io").read_text().splitlines() if "rchar" in line)

def count(frame, event, argument):
    global lines
    lines += event == "line"
    return count

before, lines = resident(), 0
documents = corpus.load(sys.argv[1])
mebibytes, read = (resident() - before) / 1_024, bytes_read()
sys.settrace(count)
for _ in range(DRAWS):
    documents[random.randrange(len(documents))]
sys.settrace(None)
print(len(documents), mebibytes, lines / DRAWS, (bytes_read() - read) / DRAWS)
"""


def test_a_million_documents_cost_a_designer_little_memory_and_each_draw_reads_one(tmp_path):
    file = tmp_path / "many.jsonl"
    with file.open("w") as opened:
        for first in range(0, 1_000_000, 10_000):
            opened.writelines(f'{{"text":"Tide {number} rises."}}\n' for number in range(first, first + 10_000))
    for _ in ("makes the index", "finds it"):
        done = subprocess.run([sys.executable, "-c", COST, str(file)], capture_output=True, text=True, timeout=300)
        count, mebibytes, lines, read = map(float, done.stdout.split())
        assert count == 1_000_000
        assert mebibytes < 100  # of the 200 that a designer may take
        assert lines < 500
        assert read < 4_096


def test_the_builtin_corpus_of_tools_is_notes_of_interfaces():
    notes = corpus.load("builtin", "tools")
    assert len(notes) >= 100
    assert {note.field for note in notes} == {"code"}
    assert len({note.title for note in notes}) == len({note.id for note in notes}) == len(notes)
    assert notes.digest != corpus.load("builtin").digest
