"""`spade pool`: import, ls, check, export, and a pool given to a run."""

import json

import pytest
from typer.testing import CliRunner

from actors.corpus import load as load_corpus
from actors.nano.demonstrations import make_demonstration
from actors.nano.games import GAMES
from actors.suites.held_out import read_held_out
from spade.app.cli import app
from spade.app.nano.simulation import SIMULATIONS
from spade.app.rundir import RunDir
from spade.app.supervisor import pools
from spade.app.supervisor.launches import count_actors
from spade.app.supervisor.pools import create, read_config_programs
from spade.config import load
from spade.errors import ConfigError, RunError, SpadeError
from spade.pools import POOL, PoolProgram, make_writing_config, read_list, read_program, write_program
from tests.actors.roles.test_designer import CRASHES, GOOD
from tests.replay.kept_world import keep_world


def run_spade(*words):
    """Exit code and output of a command in this process; an error in the line that `main` makes of it."""
    done = CliRunner().invoke(app, [*map(str, words)])
    if isinstance(done.exception, SystemExit | None):
        return done.exit_code, done.output
    errors = getattr(done.exception, "exceptions", [done.exception])
    assert all(isinstance(error, SpadeError) for error in errors), done.exception
    return 1, done.output + "".join(f"spade: {error}\n" for error in errors)


@pytest.fixture
def source(tmp_path):
    """A folder of two programs, of which one would not pass admission."""
    folder = tmp_path / "plain"
    folder.mkdir()
    (folder / "vault.py").write_text(GOOD)
    (folder / "vault.hint").write_text("Use what is in place.\n")
    (folder / "crash.py").write_text(CRASHES)
    return folder


def test_a_folder_is_checked_imported_and_listed(source, tmp_path):
    code, told = run_spade("pool", "ls", source)
    assert code == 0
    assert [line.split()[:3] for line in told.splitlines()[1:]] == [["crash", "–", "no"], ["vault", "–", "yes"]]
    code, told = run_spade("pool", "check", source)
    assert code == 1
    assert "ZeroDivisionError" in told
    pool = tmp_path / "pool"
    code, told = run_spade("pool", "import", source, "-o", pool)
    assert code == 0, told
    assert "ZeroDivisionError" in told
    assert told.splitlines()[-1] == f"{pool}: 1 of 2 programs of {source}"
    assert read_program(pool, "vault").hint == "Use what is in place."
    code, told = run_spade("pool", "check", pool)
    assert code == 0, told
    assert "admitted" in told


@pytest.mark.parametrize("kind", ["py", "hint", "json"])
def test_a_link_that_leaves_its_pool_is_refused(source, tmp_path, kind):
    secret = tmp_path / "secret"
    secret.write_text((source / "vault.py").read_text())
    (source / f"vault.{kind}").unlink(missing_ok=True)
    (source / f"vault.{kind}").symlink_to(secret)
    with pytest.raises(RunError, match=rf"vault\.{kind}: .*leaves its folder"):
        read_program(source, "vault")
    if kind == "py":
        with pytest.raises(RunError, match="leaves its folder"):
            read_held_out(load("nano", (f"evaluation.suite=folder:{source}",)))
    (source / f"vault.{kind}").unlink()
    (source / "vault.py").unlink(missing_ok=True)
    (source / "deep").mkdir()
    for within in ("crash.py", "deep/crash.py"):  # links within the pool
        (source / "deep" / "crash.py").write_text(CRASHES)
        (source / "vault.py").unlink(missing_ok=True)
        (source / "vault.py").symlink_to(within)
        assert read_program(source, "vault").source == CRASHES


def test_a_pool_with_a_bad_file_is_listed_all_the_same(source):
    (source / "evil.py").symlink_to("evil.py")
    code, told = run_spade("pool", "ls", source)
    assert code == 1
    assert "vault" in told
    assert "Too many levels of symbolic links" in told
    code, told = run_spade("pool", "import", source, "-o", source.parent / "pool")
    assert code == 1
    assert not (source.parent / "pool").exists()
    assert told.count("\n") == 1


def test_a_library_that_is_not_installed_is_one_line(tmp_path):
    code, told = run_spade("pool", "import", "verifiers:easy-sums", "-o", tmp_path / "pool")
    wanted = "verifiers==0.4.0 is supported, none is installed; pip install 'verifiers[ta]==0.4.0'"
    assert (code, told) == (1, f"spade: verifiers: {wanted}\n")
    assert not list(tmp_path.iterdir())


