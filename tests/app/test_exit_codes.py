"""The exit codes of commands are those of the table in docs/commands.md, whenever Ctrl-C is pressed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from spade.app.cli import ExitCode
from tests.actors.odd_programs import SEARCH

PAGE = (Path(__file__).parents[2] / "docs/commands.md").read_text()
# Ctrl-C while the module is imported.
PRESS = """
import os, signal, sys
class Press:
    def find_spec(self, name, path, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Press())
from spade.__main__ import main
main()
"""


def press(cwd, module, *words):
    code = PRESS.format(module=module)
    return subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, cwd=cwd, timeout=120)


def test_the_page_lists_each_exit_code_and_no_other():
    table = PAGE.partition("## Exit codes")[2].partition("\n## ")[0]
    assert [int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)] == list(ExitCode)


@pytest.mark.parametrize(
    ("words", "code"),
    [("--version", 0), ("config ls", 0), ("status nothing", 1), ("stattus", 2), ("status", 2), ("up --steps x", 2)],
)
def test_a_command_exits_with_a_code_of_the_table(spade, words, code):
    done = spade(*words.split())
    assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr


@pytest.mark.parametrize(
    "module", ["typer", "typer.core", "spade.app.commands", "spade.errors", "spade.processes.logs"]
)
def test_ctrl_c_ends_a_command_that_is_still_importing(tmp_path, module):
    done = press(tmp_path, module, "status", "nothing")
    assert (done.returncode, done.stdout, done.stderr) == (ExitCode.INTERRUPTED, "", "")


@pytest.mark.parametrize("words", [
    "status RUN", "top RUN", "why RUN", "stop RUN", "track RUN --to tensorboard", "report RUN", "env ls RUN",
    "env check good.py", "replay verify RUN", "config show nano", "up nano --run new", "serve nano --port 0",
    "eval run nano --suite nano", "pool make nano -o pool", "experiment run grid.toml", "model export RUN out",
])  # fmt: skip
def test_ctrl_c_ends_each_command_with_one_code(tmp_path, words):
    """All of them read a config, or the run that is not there."""
    (tmp_path / "good.py").write_text(SEARCH)
    (tmp_path / "grid.toml").write_text("")
    done = press(tmp_path, "msgspec", *words.split())
    assert (done.returncode, done.stdout, done.stderr) == (ExitCode.INTERRUPTED, "", "")


def test_ctrl_c_leaves_a_play_with_the_same_code(tmp_path):
    (tmp_path / "good.py").write_text(SEARCH)
    done = press(tmp_path, "actors.environments.forms", "env", "play", "good.py")
    assert (done.returncode, "Traceback" in done.stderr) == (ExitCode.INTERRUPTED, False), done.stderr
