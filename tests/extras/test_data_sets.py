"""Data sets of Hugging Face as sources of a corpus: local ones, and those of a hub on loopback."""

import json
import os
import subprocess
import sys
from pathlib import Path

import datasets
import pytest
from pyarrow import Table, parquet

from actors.corpus import mixture
from actors.corpus.spec import read_spec
from spade.app.rundir import RunDir
from spade.app.supervisor.pools import read_run_programs
from spade.config import load
from spade.errors import RunError
from tests.app.commands.test_pool import run_spade
from tests.replay.kept_world import keep_world
from tests.spade.hub_server import TOKEN, serve_hub

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


def test_environments_that_a_run_exports_are_a_data_set(tmp_path):
    run = RunDir(tmp_path / "run")
    run.create(load("nano"))
    keep_world(run.store)
    code, told = run_spade("env", "export", run.path, "exported", "--format", "hub")
    assert code == 0, told
    rows = datasets.load_dataset("exported", cache_dir=str(tmp_path / "cache"), split="train")
    assert [(row["code"], row["hint"], row["lineage"]["regret"]) for row in rows] == [
        (program.source, program.hint, program.lineage.regret) for program in read_run_programs(run)
    ]


@pytest.fixture
def hub():
    with serve_hub() as served:
        yield served


def run_at_hub(hub, *words):
    """Run a command whose hub is the one on loopback: the clients read its address when they are imported."""
    kept = {"HF_HOME": os.path.abspath("hf"), "HF_HUB_DISABLE_XET": "1", "HF_TOKEN": TOKEN}
    done = subprocess.run(
        [sys.executable, "-m", "spade.app.cli", *words],
        env={**os.environ, **kept, "HF_ENDPOINT": hub.url}, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("games-official", "spade-rl/SPADE-Grounding-Corpus-Games-15K"),
        ("tools-official", "spade-rl/SPADE-Grounding-Corpus-ToolUse-15K"),
    ],
)
def test_the_corpora_of_the_papers_authors_are_built_from_the_hub(hub, spec, name):
    shard = Path("shards/train-00000-of-00002.parquet").read_bytes()
    hub.push(name, {"README.md": b"", "data/train-00000-of-00001.parquet": shard})
    said = run_at_hub(hub, "corpus", "build", spec)
    assert "10 documents of 11 rows; dropped: 1 empty" in said
    texts = [json.loads(line)["text"] for line in Path(f"corpora/{spec}.jsonl").read_text().splitlines()]
    assert sorted(texts) == sorted(TIDES[:10])


def test_a_pushed_corpus_is_a_source_of_another(hub):
    rows = [{"id": str(number), "text": text} for number, text in enumerate(TIDES)]
    Path("mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert "datasets/someone/tides: " in run_at_hub(hub, "corpus", "push", "mine.jsonl", "someone/tides")
    Path("spec.toml").write_text('[[source]]\nname = "tides"\ndataset = "someone/tides"\n')
    assert "20 documents of 20 rows" in run_at_hub(hub, "corpus", "build", "spec.toml", "-o", "back.jsonl")
    texts = [json.loads(line)["text"] for line in Path("back.jsonl").read_text().splitlines()]
    assert sorted(texts) == sorted(TIDES)