def test_a_runs_environments_are_a_pool_and_its_memory_is_another(tmp_path):
    run = RunDir(tmp_path / "run")
    run.create(load("nano"))
    keep_world(run.store)
    for words, what in ((), "all environments"), (("--memory",), "the memory"):
        out = tmp_path / f"pool{len(words)}"
        code, told = run_spade("pool", "export", run.path, "-o", out, *words)
        assert code == 0, told
        assert f"programs, {what} of {run.path}" in told
        program = read_program(out, read_list(out).entries[0].name)
        assert program.skill is not None
        assert program.hint == "pull the second lever"
        assert program.origin.endswith(" of run")
    assert list(read_config_programs(load("nano", (f"design.seeds=run:{run.path}",)))) == [
        read_program(tmp_path / "pool0", entry.name) for entry in read_list(tmp_path / "pool0").entries
    ]
    empty = RunDir(tmp_path / "empty")
    empty.create(load("nano"))
    with pytest.raises(RunError):
        read_config_programs(load("nano", (f"design.seeds=run:{empty.path}",)))


@pytest.fixture
def worlds(tmp_path):
    """A folder of two of nano's programs with hints, and one that admission rejects."""
    folder = tmp_path / "worlds"
    folder.mkdir()
    documents = load_corpus("builtin")
    for number in range(2):
        shown = make_demonstration(GAMES, SIMULATIONS["games"], 3, number, documents).environment
        program = PoolProgram(f"world{number}", shown.source, shown.hint, "spatial reasoning", "a test")
        write_program(folder, program)
    write_program(folder, PoolProgram("crash", CRASHES, "", None, "a test"))
    return folder


