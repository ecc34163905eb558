"""Mixtures: what is drawn, cut and left out, and the same bytes however a build went."""

import errno
import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors import corpus
from actors.corpus import mixture
from actors.corpus.cutting import cut_at_sentence, make_counter
from actors.corpus.documents import LONGEST
from actors.corpus.spec import CorpusSource, CorpusSpec, read_spec, share_out
from spade.errors import ConfigError, RunError, SpadeError


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name, texts, **columns):
    with open(name, "w") as file:
        file.writelines(json.dumps({"text": text, **columns}) + "\n" for text in texts)


def made(spec):
    """The bytes of the corpus of a spec, and what was said."""
    Path("spec.toml").write_text(spec)
    said = []
    mixture.build(read_spec(Path("spec.toml")), Path("out.jsonl"), said.append)
    data = Path("out.jsonl").read_bytes()
    Path("out.jsonl").unlink()
    return data, said


TWO = """
seed = 7
[[source]]
name = "tides"
path = "tides.jsonl"
count = 30
[[source]]
name = "moons"
path = "moons.jsonl"
count = 10
"""


def texts(name, count):
    return [f"{name} {number} rises. It falls." for number in range(count)]


def test_each_source_gives_its_count_whatever_the_order_of_its_rows(folder):
    tides, moons = texts("Tide", 100), texts("Moon", 50)
    write("tides.jsonl", tides)
    write("moons.jsonl", moons)
    data, said = made(TWO)
    assert said == [
        "tides: 30 documents of 100 rows; dropped: 70 not drawn",
        "moons: 10 documents of 50 rows; dropped: 40 not drawn",
    ]
    drawn = [json.loads(line) for line in data.splitlines()]
    assert [document["field"] for document in drawn].count("tides") == 30
    assert sorted(drawn, key=lambda document: document["field"]) != drawn  # they are mixed
    Random(1).shuffle(tides)
    write("tides.jsonl", tides)
    again = [json.loads(line)["text"] for line in made(TWO)[0].splitlines()]
    assert again == [document["text"] for document in drawn]
    assert again != [json.loads(line)["text"] for line in made(TWO.replace("seed = 7", "seed = 8"))[0].splitlines()]


@pytest.mark.parametrize("rows", [3, 1_000])
def test_the_bytes_do_not_depend_on_when_the_draft_is_committed(folder, monkeypatch, rows):
    write("tides.jsonl", texts("Tide", 70) * 2)
    write("moons.jsonl", texts("Moon", 90))
    before, _ = made(TWO)
    monkeypatch.setattr(mixture, "ROWS", rows)
    assert made(TWO)[0] == before


def test_empty_duplicate_and_excluded_texts_are_dropped_and_counted(folder):
    write("tides.jsonl", ["A tide rises.", "  ", "A tide rises.", "One that is known by its id."], id="x")
    write("moons.jsonl", ["A tide rises.", "The  answer to QUESTION seven is forty two, they say.", "A moon turns."])
    (folder / "ids").write_text("moons/3\n")
    (folder / "texts").write_text("the answer to question seven is\n\n")
    head = 'exclude_ids = "ids"\nexclude_texts = "texts"\n'
    sources = '[[source]]\nname = "tides"\npath = "tides.jsonl"\n[[source]]\nname = "moons"\npath = "moons.jsonl"\n'
    with pytest.raises(RunError, match="source moons: has 0 documents, 1 are wanted"):
        made(head + sources)
    (folder / "ids").write_text("nothing\n")
    data, said = made(head + sources)
    assert said == [
        "tides: 2 documents of 4 rows; dropped: 1 duplicate, 1 empty",
        "moons: 1 documents of 3 rows; dropped: 1 duplicate, 1 excluded",
    ]
    assert {json.loads(line)["text"] for line in data.splitlines()} == {
        "A tide rises.", "One that is known by its id.", "A moon turns."
    }  # fmt: skip


def test_documents_are_cut_by_the_tokenizer_that_the_spec_names(folder):
    write("tides.jsonl", ["The tide rises. " * 50, "Abracadabra " * 50 + "."])
    source = '[[source]]\nname = "tides"\npath = "tides.jsonl"\n'
    for tokenizer in ("", "nano"):
        data, said = made(f'tokens = 40\ntokenizer = "{tokenizer}"\n{source}')
        (document,) = map(json.loads, data.splitlines())
        count = make_counter(tokenizer)
        assert count(document["text"]) <= 40 < count(document["text"] + " The tide rises.")
        assert document["text"].endswith("rises.")
        assert "dropped: 1 with a first sentence of too many tokens" in said[0]


