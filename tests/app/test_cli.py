import subprocess
import sys

import pytest

from spade.app.cli import _seconds
from spade.errors import ConfigError


def spade(*words, cwd=None):
    return subprocess.run(
        [sys.executable, "-m", "spade.app.cli", *words], capture_output=True, text=True, cwd=cwd, timeout=60
    )


@pytest.mark.parametrize("words", [["--help"], ["up", "--help"], ["env", "--help"], ["config", "check", "nano"]])
def test_light_commands_load_nothing_heavy(words):
    code = (
        "import sys\nfrom spade.app.cli import main\n"
        f"sys.argv = ['spade', *{words!r}]\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        "heavy = {'torch', 'transformers', 'zmq', 'lmdb', 'trio', 'numpy'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["config", "show", "nowhere"], "nowhere"),
        (["config", "check", "nano", "--set", "learner.lrr=1"], "lrr"),
        (["up", "--for", "soon"], "soon"),
        (["status", "nothing"], "no run here"),
        (["stop", "nothing"], "no run here"),
        (["top", "nothing"], "no run here"),
        (["env", "ls", "nothing"], "no run here"),
        (["env", "check", "nothing.py"], "nothing.py"),
        (["env", "play", "nothing.py"], "nothing.py"),
        (["model", "export", "nothing", "out"], "no run here"),
        (["learner", "up", "nothing"], "no run here"),
        (["actors", "up", "--connect", "ipc:///nowhere"], "nothing to start"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_a_non_zero_exit(tmp_path, words, says):
    done = spade(*words, cwd=tmp_path)
    assert done.returncode == 1
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr


def test_config_ls_names_every_recipe():
    listed = spade("config", "ls").stdout
    for recipe in ("nano", "games-4b", "games-8b", "games-30b"):
        assert recipe in listed


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("10m", 600), ("2h", 7200), ("1.5m", 90), ("7", 7)])
def test_times_as_people_write_them(text, seconds):
    assert _seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "0s", "m", "-3s", "ten"])
def test_a_time_that_is_none_is_refused(text):
    with pytest.raises(ConfigError, match="--for"):
        _seconds(text)
