"""datasets and the hub: data sets, corpora and policies go to a hub on loopback and come back."""

import hashlib
import json
import random
from pathlib import Path

import datasets
import pyarrow
import pytest
import trio
from pyarrow import parquet

from actors.environments.offers import choose
from actors.sandbox import open_sandbox
from spade.app.rundir import RunDir
from spade.app.supervisor.pools import read_run_programs
from spade.pools import list_names, read_program
from tests.spade.hub_server import READER, TOKEN, serve_hub

EPISODES = 200
TIDES = [f"Tide {number} rises." for number in range(20)]
CORPORA = {
    "games-official": "spade-rl/SPADE-Grounding-Corpus-Games-15K",
    "tools-official": "spade-rl/SPADE-Grounding-Corpus-ToolUse-15K",
}
POOL = "spade-rl/SPADE-Environment-Pool-GPT5.5-Games"


@pytest.fixture
def hub():
    with serve_hub() as served:
        yield served


@pytest.fixture
def at_hub(hub, run_spade, tmp_path):
    """Run a command whose hub is the one on loopback. Return its exit code and what it printed."""

    def call(*words, token=TOKEN, url=hub.url):
        kept = {"HF_HOME": str(tmp_path / "hf"), "HF_HUB_DISABLE_XET": "1"}
        return run_spade(*words, cwd=tmp_path, HF_TOKEN=token, HF_ENDPOINT=url, **kept)

    return call


def write_rows(rows):
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(pyarrow.Table.from_pylist(rows), sink)
    return sink.getvalue().to_pybytes()


def make_row(program, **others):
    """Return a program as a row of the pools that the paper's authors published."""
    data = program.source.encode()
    return {
        "game_id": program.name, "file_name": f"{program.name}.py", "original_file_name": "x.py", "skill": "Planning",
        "sha256": hashlib.sha256(data).hexdigest(), "line_count": data.count(b"\n"), "byte_count": len(data),
        "code": program.source,
    } | others  # fmt: skip


def play(config, sources):
    """Play 200 episodes of these programs, with the same seeds and actions for programs of the same offers."""

    async def play_all():
        rng, found = random.Random(5), []
        async with open_sandbox(config.sandbox) as sandbox:
            for number in range(EPISODES):
                answers = [
                    await sandbox.open(
                        "one", sources[number % len(sources)], rng.getrandbits(31), config.play.max_turns
                    )
                ]
                while not (answers[-1].terminated or answers[-1].truncated) and len(answers) <= config.play.max_turns:
                    action = choose(answers[-1].observation, rng, (), ())
                    answers.append(await sandbox.step("one", len(answers), action))
                found.append([(each.observation, each.reward, each.terminated, each.truncated) for each in answers])
        return found

    return trio.run(play_all)


def test_the_data_set_of_a_run_is_read_by_datasets_and_comes_back_from_the_hub(run, run_spade, hub, at_hub, tmp_path):
    programs = list(read_run_programs(RunDir(run)))
    pools = {}
    for format in ("files", "hub"):
        code, told = run_spade("env", "export", run, tmp_path / format, "--format", format, cwd=tmp_path)
        assert code == 0, told
    rows = datasets.load_dataset(str(tmp_path / "hub"), cache_dir=str(tmp_path / "cache"), split="train")
    assert [(row["code"], row["hint"], row["lineage"]["regret"]) for row in rows] == [
        (program.source, program.hint, program.lineage.regret) for program in programs
    ]
    code, told = at_hub("env", "push", tmp_path / "hub", "someone/environments")
    assert code == 0, told
    for format, source in (("files", tmp_path / "files"), ("hub", "hub:someone/environments")):
        pool = tmp_path / f"pool-of-{format}"
        code, told = at_hub("pool", "import", source, "-o", pool)
        assert code == 0, told
        pools[format] = {name: read_program(pool, name) for name in list_names(pool)}
        assert {name: (each.source, each.hint) for name, each in pools[format].items()} == {
            program.name: (program.source, program.hint) for program in programs
        }
    config = RunDir(run).config()
    there = play(config, [pools["hub"][program.name].source for program in programs])
    assert there == play(config, [program.source for program in programs])
    assert {answers[-1][1] for answers in there} >= {0.0, 1.0}


