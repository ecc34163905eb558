"""Data sets of Hugging Face as sources of a corpus: local ones. `make test-interop` has those of a hub."""

import json
from pathlib import Path

import datasets
import pytest
from pyarrow import Table, parquet

from actors.corpus import mixture
from actors.corpus.spec import read_spec
from spade.errors import RunError

TIDES = [f"Tide {number} rises." for number in range(20)]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("shards").mkdir()
    for number in range(2):
        texts = [*TIDES[10 * number : 10 * number + 10], None]
        table = Table.from_pydict({"text": texts, "url": ["u"] * 11})
        parquet.write_table(table, f"shards/train-{number:05}-of-00002.parquet")
    datasets.Dataset.from_dict({"body": TIDES}).save_to_disk("kept")


def made(settings):
    Path("spec.toml").write_text(f'[[source]]\nname = "tides"\n{settings}\n')
    said = []
    mixture.build(read_spec(Path("spec.toml")), Path("out.jsonl"), said.append)
    return said, [json.loads(line)["text"] for line in Path("out.jsonl").read_text().splitlines()]


def test_shards_are_streamed():
    said, texts = made('dataset = "shards"\nrows = 12\ncount = 7')
    assert said == ["tides: 7 documents of 12 rows; dropped: 1 empty, 4 not drawn"]
    assert set(texts) < set(TIDES[:11])


def test_a_saved_data_set_is_read_by_the_column_that_is_named():
    assert sorted(made('dataset = "kept"\ncolumn = "body"')[1]) == sorted(TIDES)


@pytest.mark.parametrize(("settings", "says"), [
    ('dataset = "shards"\nsplit = "none"', "source tides: shards, row 1: Bad split"),
    ('dataset = "shards"\nconfig = "none"', "source tides: shards, row 1: "),
    ('dataset = "shards"\ncolumn = "body"', "row 1: has no text in column 'body'; its columns: text, url"),
    ('dataset = "./nowhere"', "source tides: ./nowhere, row 1: "),
])  # fmt: skip
def test_what_cannot_be_read_is_one_line(settings, says):
    with pytest.raises(RunError) as raised:
        made(settings)
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)