def test_programs_of_a_pool_answer_design_prompts(worlds, tmp_path):
    code, told = run_spade(
        "pool", "demonstrate", f"folder:{worlds}", tmp_path / "out", "--config", "nano", "--prompts", "2"
    )
    assert code == 0, told
    assert told == (
        f"{tmp_path / 'out' / 'train.jsonl'}: 4 designs and 2 hints; left out: 1 programs that admission rejects\n"
    )
    rows = [json.loads(line) for line in (tmp_path / "out" / "train.jsonl").read_text().splitlines()]
    sources = {name: read_program(worlds, name).source for name in ("world0", "world1")}
    assert [row["id"] for row in rows] == [f"world{n}/{which}" for n in range(2) for which in ("0", "1", "hint")]
    for row in rows:
        name, _, which = row["id"].partition("/")
        [asked], [answer] = row["prompt"], row["completion"]
        if which == "hint":
            assert (asked["content"], answer["content"]) == (
                f"Hint for:\n{sources[name]}", read_program(worlds, name).hint
            )  # fmt: skip
            continue
        assert asked["content"].startswith("Design spatial reasoning on ")
        assert answer == {"role": "assistant", "content": sources[name]}
        other = sources["world1" if name == "world0" else "world0"]
        assert (f"Vary:\n{other}" in asked["content"]) == (which == "1")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("folder:none",), "none: No such file or directory"),
        (("reasoning-gym:all",), "'reasoning-gym:all': write folder:DIR, run:RUN or shipped:POOL"),
        (("shipped:large",), "no pool named 'large' ships"),
        (
            ("shipped:small", "--config", "nano-fixed-pool"),
            "--config: give a recipe of games in which the model designs",
        ),
        (("shipped:small", "--config", "nano-tools"), "--config: give a recipe of games in which the model designs"),
        (("shipped:small", "--config", "smol-both"), "model.path: models/smollm2-warm is not here"),
        (("WORLDS", "--set", "design.max_tokens=2"), "no program answers a prompt of nano; left out: "),
    ],
)
def test_what_cannot_be_demonstrated_is_one_line(worlds, tmp_path, monkeypatch, words, line):
    monkeypatch.chdir(tmp_path)
    given = [f"folder:{worlds}" if word == "WORLDS" else word for word in words]
    config = () if "--config" in given else ("--config", "nano")
    code, told = run_spade("pool", "demonstrate", given[0], "out", *given[1:], *config)
    assert (code, told.count("\n")) == (1, 1), told
    assert line in told
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        (("design.source=pool",), "pool.source: design.source = 'pool' needs one"),
        (("design.seeds=x",), "design.seeds: write folder:DIR, run:RUN or shipped:POOL, is 'x'"),
        (
            ("design.source=pool", "pool.source=folder:x", "design.seeds=folder:x"),
            "design.seeds: nobody designs with design.source = 'pool'; leave it out",
        ),
        (("pool.source=folder:x",), "pool.source: is played only with design.source = 'pool'"),
        (
            ("design.source=pool", "pool.source=hub:x"),
            "pool.source: write folder:DIR, run:RUN or shipped:POOL, or a library .* is 'hub:x'",
        ),
        (("design.source=pool", "pool.source=suite:aime"), "pool.source: 'suite:aime' is a test"),
        (("design.source=pool", "pool.source=rlve:all"), r"sandbox.libraries: lacks 'rlve' .*; set it to \[\"rlve\"\]"),
        (("design.source=pool", "pool.source=folder:x", "pool.difficulty=2"), "only libraries have levels"),
        (("design.source=pool", "pool.source=folder:x", "pool.difficulty=window"), "only libraries have levels"),
        (
            ("design.source=pool", "pool.source=folder:x", "pool.reward=score"),
            "pool.reward: only programs of reasoning-gym, rlve, gem give a score; pool.source is 'folder:x'",
        ),
        (("design.seeds=rlve:all",), "design.seeds: write folder:DIR, run:RUN or shipped:POOL, is 'rlve:all'"),
        (
            ("design.source=pool", "pool.source=folder:x", "endpoint.url=http://a/v1", 'endpoint.roles=["agent"]'),
            "a run of a pool trains nothing else",
        ),
        (("design.source=pool", "pool.source=folder:"), "pool.source: write folder:DIR, run:RUN or shipped:POOL"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(settings, line):
    with pytest.raises(ConfigError, match=line):
        load("nano", settings)


def test_a_run_of_a_pool_has_curators_and_no_designers(source):
    counts = count_actors(load("nano", ("design.source=pool", f"pool.source=folder:{source}")))
    assert (counts["curator"], counts["designer"]) == (1, 0)
    counts = count_actors(load("nano"))
    assert (counts["curator"], counts["designer"]) == (0, 1)


def test_a_run_has_a_copy_of_its_pool_and_keeps_its_source(source, tmp_path):
    given = ("design.source=pool", f"pool.source=folder:{source}")
    config, run = load("nano", given), RunDir(tmp_path / "run")
    create(run, config)
    (source / "vault.py").unlink()
    create(run, config)
    assert {entry.name for entry in read_list(run.path / POOL).entries} == {"vault", "crash"}
    for other in load("nano"), load("nano", ("design.source=pool", "pool.source=folder:elsewhere")):
        with pytest.raises(RunError, match=r"was started with design\.source = 'pool'"):
            create(run, other)


def test_a_source_that_cannot_be_read_makes_no_run(source, tmp_path):
    run = RunDir(tmp_path / "run")
    wrong, right = (load("nano", ("design.source=pool", f"pool.source=folder:{each}")) for each in ("no", source))
    with pytest.raises(RunError, match="no: No such file or directory"):
        create(run, wrong)
    assert not run.exists
    create(run, right)
    assert len(read_list(run.path / POOL).entries) == 2


def test_a_command_that_was_killed_before_the_run_leaves_no_pool_to_another(source, tmp_path, monkeypatch):
    def killed(*_):
        raise KeyboardInterrupt

    run, other = RunDir(tmp_path / "run"), tmp_path / "other"
    other.mkdir()
    (other / "lock.py").write_text(GOOD)
    monkeypatch.setattr(RunDir, "create", killed)
    with pytest.raises(KeyboardInterrupt):
        create(run, load("nano", ("design.source=pool", f"pool.source=folder:{source}")))
    monkeypatch.undo()
    create(run, load("nano", ("design.source=pool", f"pool.source=folder:{other}")))
    assert [entry.name for entry in read_list(run.path / POOL).entries] == ["lock"]


def test_nothing_is_made_for_a_pool_with_a_program_that_cannot_be_read(source):
    (source / "vault.py").write_bytes(b"\xff\xfe")
    code, told = run_spade("pool", "make", "nano", "--count", "2", "-o", source)
    assert (code, told) == (1, f"spade: {source / 'vault.py'}: is not UTF-8 text\n")


def test_config_check_counts_the_programs_and_refuses_a_bad_pool(source):
    words = ("config", "check", "nano", "--set", "design.source=pool", "--set", f"pool.source=folder:{source}")
    code, told = run_spade(*words)
    assert (code, "2 programs in the pool" in told) == (0, True)
    (source / "vault.py").write_bytes(b"\xff\xfe")
    code, told = run_spade(*words)
    assert code == 1
    assert "vault.py: is not UTF-8 text" in told


def test_curators_join_with_the_pool_of_the_run_alone():
    code, told = run_spade("actors", "up", "--connect", "ipc:///nowhere", "--curators", "1")
    assert code == 1
    assert told == "spade: --curators: give the run's pool: --set design.source=pool --set pool.source=folder:DIR\n"


@pytest.mark.parametrize(("name", "why"), [
    ("a\nb", r"b/\.make: its path holds unprintable characters; choose another --out"),
    ("run", r"run: is a run, so it cannot be a pool; choose another --out"),
])  # fmt: skip
def test_a_pool_is_not_made_in_a_folder_that_cannot_be_one(tmp_path, name, why):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.toml").touch()
    with pytest.raises(RunError, match=why):
        pools.make(tmp_path / name, make_writing_config("nano", ()), 1, print)
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")] == ["run", "run/config.toml"]


def test_a_pool_goes_on_after_a_kill_before_the_first_commit_of_its_run(tmp_path, monkeypatch):
    config = make_writing_config("nano", ())
    run = RunDir(tmp_path / "made" / ".make")
    run.create(config)
    run.store.mkdir()

    def begin(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(pools, "load_grounds", begin)
    with pytest.raises(KeyboardInterrupt):
        pools.make(tmp_path / "made", config, 1, print)
