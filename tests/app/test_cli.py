import json
import subprocess
import sys

import pytest

from spade import config
from spade.app.options import seconds
from spade.errors import ConfigError
from spade.text import visible
from tests.actors.odd_programs import SEARCH


def spade(*words, cwd=None):
    return subprocess.run(
        [sys.executable, "-m", "spade.app.cli", *words], capture_output=True, text=True, cwd=cwd, timeout=600
    )


HEAVY = {"torch", "transformers", "zmq", "lmdb", "trio", "numpy"}


@pytest.mark.parametrize(
    ("words", "heavy"),
    [
        *((words, HEAVY) for words in (["--help"], ["up", "--help"], ["env", "--help"], ["replay", "--help"])),
        (["config", "show", "nano"], HEAVY),
        (["config", "check", "nano"], {"torch", "transformers", "lmdb"}),
    ],
)
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


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["config", "show", "nowhere"], "nowhere"),
        (["config", "check", "nano", "--set", "learner.lrr=1"], "unknown setting learner.lrr"),
        (["config", "check", "nano", "--set", "learner.lr=fast"], "learner.lr: Expected `float`"),
        (["config", "check", "broken.toml"], "broken.toml: is no TOML"),
        (["config", "check", "nano", "--set", "design.corpus=no.jsonl"], "design.corpus: no.jsonl: No such file"),
        (["config", "check", "."], ".: Is a directory"),
        (["config", "check", "no_text"], "is no UTF-8 text"),
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
        (["actors", "up", "--connect", "tcp://10.0.0.1:5555", "--agents", "1"], "needs keys: `spade keys new DIR`"),
        (["up", "--set", "bus.bind=tcp://10.0.0.1:5555"], "needs keys: `spade keys new DIR`"),
        (["up", "--set", "bus.bind=tcp://127.0.0.1:5555", "--set", "bus.keys=none", "--headless"], "is missing"),
        (["keys", "ls", "nothing"], "is missing or no key"),
        (["keys", "new", "/proc/keys"], "cannot be written"),
        (["keys", "new", "keys", ".."], "is no name for a host"),
        (["keys", "new", "keys", "far", "--roles", "agent,king"], "--roles: 'king' is no role; there are replay,"),
        (["actors", "scale", "nothing", "agents=2"], "no run here"),
        (["actors", "drain", "nothing", "agent-0"], "no run here"),
        (["actors", "ls", "nothing"], "no run here"),
        (["why", "nothing"], "no run here"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_a_non_zero_exit(tmp_path, words, says):
    (tmp_path / "no_text").write_bytes(b"\xff\xfe")
    (tmp_path / "broken.toml").write_text("[learner\n")
    done = spade(*words, cwd=tmp_path)
    assert done.returncode == 1
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr


def test_config_ls_names_every_recipe():
    listed = spade("config", "ls").stdout
    for recipe in ("nano", "games-4b", "games-8b", "games-30b"):
        assert recipe in listed


def test_config_check_says_who_gets_which_gpus():
    said = spade("config", "check", "games-30b").stdout
    assert said.endswith("; GPUs: engine-0 0, 1; engine-1 2, 3; learner 4, 5, 6, 7\n")


def test_actors_of_another_host_may_have_the_gpus_of_the_recipes_learner(tmp_path):
    overrides = ("engine.gpus=[0,1,2,3,4,5,6,7]", "bus.call_deadline_s=0.1")
    words = ("actors", "up", "games-4b", "--connect", "ipc://nowhere", "--engines", "8", "--run", "run")
    done = spade(*words, *(word for one in overrides for word in ("--set", one)), cwd=tmp_path)
    assert "ipc://nowhere: no answer" in done.stderr
    joined = config.load(str(tmp_path / "run" / "config.toml"))
    assert (joined.engine.gpus, joined.learner.gpus) == (tuple(range(8)), ())


def test_keys_are_made_once_and_listed(tmp_path):
    assert "keys/hosts/far: move this folder to far" in spade("keys", "new", "keys", "far", cwd=tmp_path).stdout
    assert "has its keys already" in spade("keys", "new", "keys", cwd=tmp_path).stdout
    spade("keys", "new", "keys", "narrow", "--roles", "agent, engine", cwd=tmp_path)
    listed = [line.split() for line in spade("keys", "ls", "keys", cwd=tmp_path).stdout.splitlines()]
    assert [words[1] for words in listed] == ["far", "local", "narrow"]
    assert [listed[0][2], listed[2][2]] == [
        "agent,designer,endpoint,engine,env-runner,supervisor", "agent,engine,supervisor"
    ]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), [("90s", 90), ("10m", 600), ("2h", 7200), ("1.5m", 90), ("7", 7)])
def test_times_as_people_write_them(text, expected):
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "0s", "m", "-3s", "ten"])
def test_a_time_that_is_none_is_refused(text):
    with pytest.raises(ConfigError, match="--for"):
        seconds(text)


def test_env_check_has_a_verdict_for_each_stage_and_an_exit_code(tmp_path):
    # The seeds are new each time: among a thousand numbers no luck helps random play.
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


@pytest.mark.parametrize(
    ("said", "shown"),
    [("2 × ½ → \t„x“\n[red]", "2 × ½ → \t„x“\n[red]"), ("\x1b[2J\a\r\x7f\x9b", r"\x1b[2J\x07\r\x7f\x9b")],
)
def test_what_a_program_says_does_not_steer_the_terminal(said, shown):
    assert visible(said) == shown


def test_env_play_is_played_behind_the_walls(tmp_path):
    # Its text cannot clear the screen either.
    spy = SEARCH.replace("self.turn += 1", "open('/etc/passwd')").replace("Find the", "\\x1b[2JFind the")
    (tmp_path / "spy.py").write_text(spy)
    done = subprocess.run(
        [sys.executable, "-m", "spade.app.cli", "env", "play", "spy.py"],
        input="5\n", capture_output=True, text=True, cwd=tmp_path, timeout=600,
    )  # fmt: skip
    assert done.returncode == 1
    assert r"\x1b[2JFind the number" in done.stdout
    assert "the environment failed in turn 1: exception" in done.stderr