def test_a_document_too_long_for_a_line_of_a_corpus_is_dropped(folder):
    (folder / "all").mkdir()
    (folder / "all" / "long.txt").write_text("A tide.\n" * (LONGEST // 8))  # LONGEST bytes; its line has more
    write("all/tides.jsonl", ["A tide rises."])
    data, said = made('[[source]]\nname = "all"\npath = "all"\n')
    assert said == [f"all: 1 documents of 2 rows; dropped: 1 over {LONGEST} bytes"]
    assert len(data.splitlines()) == 1


def test_a_source_that_changed_while_it_was_read_ends_the_build(folder):
    write("tides.jsonl", texts("Tide", 40))
    write("moons.jsonl", texts("Moon", 50))
    (folder / "spec.toml").write_text(TWO)
    spec = read_spec(folder / "spec.toml")
    with pytest.raises(RunError, match=r"out\.jsonl: a source file changed during the build"):
        mixture.build(spec, folder / "out.jsonl", lambda _: os.utime("tides.jsonl", ns=(1, 1)))
    assert not (folder / "out.jsonl").exists()
    mixture.build(spec, folder / "out.jsonl", print)


@pytest.mark.parametrize("state", [b"\xff", None, "text"])
def test_a_draft_whose_progress_cannot_be_read_is_named(folder, state):
    write("tides.jsonl", texts("Tide", 20))  # too few: the draft stays
    write("moons.jsonl", texts("Moon", 50))
    with pytest.raises(RunError):
        made(TWO)
    with closing(sqlite3.connect("out.jsonl.draft")) as draft:
        draft.execute("UPDATE progress SET state = ?", (state,))
        draft.commit()
    with pytest.raises(RunError, match=r"out\.jsonl\.draft: is damaged .*; remove it"):
        made(TWO)


def test_a_local_data_set_that_changed_is_another_one(folder):
    (folder / "set" / "data").mkdir(parents=True)
    (folder / "set" / "round").symlink_to(folder)
    file = folder / "set" / "data" / "a.arrow"
    file.write_bytes(b"A tide.")
    spec = CorpusSpec(source=(CorpusSource("tides", dataset="set"), CorpusSource("moons", dataset="some/where")))
    before = spec.fingerprint()
    assert spec.fingerprint() == before
    file.write_bytes(b"A moon rises.")
    assert spec.fingerprint() != before


def test_a_full_disk_names_the_corpus_and_the_next_build_goes_on(folder, monkeypatch):
    write("tides.jsonl", texts("Tide", 40))
    write("moons.jsonl", texts("Moon", 50))
    whole, said = made(TWO)

    def fail(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as full:
        full.setattr(os, "fsync", fail)
        with pytest.raises(
            RunError, match=r"out\.jsonl: was not written \(No space left on device\); the same command continues"
        ):
            made(TWO)
    assert sorted(os.listdir()) == ["moons.jsonl", "out.jsonl.draft", "spec.toml", "tides.jsonl"]
    assert made(TWO) == (whole, said)


def test_a_corpus_that_another_build_finished_meanwhile_is_kept(folder, monkeypatch):
    write("tides.jsonl", texts("Tide", 40))
    write("moons.jsonl", texts("Moon", 50))
    (folder / "spec.toml").write_text(TWO)
    fingerprint = CorpusSpec.fingerprint

    def finish(self):
        (folder / "out.jsonl").write_text("its")  # after this build looked for it, before it has the draft
        return fingerprint(self)

    monkeypatch.setattr(CorpusSpec, "fingerprint", finish)
    with pytest.raises(RunError, match="exists already"):
        mixture.build(read_spec(folder / "spec.toml"), folder / "out.jsonl", print)
    assert (folder / "out.jsonl").read_text() == "its"


SENTENCES = st.lists(
    st.sampled_from(["A tide.", "Is it 3.5 m?", '"No!"', "\u6f6e\u3002", "It falls (so)!", "A line\n"]), min_size=1
)


@given(SENTENCES, st.integers(1, 12))
def test_a_cut_text_is_the_longest_beginning_of_whole_sentences_that_fits(sentences, tokens):
    count = make_counter("")
    beginnings = ["\n".join(sentences[:number]).rstrip() for number in range(len(sentences) + 1)]
    longest = max((text for text in beginnings if count(text) <= tokens), key=len)
    assert cut_at_sentence("\n".join(sentences).rstrip(), tokens, count) == longest


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=9), st.integers(0, 10_000))
def test_shares_by_weight_add_up(weights, total):
    got = share_out(weights, total)
    assert sum(got) == total
    assert all(abs(share - weight * total / sum(weights)) < 1 for share, weight in zip(got, weights, strict=True))


def test_weights_share_out_the_documents(folder):
    write("tides.jsonl", texts("Tide", 100))
    write("moons.jsonl", texts("Moon", 50))
    spec = (
        TWO.replace("seed = 7", "documents = 31")
        .replace("count = 30", "weight = 2")
        .replace("count = 10", "weight = 1")
    )
    _, said = made(spec)
    assert [line.split(" of ")[0] for line in said] == ["tides: 21 documents", "moons: 10 documents"]


KILLED = """
from functools import partial
from pathlib import Path
from actors.corpus import mixture
from actors.corpus.spec import read_spec
mixture.ROWS, mixture.TELL_ROWS = 50, 500
mixture.build(read_spec(Path("spec.toml")), Path("out.jsonl"), partial(print, flush=True))
"""


def test_a_build_that_is_killed_and_run_again_goes_on_and_gives_the_same_bytes(folder):
    write("tides.jsonl", [f"Tide {number} rises. " + "It falls again. " * 60 for number in range(3_000)])
    write("moons.jsonl", texts("Moon", 500))
    whole, summary = made("tokens = 60\n" + TWO.replace("count = 30", "count = 900"))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    said = []
    for kill in (True, True, True, False):
        with subprocess.Popen(
            [sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True, env=environment
        ) as build:
            if kill:
                said.append(int(build.stdout.readline().split()[1]))
                build.kill()
            else:
                last = build.communicate()[0].splitlines()
    assert said == sorted(set(said))  # each went on from where the one before was killed
    assert [line for line in last if "dropped" in line] == summary
    assert (folder / "out.jsonl").read_bytes() == whole
    assert sorted(os.listdir()) == ["moons.jsonl", "out.jsonl", "spec.toml", "tides.jsonl"]
    assert len(corpus.load("out.jsonl")) == 910


def test_a_draft_of_other_sources_is_begun_anew_and_a_damaged_or_taken_one_is_named(folder):
    write("tides.jsonl", texts("Tide", 20))
    write("moons.jsonl", texts("Moon", 50))
    with pytest.raises(RunError, match=r"source tides: has 20 documents, 30 are wanted; lower its share, or read"):
        made(TWO)
    write("tides.jsonl", texts("Tide", 40))
    data, _ = made(TWO)
    assert len(data.splitlines()) == 40
    draft = folder / "out.jsonl.draft"
    draft.write_bytes(b"no database" * 1_000)
    with pytest.raises(RunError, match=r"out\.jsonl\.draft: is damaged .*; remove it"):
        made(TWO)
    draft.unlink()
    other = sqlite3.connect(draft)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(RunError, match="another process builds"):
        made(TWO)
    other.close()
    draft.unlink()
    os.mkfifo(draft)
    with pytest.raises(RunError, match="not a regular file"):
        made(TWO)


def test_files_beside_the_corpus_are_kept_and_no_link_is_followed(folder):
    write("tides.jsonl", texts("Tide", 40))
    write("moons.jsonl", texts("Moon", 50))
    mine = {"out.jsonl.part": "mine", "victim": ""}
    for name, text in mine.items():
        (folder / name).write_text(text)
    draft = folder / "out.jsonl.draft"
    draft.symlink_to("victim")
    with pytest.raises(RunError, match=r"out\.jsonl\.draft: is not a regular file; remove it"):
        made(TWO)
    draft.unlink()
    with closing(sqlite3.connect(draft)) as other:
        other.executescript("CREATE TABLE documents (mine TEXT); INSERT INTO documents VALUES ('one');")
    before = draft.read_bytes()
    with pytest.raises(RunError, match=r"out\.jsonl\.draft: is not a draft of this version; move it away"):
        made(TWO)
    assert draft.read_bytes() == before
    draft.unlink()
    made(TWO)
    assert {name: (folder / name).read_text() for name in mine} == mine


def test_a_corpus_that_exists_is_kept(folder):
    write("tides.jsonl", texts("Tide", 5))
    (folder / "out.jsonl").write_text("mine")
    with pytest.raises(RunError, match="exists already"):
        made('[[source]]\nname = "tides"\npath = "tides.jsonl"\n')
    assert (folder / "out.jsonl").read_text() == "mine"


@pytest.mark.parametrize(("spec", "says"), [
    ("[[source]", "spec.toml: is not TOML"),
    ("", "spec.toml: Object missing required field `source`"),
    ("source = []", "length >= 1"),
    ("[[source]]\nname = 'a'\npath = 'x'\nsize = 1", "unknown field `size`"),
    ("[[source]]\nname = 'a'", "source a: give a path or a dataset"),
    ("[[source]]\nname = 'a'\npath = 'x'\ndataset = 'y'", "source a: give a path or a dataset"),
    ("[[source]]\nname = 'a'\npath = 'x'\nsplit = 'y'", "source a: config, revision and split"),
    ("[[source]]\nname = 'a'\npath = 'x'\nweight = 1", "give every source a weight"),
    ("documents = 3\n[[source]]\nname = 'a'\npath = 'x'\ncount = 1", "give every source a weight"),
    (
        "documents = 3\n[[source]]\nname = 'a'\npath = 'good'\nweight = 9\n"
        "[[source]]\nname = 'b'\npath = 'good'\nweight = 1",
        "source b: its weight gives it none of the 3 documents",
    ),
    ("documents = 3\n[[source]]\nname = 'a'\npath = 'x'\nweight = nan", "weight"),
    ('[[source]]\nname = "a"\npath = "x\\u0000"', "source a: path: holds characters that cannot be printed"),
    ('exclude_ids = "x\\n"\n[[source]]\nname = "a"\npath = "x"', "spec.toml: exclude_ids: holds characters"),
    ("[[source]]\nname = 'a'\npath = 'x'\n[[source]]\nname = 'a'\npath = 'x'", "two sources have the same name"),
    ("tokenizer = 'nano'\n[[source]]\nname = 'a'\npath = 'x'", "has a tokenizer but no limit of tokens"),
    ("[[source]]\nname = 'a'\npath = 'nowhere'", "nowhere"),
    ("exclude_ids = 'nowhere'\n[[source]]\nname = 'a'\npath = 'good'", "nowhere"),
    ("exclude_texts = 'short'\n[[source]]\nname = 'a'\npath = 'good'", "short, line 2: a text to leave out must have"),
    ("exclude_texts = 'bytes'\n[[source]]\nname = 'a'\npath = 'good'", "bytes: "),
    ("[[source]]\nname = 'a'\npath = 'good'\ncolumn = 'body'", "good, line 1: has no text in column 'body'"),
    ("[[source]]\nname = 'a'\npath = 'bad'", "source a: bad, line 2: "),
    ("[[source]]\nname = 'a'\npath = 'fifo'", "source a: fifo: is not a regular file"),
    ("tokens = 9\ntokenizer = '/nowhere'\n[[source]]\nname = 'a'\npath = 'good'", "/nowhere"),
])  # fmt: skip
def test_what_cannot_be_built_is_one_line(folder, spec, says):
    write("good", ["A tide rises."])
    (folder / "bad").write_bytes(b'{"text": "A tide."}\n\xff\n')
    (folder / "short").write_text("\nshort\n")
    (folder / "bytes").write_bytes(b"\xff")
    os.mkfifo(folder / "fifo")
    with pytest.raises((SpadeError, OSError)) as raised:
        made(spec)
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)
    assert not (folder / "out.jsonl").exists()


@pytest.mark.skipif(find_spec("datasets") is not None, reason="tests/extras reads data sets")
def test_the_package_that_reads_data_sets_is_named(folder):
    with pytest.raises(ConfigError, match=r"pip install -e '.\[corpus\]' in the clone"):
        made('[[source]]\nname = "tides"\ndataset = "set"\n')
