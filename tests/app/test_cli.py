import json
import os
import random
import select
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spade import config
from spade.app.cli import GROUPS, app
from spade.app.commands.env.programs import _tell_verdict
from spade.app.commands.options import parse_seconds, read_command_limits
from spade.errors import ConfigError
from spade.protocol import Verdict
from spade.text import make_visible
from tests.actors.odd_programs import BOXED, SEARCH

HEAVY = {"torch", "transformers", "zmq", "lmdb", "trio", "numpy"}
HELP = {*HEAVY, "rich", "msgspec", "spade.config", "spade.protocol"}


@pytest.mark.parametrize(("words", "heavy"), [
    *((words, HELP) for words in (["--help"], ["up", "--help"], ["env", "--help"], ["replay", "--help"])),
    (["config", "show", "nano"], HEAVY),
    (["config", "show", "nano", "--help-fields"], HEAVY),
    (["config", "check", "nano"], {"torch", "transformers", "lmdb"}),
])  # fmt: skip
def test_light_commands_load_nothing_heavy(words, heavy):
    code = (
        "import sys\nfrom spade.app.cli import main\n"
        f"sys.argv = ['spade', *{words!r}]\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        f"heavy = {heavy!r} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("words", [[], *([group] for group in GROUPS)])
def test_a_list_of_commands_fits_80_columns_uncut(words):
    listed = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "80"}).stdout
    _, commands = listed.split("Commands:")
    assert "..." not in commands


@pytest.mark.parametrize(("words", "says"), [
    (["config", "show", "nowhere"], "nowhere"),
    (["config", "check", "nano", "--set", "learner.lrr=1"], "unknown setting learner.lrr"),
    (["config", "check", "nano", "--set", "learner.lr=fast"], "nano: learner.lr: must be a number"),
    (["config", "check", "broken.toml"], "broken.toml: is not TOML"),
    (["config", "check", "nano", "--set", "design.corpus=no.jsonl"], "design.corpus: no.jsonl: No such file"),
    (["config", "check", "."], ".: Is a directory"),
    (["config", "check", "no_text"], "is not UTF-8 text"),
    (["corpus", "build", "nowhere"], "nowhere"),
    (["corpus", "build", "broken.toml"], "broken.toml: is not TOML"),
    (["corpus", "show", "no_text"], "no_text, line 1: "),
    (["corpus", "show", "builtin", "--index", "230"], "--index 230: builtin has 230 documents"),
    (["up", "games-4b", "--headless"], "`spade corpus build games` makes it"),
    (["up", "tools-4b", "--headless"], "`spade corpus build tools` makes it"),
    (["replay", "up", "games-4b"], "`spade corpus build games` makes it"),
    (["actors", "up", "games-4b", "--connect", "ipc:///nowhere", "--designers", "1"], "`spade corpus build games`"),
    (["up", "--for", "soon"], "soon"),
    (["up", "--run", "no_text", "--headless"], "no_text: Not a directory"),
    (["up", "--run", "/proc/version/run", "--headless"], "/proc/version/run: Not a directory"),
    (["status", "nothing"], "no run here"),
    (["status", "no_text"], "is a file; give a run directory"),
    (["stop", "nothing"], "no run here"),
    (["top", "nothing"], "no run here"),
    (["env", "ls", "nothing"], "no run here"),
    (["env", "play", "nothing.py"], "nothing.py: no such file; an id needs --run"),
    (["model", "export", "nothing", "out"], "no run here"),
    (["learner", "up", "nothing"], "no run here"),
    (["actors", "up", "--connect", "ipc:///nowhere"], "nothing to start"),
    (["actors", "up", "--connect", "ipc://no", "--designers", "1", "--curators", "1"], "--designers, --curators: "),
    (["actors", "up", "--connect", "tcp://10.0.0.1:5555", "--agents", "1"], "needs keys: `spade keys new DIR`"),
    (["up", "--set", "bus.bind=tcp://10.0.0.1:5555"], "needs keys: `spade keys new DIR`"),
    (["up", "--set", "bus.bind=tcp://127.0.0.1:5555", "--set", "bus.keys=none", "--headless"], "is missing"),
    (["keys", "ls", "nothing"], "is missing or is not a key"),
    (["keys", "new", "/proc/keys"], "cannot be written"),
    (["keys", "new", "keys", ".."], "is not a valid host name"),
    (["keys", "new", "keys", "far", "--roles", "agent,king"], "--roles: 'king' is not a role; there are replay,"),
    (["actors", "scale", "nothing", "agents=2"], "no run here"),
    (["actors", "drain", "nothing", "agent-0"], "no run here"),
    (["actors", "ls", "nothing"], "no run here"),
    (["why", "nothing"], "no run here"),
    *((["replay", *words], "no run here") for words in (["stats", "nothing"], ["verify", "nothing"])),
    *((["replay", *words], "no run here") for words in (["lineage", "nothing", "1"], ["compact", "nothing"])),
])  # fmt: skip
def test_a_failure_is_one_line_and_a_non_zero_exit(spade, tmp_path, words, says):
    (tmp_path / "no_text").write_bytes(b"\xff\xfe")
    (tmp_path / "broken.toml").write_text("[learner\n")
    done = spade(*words, cwd=tmp_path)
    assert done.returncode == 1
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "nothing").exists()
    assert not list((tmp_path / "runs").glob("*-4b"))


