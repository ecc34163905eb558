"""Harbor: its checks and its jobs on the tasks that we export. Its containers are bubblewrap's here."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from actors.sandbox import open_sandbox
from actors.text.actions import format_action
from spade.app.rundir import RunDir

SIDES = Path(__file__).with_name("sides")
HARBOR = os.environ["HARBOR"]
"""Harbor's command, which needs a newer Python than ours may be."""
JOB_TASKS = 6
"""Tasks of a job. All tasks are checked."""
QUIET = {"HARBOR_TELEMETRY": "0", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
EPISODES = 200
PLAYER = """
import json, random, sys
from actors.environments.offers import choose
from game.playing import open_program
game = json.load(open("game/game.json"))
rng, plays = random.Random(game["program"]), []
for _ in range(int(sys.argv[1])):
    program, actions = open_program(game["program"]), []
    answers = [(program.reset(game["seed"]), 0.0, False, False)]
    while not (answers[-1][2] or answers[-1][3]):
        actions.append(choose(answers[-1][0], rng, (), ()))
        answers.append(tuple(program.step(actions[-1])))
    plays.append((actions, answers))
print(json.dumps(plays))
"""
"""Plays the game of a container with random actions, without the container."""
LOST = "echo 1 > /logs/verifier/reward.txt; play no-such-action; play no-such-action\n"


def run_harbor(*words):
    given = {**os.environ, **QUIET, "SPADE_PYTHON": sys.executable, "PYTHONPATH": str(SIDES)}
    done = subprocess.run([HARBOR, *map(str, words)], env=given, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_job(tasks, agent, folder):
    """Run a job of Harbor. Return the folder of each trial, by the name of its task, and its reward."""
    job = ("--jobs-dir", folder, "--job-name", agent, "--env", "bubble:BubbleEnvironment", "--n-concurrent", 2)
    run_harbor("run", "--path", tasks, "--agent", agent, *job, "--quiet")
    trials = {}
    for file in sorted((folder / agent).glob("*/result.json")):
        result = json.loads(file.read_text())
        assert result["exception_info"] is None
        trials[result["task_name"].removeprefix("spade/")] = file.parent, result["verifier_result"]["rewards"]["reward"]
    return trials


@pytest.fixture(scope="module")
def tasks(run, run_spade, tmp_path_factory):
    """The exported tasks."""
    folder = tmp_path_factory.mktemp("exported") / "tasks"
    code, told = run_spade("env", "export", run, folder, "--format", "harbor", cwd=folder.parent)
    assert code == 0, told
    return folder


@pytest.fixture(scope="module")
def few(tasks, tmp_path_factory):
    """Some of the tasks."""
    folder = tmp_path_factory.mktemp("few")
    for task in sorted(tasks.glob("*/task.toml"))[:JOB_TASKS]:
        shutil.copytree(task.parent, folder / task.parent.name)
    return folder


def test_harbors_own_check_finds_nothing(tasks):
    assert json.loads(run_harbor("lint", "--json", *[file.parent for file in tasks.glob("*/task.toml")])) == []


def test_the_solution_wins_with_the_answers_of_a_run_and_no_action_wins_nothing(run, tasks, few, tmp_path):
    solved, empty = (run_job(few, agent, tmp_path) for agent in ("oracle", "nop"))
    names = {folder.name for folder in few.iterdir()}
    assert solved.keys() == empty.keys() == names
    assert {reward for _, reward in solved.values()} == {1.0}
    assert {reward for _, reward in empty.values()} == {0.0}

    config = RunDir(run).config()

    async def play_here():
        shown = {}
        async with open_sandbox(config.sandbox) as sandbox:
            for name, (trial, _) in solved.items():
                game = few / name / "environment/game"
                source = (game / f"programs/{name}.py").read_text()
                form = json.loads((game / f"programs/{name}.json").read_text())["lineage"]["reads"]
                seed = json.loads((game / "game.json").read_text())["seed"]
                actions = json.loads((trial / "artifacts/var/game/actions.json").read_text())
                first = await sandbox.open(name, source, seed, config.play.max_turns)
                assert first.observation in (few / name / "instruction.md").read_text()
                lines = []
                for turn, action in enumerate(actions, 1):
                    lines.append((await sandbox.step(name, turn, format_action(action, form))).observation)
                shown[name] = "\n".join([*lines, "The episode is over.", ""])
        return shown

    assert {name: (trial / "agent/oracle.txt").read_text() for name, (trial, _) in solved.items()} == trio.run(
        play_here
    )


def test_random_episodes_of_the_games_are_the_same_as_in_a_run(run, few):
    config = RunDir(run).config()
    folders = [*few.iterdir()]
    there = []
    for folder in folders:
        command = [sys.executable, "-c", PLAYER, str(-(-EPISODES // len(folders)))]
        done = subprocess.run(command, cwd=folder / "environment", capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        there += [(folder, actions, answers) for actions, answers in json.loads(done.stdout)]

    async def play_here():
        found = []
        async with open_sandbox(config.sandbox) as sandbox:
            for folder, actions, _ in there:
                game = folder / "environment/game"
                source = (game / f"programs/{folder.name}.py").read_text()
                form = json.loads((game / f"programs/{folder.name}.json").read_text())["lineage"]["reads"]
                seed = json.loads((game / "game.json").read_text())["seed"]
                answers = [await sandbox.open("one", source, seed, config.play.max_turns)]
                for turn, action in enumerate(actions, 1):
                    answers.append(await sandbox.step("one", turn, format_action(action, form)))
                found.append([[each.observation, each.reward, each.terminated, each.truncated] for each in answers])
        return found

    assert len(there) >= EPISODES
    assert trio.run(play_here) == [answers for *_, answers in there]


def test_a_reward_that_an_agent_writes_counts_for_nothing(few, tmp_path):
    forged = tmp_path / "forged"
    shutil.copytree(next(few.iterdir()), forged / "one")
    (forged / "one/solution/solve.sh").write_text(f"#!/bin/bash\n{LOST}")
    [(_, reward)] = run_job(forged, "oracle", tmp_path).values()
    assert reward == 0.0


def test_no_hint_and_no_solution_is_in_the_agents_container(tasks):
    for task in tasks.glob("*/task.toml"):
        assert not [*(task.parent / "environment").rglob("*.hint")]
        assert 'user = "player"' in task.read_text()
        assert "COPY --chmod=700 game /opt/game" in (task.parent / "environment/Dockerfile").read_text()


def test_a_folder_that_exists_is_one_line(run, run_spade, tasks):
    code, told = run_spade("env", "export", run, tasks, "--format", "harbor", cwd=tasks.parent)
    assert (code, told.count("\n")) == (1, 1)
    assert "exists already; give a new directory" in told