def test_the_pool_and_the_corpora_of_the_papers_authors_come_from_the_hub(run, hub, at_hub, tmp_path):
    programs = list(read_run_programs(RunDir(run)))[:3]
    crash = make_row(programs[0], code="def no(): pass\n", sha256="", game_id="crash", file_name="../crash.py")
    hub.push(POOL, {"data/train-00000-of-00001.parquet": write_rows([*map(make_row, programs), crash])})
    code, told = at_hub("pool", "import", f"hub:{POOL}", "-o", tmp_path / "pool")
    assert code == 0, told
    assert told.splitlines()[-1] == f"{tmp_path / 'pool'}: 3 of 4 programs of hub:{POOL}"
    assert any(line.split()[:2] == ["class", "1"] for line in told.splitlines()), told
    first = read_program(tmp_path / "pool", programs[0].name)
    assert (first.source, first.skill) == (programs[0].source, None)
    assert first.origin == f"hub:{POOL}@{hub.commits[POOL]}, game_id {programs[0].name}, skill Planning"
    for spec, name in CORPORA.items():
        hub.push(
            name, {"README.md": b"", "data/train-00000-of-00001.parquet": write_rows([{"text": t} for t in TIDES])}
        )
        code, told = at_hub("corpus", "build", spec)
        assert code == 0, told
        lines = (tmp_path / "corpora" / f"{spec}.jsonl").read_text().splitlines()
        assert sorted(json.loads(line)["text"] for line in lines) == sorted(TIDES)


def test_a_hub_that_gives_nothing_or_something_wrong_is_one_line_and_changes_nothing(run, hub, at_hub, tmp_path):
    [program, *_] = read_run_programs(RunDir(run))
    hub.push("someone/wrong", {"train.parquet": write_rows([make_row(program, sha256="0" * 64)])})
    hub.push("someone/crash", {"train.parquet": write_rows([make_row(program, code="1 / 0\n", sha256="")])})
    hub.push("someone/outside", {"../../outside.parquet": write_rows([make_row(program)])})
    before = {*tmp_path.iterdir()} | {tmp_path / "hf"}
    for words, others, says in (
        (("pool", "import", "hub:someone/wrong"), {}, "row 1: its program does not have the digest"),
        (("pool", "import", "hub:someone/none"), {}, "the hub did not give it"),
        (("pool", "import", "hub:someone/wrong"), {"url": "http://127.0.0.1:9"}, ""),
        (("pool", "import", "hub:someone/outside"), {}, "someone/outside: "),
        (("env", "push", tmp_path, "someone/thing"), {}, "is no data set with a card"),
        (("model", "push", run, "someone/thing"), {"token": READER}, "the token may not write there"),
    ):
        out = ("-o", tmp_path / "out") if words[0] == "pool" else ()
        code, told = at_hub(*words, *out, **others)
        assert (code, told.count("\n")) == (1, 1), told
        assert says in told
        assert {*tmp_path.iterdir()} <= before
    code, told = at_hub("pool", "import", "hub:someone/crash", "-o", tmp_path / "out")
    assert code == 1
    assert told.splitlines()[-1].endswith("none of 1 programs is admitted")
    assert not (tmp_path / "out").exists()
    assert hub.commits.keys() == {"someone/wrong", "someone/crash", "someone/outside"}


def test_a_corpus_and_a_policy_that_were_pushed_come_back(run, hub, at_hub, tmp_path):
    (tmp_path / "mine.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in TIDES))
    code, told = at_hub("corpus", "push", "mine.jsonl", "someone/tides")
    assert code == 0, told
    (tmp_path / "spec.toml").write_text('[[source]]\nname = "tides"\ndataset = "someone/tides"\n')
    code, told = at_hub("corpus", "build", "spec.toml", "-o", "back.jsonl")
    assert code == 0, told
    assert sorted(json.loads(line)["text"] for line in Path(tmp_path, "back.jsonl").read_text().splitlines()) == sorted(
        TIDES
    )
    code, told = at_hub("model", "push", run, "someone/policy")
    assert code == 0, told
    code, told = at_hub("model", "import", "someone/policy", tmp_path / "policy")
    assert code == 0, told
    pushed = hub.files[hub.commits["someone/policy"]]
    assert (tmp_path / "policy" / "model.safetensors").read_bytes() == pushed["model.safetensors"]