def test_config_ls_names_every_recipe(spade):
    listed = spade("config", "ls").stdout
    for recipe in ("nano", "games-4b", "games-8b", "games-30b"):
        assert recipe in listed


def test_a_config_shown_with_the_documentation_of_its_fields_is_toml_of_the_same_config(spade, tmp_path):
    words = ("config", "show", "games-8b", "--set", "run.seed=7", "--set", "learner.threads=2")
    shown = spade(*words, "--help-fields").stdout
    (tmp_path / "shown.toml").write_text(shown)
    assert config.load(str(tmp_path / "shown.toml")) == config.load("games-8b", ("run.seed=7", "learner.threads=2"))
    assert "# Learning rate of AdamW" in shown
    assert "\x1b" not in shown


def test_config_check_says_who_gets_which_gpus(spade):
    said = spade("config", "check", "games-30b", "--set", "design.corpus=builtin", "--set", "evaluation.suite=").stdout
    assert "; GPUs: engine-0 0, 1; engine-1 2, 3; learner 4; learner-1 5; learner-2 6; learner-3 7\n" in said


def test_actors_of_another_host_may_have_the_gpus_of_the_recipes_learner(spade, tmp_path):
    overrides = ("engine.gpus=[0,1,2,3,4,5,6,7]", "bus.call_deadline_s=0.1")
    words = ("actors", "up", "games-4b", "--connect", "ipc://nowhere", "--engines", "8", "--run", "run")
    done = spade(*words, *(word for one in overrides for word in ("--set", one)), cwd=tmp_path)
    assert "ipc://nowhere: no answer" in done.stderr
    joined = config.load(str(tmp_path / "run" / "config.toml"))
    assert (joined.engine.gpus, joined.learner.gpus) == (tuple(range(8)), ())


