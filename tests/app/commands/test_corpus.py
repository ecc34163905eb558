"""`spade corpus`, and a run that keeps the corpus it was started with: in a resume, and on every host."""

import json
import signal
import subprocess
import sys

import pytest

SPADE = [sys.executable, "-m", "spade.app.cli"]


@pytest.fixture
def folder(tmp_path):
    for name in ("tides", "moons"):
        lines = (json.dumps({"text": f"{name} {number} rise."}) + "\n" for number in range(20))
        (tmp_path / f"{name}.jsonl").write_text("".join(lines))
    return tmp_path


def test_a_mixture_is_built_where_its_name_says_and_shown(spade, folder):
    (folder / "sea.toml").write_text('[[source]]\nname = "tides"\npath = "tides.jsonl"\ncount = 5\n')
    first, last = spade("corpus", "build", "sea.toml", cwd=folder).stdout.splitlines()
    assert first == "tides: 5 documents of 20 rows; dropped: 15 not drawn"
    assert last.startswith("corpora/sea.jsonl: 5 documents, digest ")
    assert spade("corpus", "show", "corpora/sea.jsonl", cwd=folder).stdout == f"{last}\n"
    document = json.loads((folder / "corpora" / "sea.jsonl").read_text().splitlines()[4])
    title, text = spade("corpus", "show", "corpora/sea.jsonl", "--index", "4", cwd=folder).stdout.splitlines()
    assert title == f"{document['id']}  tides  {document['title']}"
    assert text == document["text"]


def test_a_file_named_as_the_shipped_documents_is_shown_by_its_path(spade, folder):
    (folder / "tides.jsonl").rename(folder / "builtin")
    assert spade("corpus", "show", "./builtin", cwd=folder).stdout.startswith("./builtin: 20 documents, digest ")
    assert spade("corpus", "show", "builtin", cwd=folder).stdout.startswith("builtin: 230 documents, digest ")


def test_a_spec_that_is_not_there_and_no_corpus_at_all_are_one_line_with_what_there_is(spade, folder):
    (line,) = spade("corpus", "build", "game", cwd=folder).stderr.splitlines()
    shipped = "games, games-official, tools, tools-official"
    assert line == f"spade: game: No such file or directory; give a TOML file, or a spec that ships: {shipped}"
    assert not (folder / "corpora").exists()
    (line,) = spade("corpus", "show", "", cwd=folder).stderr.splitlines()
    assert line == "spade: design.corpus: is empty; give a file of documents, 'builtin' or 'none'"


def test_a_run_keeps_its_corpus_and_refuses_designers_that_have_another(spade, folder):
    settings = ("--set", "bus.call_deadline_s=60")
    up = ("replay", "up", "nano", "--run", "run", *settings, "--set")
    with subprocess.Popen(
        [*SPADE, *up, "design.corpus=tides.jsonl"], stdout=subprocess.PIPE, text=True, cwd=folder
    ) as service:
        try:
            said = service.stdout.readline()
            address = said.split(" at ")[1].split(";")[0]
            # A copy elsewhere is the same corpus; another is refused before a designer is started.
            refused = spade(
                "actors", "up", "nano", "--connect", address, "--designers", "1", "--run", "other", *settings,
                "--set", "design.corpus=moons.jsonl", cwd=folder,
            )  # fmt: skip
        finally:
            service.send_signal(signal.SIGINT)
    assert refused.returncode == 1
    *_, line = refused.stderr.splitlines()  # behind its log
    recorded = json.loads((folder / "run" / "run.json").read_text())["corpus"]
    assert "has another corpus (digest " in line
    assert f"this run {recorded[:8]}); copy the run's files of design.corpus and tools.settings to" in line
    before = (folder / "run" / "config.toml").read_text()
    resumed = spade(*up, "design.corpus=moons.jsonl", cwd=folder)
    assert resumed.returncode == 1
    (line,) = resumed.stderr.splitlines()
    assert f"this run was started with another corpus (digest {recorded[:8]}, " in line
    assert (folder / "run" / "config.toml").read_text() == before
