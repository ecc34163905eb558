"""The command `play` of Harbor's tasks, with a player who bounds it."""

import json
import resource
import subprocess
import sys
from shutil import copyfile

import pytest

import spade.app.pools.packages as packages
from spade.app.pools.harbor import write_tasks
from spade.app.pools.packages import write_player
from spade.config import load
from spade.pools import PoolProgram, ProgramLineage

GAME = """
class AddEnv:
    def reset(self, seed):
        self.said = []
        return "Say something.", {}

    def step(self, action):
        self.said.append(action)
        return " then ".join(self.said), 1.0, len(self.said) == 3, False, {}
"""
PLAY = """
import sys
from pathlib import Path
import game.episode
game.episode.ACTIONS = Path(sys.argv[1]) / "actions.json"
from game.play import play
play(*sys.argv[2:] or [None])
"""


@pytest.fixture
def play(tmp_path):
    """Return a function that sends an action to a game, in a process that may write files of so many bytes."""
    folder = tmp_path / "game"
    lineage = ProgramLineage("0f", "add")
    write_player(folder, iter([PoolProgram("add", GAME, lineage=lineage)]), load("nano"), bare=True)
    (folder / "game.json").write_text(json.dumps({"program": "add", "seed": 1, "win_reward": 1.0}))
    for name in ("episode.py", "play.py"):
        copyfile(packages._MODULES / name, folder / name)

    def send(*action, most=resource.RLIM_INFINITY):
        return subprocess.run(
            [sys.executable, "-P", "-c", PLAY, tmp_path / "kept", *action],
            cwd=tmp_path, env={"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True, text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY)),
        )  # fmt: skip

    return send


def test_an_action_that_cannot_be_kept_is_not_shown_and_takes_no_other_back(play):
    assert play("left").stdout == "left\n"
    refused = play("right", most=3)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.count("\n") == 1
    assert play().stdout == "left\n"


@pytest.mark.parametrize("action", ["", " a\n b ", '"\\`$(id) {{ 1 }}', "\u2028é😀", "--help", "x" * 100_000])
def test_any_text_is_an_action_that_is_kept_as_it_is(play, action):
    assert play(action).stdout == f"{action}\n"
    assert play("end").stdout == f"{action} then end\n"


@pytest.mark.parametrize(("action", "tasks"), [("a 'b'", 1), ("a\0b", 0), ("a" * (128 << 10), 0)])
def test_a_solution_that_no_command_can_send_is_none(action, tasks, tmp_path):
    source = f"""
class SayEnv:
    def reset(self, seed):
        return "Say it.", {{}}

    def step(self, action):
        return "", float(action == {action!r}), True, False, {{}}

    def solution(self):
        return [{action!r}]
"""
    good = PoolProgram("good", source.replace(repr(action), "'left'"), lineage=ProgramLineage("0f", "good"))
    program = PoolProgram("say", source, lineage=ProgramLineage("0f", "say"))
    written = write_tasks(tmp_path / "tasks", iter([good, program]), load("nano"), "a run")
    assert written == (1 + tasks, 1 - tasks)