def test_keys_are_made_once_and_listed(spade, tmp_path):
    assert "keys/hosts/far: move this folder to far" in spade("keys", "new", "keys", "far", cwd=tmp_path).stdout
    assert "has its keys already" in spade("keys", "new", "keys", cwd=tmp_path).stdout
    spade("keys", "new", "keys", "narrow", "--roles", "agent, engine", cwd=tmp_path)
    done = spade("keys", "ls", "keys", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    listed = [line.split() for line in done.stdout.splitlines()]
    assert [words[1] for words in listed] == ["far", "local", "narrow"]
    assert [listed[0][2], listed[2][2]] == [
        "agent,curator,designer,endpoint,engine,env-runner,supervisor", "agent,engine,supervisor"
    ]  # fmt: skip
    for name in ("server.key_secret", "hosts/far/client.key_secret"):
        (tmp_path / "keys" / name).chmod(0o644)
    done = spade("keys", "ls", "keys", cwd=tmp_path)
    assert (done.returncode, len(done.stdout.splitlines())) == (1, 3)
    assert [line.partition(";")[0] for line in done.stderr.splitlines()] == [
        f"keys/{name}: others may read this secret" for name in ("hosts/far/client.key_secret", "server.key_secret")
    ]
    (tmp_path / "keys" / "allowed").chmod(0o777)
    done = spade("keys", "ls", "keys", cwd=tmp_path)
    assert "keys/allowed: others may change the keys here; `chmod go-w keys/allowed`" in done.stderr


@pytest.mark.parametrize(("text", "expected"), [("90s", 90), ("10m", 600), ("2h", 7200), ("1.5m", 90), ("7", 7)])
def test_times_as_people_write_them(text, expected):
    assert parse_seconds(text) == expected


@pytest.mark.parametrize("text", ["", "0s", "m", "-3s", "ten"])
def test_a_time_that_is_none_is_refused(text):
    with pytest.raises(ConfigError, match="--for"):
        parse_seconds(text)


def test_env_check_has_a_verdict_for_each_stage_and_an_exit_code(spade, tmp_path):
    # Among a thousand numbers no luck helps random play.
    search = SEARCH.replace("(1, 31)", "(1, 1001)").replace("1..30", "1..1000")
    (tmp_path / "good.py").write_text(search)
    (tmp_path / "bad.py").write_text(search.replace("[str(self.goal)]", "['0']"))
    (tmp_path / "mended.py").write_text(search.replace('"Find the number', 'f"Find the number, {guess}'))
    files = ("nothing.py", "good.py", "bad.py")
    # A call that took half of its time would count against the program.
    patient = ("--set", "sandbox.load_s=60", "--set", "sandbox.step_s=60")
    done = spade("env", "check", *files, "--json", "--set", "play.max_turns=4", *patient, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, "")
    nothing, good, bad = json.loads(done.stdout)
    assert (nothing["passed"], nothing["stages"][-1]["name"]) == (False, "read")
    assert (good["passed"], good["name"], good["stages"][-1]["name"]) == (True, "SearchEnv", "effect")
    assert (bad["passed"], bad["stages"][-1]["name"]) == (False, "solution")
    assert "does not win" in bad["stages"][-1]["reason"]
    assert good["repairs"] == []
    told = spade("env", "check", "good.py", "mended.py", *patient, cwd=tmp_path)
    assert told.returncode == 0
    sound, mended = told.stdout.split("mended.py")
    assert "admitted" in sound
    assert "repeatable" in sound
    assert "repaired" not in sound
    assert mended.split()[-3:] == ["repaired", "f-string", "braces"]


def test_env_check_has_one_verdict_for_one_file(spade, tmp_path):
    for name in ("one.py", "other.py"):
        (tmp_path / name).write_text(SEARCH)
    patient = ("--set", "sandbox.load_s=60", "--set", "sandbox.step_s=60")
    checked = json.loads(spade("env", "check", "one.py", "other.py", "--json", *patient, cwd=tmp_path).stdout)
    one, other = ([stage["reason"] for stage in each["stages"] if stage["name"] != "budget"] for each in checked)
    assert one == other
    assert checked[0]["first_observation"] == checked[1]["first_observation"]


def test_env_check_shows_each_verdict_before_the_next_program_is_admitted(tmp_path):
    """An interrupt after many programs would else lose all verdicts."""
    (tmp_path / "endless.py").write_text("while True:\n    pass\n")
    command = [sys.executable, "-m", "spade.app.cli", "env", "check", "missing.py", "endless.py"]
    patient = ["--set", "sandbox.load_s=600", "--set", "sandbox.step_s=50"]
    with subprocess.Popen([*command, *patient], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            ready, _, _ = select.select([process.stdout], [], [], 120)
            assert ready, "no verdict was shown while a program was loading"
            assert process.stdout.readline().startswith("rejected  missing.py")
        finally:
            process.terminate()


def test_env_check_names_the_values_that_a_solution_has_from_nowhere(capsys):
    _tell_verdict((Path("desk.py"), "tools", Verdict(True, (), "DeskEnv", suspects=("42", "R\x1b7"))))
    told = capsys.readouterr().out.splitlines()
    words = r"42, R\x1b7: the solution uses these words before any text states them"
    assert told[1].split(maxsplit=1) == ["suspects", words]


@pytest.mark.parametrize(("said", "shown"), [
    ("2 × ½ → \t„x“\n[red]", "2 × ½ → \t„x“\n[red]"), ("\x1b[2J\a\r\x7f\x9b", r"\x1b[2J\x07\r\x7f\x9b"),
])  # fmt: skip
def test_the_text_of_a_program_does_not_steer_the_terminal(said, shown):
    assert make_visible(said) == shown


@pytest.mark.parametrize("typed", ["{}", "I say \\boxed{{{}}}"])
@pytest.mark.parametrize("source", [SEARCH, BOXED], ids=["inside", "box"])
def test_env_play_sends_a_file_what_it_reads(spade, tmp_path, source, typed):
    (tmp_path / "search.py").write_text("import random\n" + source)
    goal = random.Random(3).randrange(1, 31)
    done = spade("env", "play", "search.py", "--seed", "3", cwd=tmp_path, typed=typed.format(goal) + "\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert "won in 1 turns" in done.stdout


def test_env_play_is_played_behind_the_walls(spade, tmp_path):
    # Its text cannot clear the screen either.
    spy = SEARCH.replace("self.turn += 1", "open('/etc/passwd')").replace("Find the", "\\x1b[2JFind the")
    (tmp_path / "spy.py").write_text(spy)
    done = spade("env", "play", "spy.py", cwd=tmp_path, typed="5\n")
    assert done.returncode == 1
    assert r"\x1b[2JFind the number" in done.stdout
    assert "the environment failed in turn 1: exception" in done.stderr


def test_env_play_takes_an_action_that_is_typed_without_a_box(spade, tmp_path):
    (tmp_path / "search.py").write_text(SEARCH.replace("max_turns: int = 4", "max_turns: int = 64"))
    done = spade(
        "env", "play", "search.py", "--set", "play.max_turns=64", cwd=tmp_path, typed="\n".join(map(str, range(64)))
    )
    assert "won in" in done.stdout, done.stdout + done.stderr


def test_limits_of_a_command_are_bounded_like_those_of_a_run():
    assert read_command_limits(20, None, "90s") == config.Limits(steps=20, seconds=90.0)
    for given, told in (
        ((2**31, None, None), "--steps: is too large, at most 2147483647"),
        ((None, 2**40, None), "--rollouts: is too large"), ((None, None, "999999999h"), "--for: is too large"),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=told):
            read_command_limits(*given)


@pytest.mark.parametrize("command", [[Path(sys.executable).with_name("spade")], [sys.executable, "-m", "spade"]])
def test_the_version_is_the_packages(command):
    done = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, f"spade {metadata.version('spade-rl')}\n")


@pytest.mark.parametrize("command", [[Path(sys.executable).with_name("spade")], [sys.executable, "-m", "spade"]])
@pytest.mark.parametrize(("words", "completed"), [("spade en", "env"), ("spade pool imp", "import")])
def test_a_shell_completes_commands(command, words, completed):
    asked = {"_SPADE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    done = subprocess.run(command, env=os.environ | asked, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == [completed]
