"""`spade env export`: the environments of a run in forms that other programs read."""

import errno
import json
import os
import tomllib
from importlib import metadata

import msgspec
import pytest
import yaml
from huggingface_hub import ModelCard
from msgspec.structs import replace
from pyarrow import parquet

from actors.text import rules
from replay.inspect.environments import read_environments
from replay.inspect.pool import FigureBounds, Filters
from replay.ledger.records import Environment
from replay.store import open_reader
from spade.app.pools.tables import read_table
from spade.app.rundir import RunDir
from spade.app.supervisor.pools import read_run_programs
from spade.config import load
from spade.pools import ProgramLineage, list_names, read_list, read_program
from spade.protocol import Measures
from spade.text import as_line
from tests.app.commands.test_pool import run_spade
from tests.replay.kept_world import keep_world


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run whose environments all have the same program, but for two."""
    made = RunDir(tmp_path_factory.mktemp("runs") / "run")
    made.create(load("nano"))
    keep_world(made.store)
    return made


def test_files_hold_each_program_with_its_hint_and_lineage(run, tmp_path):
    code, told = run_spade("env", "export", run.path, tmp_path / "out", "--format", "files")
    assert code == 0, told
    known = {each.id: each for each in read_environments(run.store)}
    assert told == f"{tmp_path / 'out'}: {len(list_names(tmp_path / 'out'))} environments of {run.path}\n"
    for entry in read_list(tmp_path / "out").entries:
        program = read_program(tmp_path / "out", entry.name)
        lineage, environment = program.lineage, known[entry.name]
        assert program.hint == "pull the second lever"
        assert (lineage.environment, lineage.document) == (environment.id, environment.document)
        assert (lineage.win_rate, lineage.regret) == (environment.win_rate_unhinted, environment.regret)
        assert lineage.step is not None


@pytest.mark.parametrize("format", ["hub", "parquet", "jsonl"])
def test_a_table_is_a_pool_again_with_equal_programs(run, tmp_path, format):
    kept = list(read_run_programs(run))
    code, told = run_spade("env", "export", run.path, tmp_path / "out", "--format", format)
    assert (code, told) == (0, f"{tmp_path / 'out'}: {len(kept)} environments of {run.path}\n")
    read = read_table(str(tmp_path / "out"))
    assert [replace(program, origin="") for program in read] == [
        replace(program, origin="", lineage=None) for program in kept
    ]
    odd = tmp_path / os.fsdecode(b"\xff")
    assert run_spade("env", "export", run.path, odd, "--format", format)[0] == 0
    assert sorted(os.listdir(odd)) == sorted(os.listdir(tmp_path / "out"))
    [table] = [file for file in (tmp_path / "out").iterdir() if file.suffix != ".md"]
    rows = (
        parquet.read_table(table).to_pylist() if format != "jsonl" else map(json.loads, table.read_text().splitlines())
    )
    assert [msgspec.convert(row["lineage"], ProgramLineage) for row in rows] == [program.lineage for program in kept]


@pytest.mark.parametrize(
    ("options", "holds"),
    [
        (("--skill", "optimization"), lambda each: each.skill == "optimization"),
        (("--win-rate", "0..0.5"), lambda each: each.win_rate_unhinted is not None and each.win_rate_unhinted <= 0.5),
        (("--regret", "0.1..1"), lambda each: each.regret is not None and each.regret >= 0.1),
        (("--audited",), lambda each: each.audit.startswith("passed")),
    ],
)
def test_filters_choose_environments(run, tmp_path, options, holds):
    environments = [each for each in read_environments(run.store) if each.state != "quarantined"]
    first = next(each for each in environments if holds(each))
    assert not all(map(holds, environments)), "the filter chooses nothing here"
    code, told = run_spade("env", "export", run.path, tmp_path / "out", "--format", "files", *options)
    assert code == 0, told
    assert first.id in list_names(tmp_path / "out"), "all programs are equal, so the oldest comes"


@pytest.mark.parametrize(("similarity", "passes"), [(None, False), (0.75, True), (0.76, False), (0.0, False)])
def test_novelty_is_what_is_missing_to_the_similarity(run, similarity, passes):
    with open_reader(run.store) as store:
        environment = store.scan("environments", Environment)[0]
    filters = Filters(novelty=FigureBounds(0.25, 0.9))
    assert filters.passed_by(replace(environment, measures=Measures(similarity=similarity))) == passes


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--novelty", "0..1"), "no environment passes the filters"),  # the world's designers measured none
        (("--regret", "5..6"), "no environment passes the filters"),
        (("--win-rate", "0.9..0.1"), "--win-rate '0.9..0.1': write two numbers like 0.2..0.8"),
        (("--regret", "high"), "--regret 'high': write two numbers like 0.2..0.8"),
        (("--skill", "poetry"), "--skill 'poetry': is not a skill of"),
    ],
)
def test_bad_filters_are_one_line_and_write_nothing(run, tmp_path, options, says):
    code, told = run_spade("env", "export", run.path, tmp_path / "out", "--format", "files", *options)
    assert (code, told.count("\n")) == (1, 1), told
    assert says in told
    assert not list(tmp_path.iterdir())


def test_a_folder_that_exists_and_a_run_without_environments_are_refused(run, tmp_path):
    code, told = run_spade("env", "export", run.path, tmp_path, "--format", "files")
    assert (code, told) == (1, f"spade: {tmp_path}: exists already; give a new directory\n")
    code, told = run_spade("env", "export", run.path, tmp_path / "none" / "..", "--format", "files")
    assert (code, told) == (1, f"spade: {tmp_path}/none/..: exists already; give a new directory\n")
    assert not list(tmp_path.iterdir())
    empty = RunDir(tmp_path / "empty")
    empty.create(load("nano"))
    code, told = run_spade("env", "export", empty.path, tmp_path / "out", "--format", "files")
    assert (code, told.count("\n")) == (1, 1), told


@pytest.mark.parametrize(
    ("folder", "options", "says"),
    [
        ("Some Games", (), "'Some Games' is not a package name"),
        ("7-games", (), "'7-games' is not a package name"),
        ("class", (), "'class' is not a package name"),
        ("textarena", ("--format", "verifiers"), "'textarena' is the name of another package; give DIR another name"),
        ("json", (), "'json' is the name of another package; give DIR another name"),
        ("games", ("--format", "hub", "--bare"), "--bare: --format hub writes no package; leave --bare out"),
        ("games", ("--format", "harbor", "--bare"), "--bare: --format harbor writes no package; leave --bare out"),
        ("spade-rl", (), "'spade_rl' is the name of another package; give DIR another name"),
        ("trio", (), "'trio' is the name of another package; give DIR another name"),
        ("yaml", (), "'yaml' is the name of another package; give DIR another name"),
        ("pyyaml", (), "'pyyaml' is the name of another package; give DIR another name"),
        ("markdown-it-py", (), "'markdown_it_py' is the name of another package; give DIR another name"),
        ("uvicorn", ("--format", "openenv"), "'uvicorn' is the name of another package; give DIR another name"),
        ("core", ("--format", "openenv"), "'core' is the name of another package; give DIR another name"),
        ("server", ("--format", "openenv"), "'server' is the name of another package; give DIR another name"),
    ],
)
def test_a_package_that_cannot_be_made_is_one_line(run, tmp_path, folder, options, says):
    code, told = run_spade("env", "export", run.path, tmp_path / folder, "--format", "gymnasium", *options)
    assert (code, told.count("\n")) == (1, 1), told
    assert says in told
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("format", "options"), [("gymnasium", ("--bare",)), ("harbor", ())])
def test_programs_that_a_server_plays_need_the_sandbox(tmp_path, format, options):
    served = RunDir(tmp_path / "served")
    served.create(load("nano", ('sandbox.servers=["http://127.0.0.1:9"]',)))
    keep_world(served.store)
    code, told = run_spade("env", "export", served.path, tmp_path / "games", "--format", format, *options)
    assert (code, told.count("\n")) == (1, 1), told
    assert "need the sandbox for http://127.0.0.1:9" in told
    assert not (tmp_path / "games").exists()


def test_a_package_requires_the_libraries_of_its_programs(tmp_path):
    mixed = RunDir(tmp_path / "mixed")
    settings = 'sandbox.servers=["http://127.0.0.1:9"]', 'sandbox.libraries=["rlve", "gymnasium"]'
    mixed.create(load("nano", settings))
    keep_world(mixed.store)
    code, told = run_spade("env", "export", mixed.path, tmp_path / "games", "--format", "verifiers")
    assert code == 0, told
    project = tomllib.loads((tmp_path / "games" / "pyproject.toml").read_text())["project"]
    assert {"rlve-gym==0.0.1", "gymnasium==1.4.0", "trio-websocket"} <= set(project["dependencies"])


def test_a_full_disk_is_told_of_the_folder_that_was_asked_for(run, tmp_path, monkeypatch):
    def fail(folder, program):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("spade.app.supervisor.pools.write_program", fail)
    code, told = run_spade("env", "export", run.path, tmp_path / "games", "--format", "gymnasium")
    line = f"spade: {tmp_path / 'games'}: was not made (No space left on device); no part of it remains\n"
    assert (code, told) == (1, line)
    assert not list(tmp_path.iterdir())


def test_a_package_that_was_exported_and_installed_may_be_exported_again(run, tmp_path, monkeypatch):
    code, told = run_spade("env", "export", run.path, tmp_path / "a" / "some-games", "--format", "gymnasium")
    assert code == 0, told
    monkeypatch.syspath_prepend(tmp_path / "a" / "some-games")
    code, told = run_spade("env", "export", run.path, tmp_path / "b" / "some-games", "--format", "gymnasium")
    assert code == 0, told


def test_programs_that_a_package_cannot_play_are_refused(tmp_path):
    for recipe, format, options, says in (
        ("nano-tools", "gymnasium", (), "--format gymnasium: exports games, and the domain of run is tools"),
        ("nano-fixed", "gymnasium", ("--bare",), "--bare: the programs of run need the sandbox for reasoning-gym"),
        ("nano-tools", "harbor", (), "--format harbor: exports games, and the domain of run is tools"),
        ("nano-fixed", "harbor", (), "--format harbor: the programs of run need the sandbox for reasoning-gym"),
    ):
        run = RunDir(tmp_path / recipe / format / "run")
        run.create(load(recipe))
        keep_world(run.store)
        code, told = run_spade("env", "export", run.path, tmp_path / "out", "--format", format, *options)
        assert (code, told) == (1, f"spade: {says}\n")


@pytest.mark.parametrize(
    ("format", "library"),
    [("gymnasium", "gymnasium>=1.4,<2"), ("verifiers", "verifiers>=0.4"), ("openenv", "openenv>=0.10")],
)
@pytest.mark.parametrize("bare", [False, True])
def test_a_package_names_what_it_needs(run, tmp_path, bare, format, library):
    code, told = run_spade(
        "env", "export", run.path, tmp_path / "some-games", "--format", format, *(["--bare"] if bare else [])
    )
    assert code == 0, told
    with (tmp_path / "some-games" / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    ours = ["numpy"] if bare else ["anyio>=4", f"spade-rl=={metadata.version('spade-rl')}"]
    name = "openenv-some-games" if format == "openenv" else "some-games"  # OpenEnv finds its packages by this prefix
    assert (project["name"], project["dependencies"]) == (name, [library, *ours])
    told = (tmp_path / "some-games" / "README.md").read_text()
    assert ("they run in your process with all of its rights" in told) == bare
    assert "MIT License" in (tmp_path / "some-games" / "LICENSE").read_text()
    assert list_names(tmp_path / "some-games" / "some_games" / "programs")


def test_a_package_has_the_prompts_of_its_run(tmp_path):
    run = RunDir(tmp_path / "run")
    run.create(load("games-4b"))
    keep_world(run.store)
    code, told = run_spade("env", "export", run.path, tmp_path / "games", "--format", "verifiers")
    assert code == 0, told
    openings = json.loads((tmp_path / "games/games/settings.json").read_text())["openings"]
    assert [[each["role"] for each in opening] for opening in openings] == [["system", "user"]] * 2
    assert [opening[-1]["content"] for opening in openings] == ["{observation}"] * 2
    several, one = (opening[0]["content"] for opening in openings)
    assert rules.ONE_ANSWER.strip() == one
    assert "turns" in several


def test_a_run_whose_programs_list_no_solution_has_no_task_of_harbor(run, tmp_path):
    code, told = run_spade("env", "export", run.path, tmp_path / "out", "--format", "harbor")
    assert (code, told) == (1, "spade: --format harbor: no program of run lists a solution that wins\n")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["😀 é", "{{ 1 }} 'a' \"b\"", "$(id) `id` \\"])
@pytest.mark.parametrize("format", ["openenv", "hub"])
def test_a_run_may_have_any_name(tmp_path, name, format):
    run = RunDir(tmp_path / name)
    run.create(load("nano"))
    keep_world(run.store)
    code, told = run_spade("env", "export", run.path, tmp_path / "games", "--format", format)
    assert code == 0, told
    if format == "openenv":
        said = tomllib.loads((tmp_path / "games" / "pyproject.toml").read_text())["project"]["description"]
        assert yaml.safe_load((tmp_path / "games" / "openenv.yaml").read_text())["description"] == said
    else:
        said = ModelCard.load(tmp_path / "games" / "README.md").data.to_dict()["pretty_name"]
    assert said == f"Environments of the SPADE run {as_line(name, 80)}"
