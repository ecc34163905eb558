"""verifiers: its commands on what `spade env export --format verifiers` writes, with episodes as in a run."""

import importlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx2
import pytest
import trio
import verifiers.v1 as vf

from actors.environments.offers import choose
from actors.sandbox import open_sandbox
from actors.text.actions import find_action, format_action
from spade.app.rundir import RunDir
from spade.returns import compute_episode_return

EPISODES = 200
STARTED_S = 300
KINDS = ("some_walls", "some_bare")


@pytest.fixture(scope="module", params=KINDS)
def package(request, run, run_spade, install, installed):
    """A package of the run, installed. Its commands find it below `installed`."""
    folder = installed / "sources" / request.param.replace("_", "-")
    options = ["--bare"] if request.param == "some_bare" else []
    code, told = run_spade("env", "export", run, folder, "--format", "verifiers", *options, cwd=installed)
    assert code == 0, told
    install(folder, installed)
    return importlib.import_module(request.param)


@pytest.fixture(scope="module")
def served(run):
    """The address at which the run's policy answers."""
    command = (sys.executable, "-P", "-m", "spade.app.cli", "serve", run, "--port", "0")
    with subprocess.Popen([*map(str, command)], cwd=run.parent, stdout=subprocess.PIPE, text=True) as server:
        try:
            url = next(found[0] for line in server.stdout if (found := re.search(r"http://\S+/v1", line)))
            until = time.monotonic() + STARTED_S
            while httpx2.get(f"{url.removesuffix('/v1')}/health").status_code != 200:
                assert time.monotonic() < until, "no engine answers"
                time.sleep(0.5)
            yield url
        finally:
            server.send_signal(signal.SIGINT)


def call(command, *words, installed):
    """Run a command of verifiers."""
    places = {"PYTHONPATH": str(installed), "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    words = [
        f"{Path(sys.executable).parent}/{command}",
        *map(str, words),
        "--no-rich",
        "-o",
        str(installed / "outputs"),
    ]
    done = subprocess.run(words, env={**os.environ, **places, "KEY": "-"}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def play_in_sandbox(run, plays):
    """Play (program, seed, actions) in our own sandbox. Return for each play the answers that it got."""
    config = RunDir(run).config()

    async def play():
        answers = []
        async with open_sandbox(config.sandbox) as sandbox:
            for program, seed, actions in plays:
                played = [await sandbox.open("one", program.source, seed, config.play.max_turns)]
                for turn, action in enumerate(actions, 1):
                    sent = format_action(action, program.lineage["reads"])
                    played.append(await sandbox.step("one", turn, sent))
                answers.append([(each.observation, each.reward, each.terminated, each.truncated) for each in played])
        return answers

    return trio.run(play)


def test_the_library_loads_the_taskset_and_the_environment(package):
    name = package.__name__
    exported = [getattr(package, each) for each in package.__all__]
    assert [sum(issubclass(each, kind) for each in exported) for kind in (vf.Taskset, vf.Env)] == [1, 1]
    config = vf.taskset_config_type(name)(id=name, instances=2, seed=5)
    tasks = [*vf.load_taskset(config)]
    assert [task.data.seed for task in tasks] == [5] * (len(tasks) // 2) + [6] * (len(tasks) // 2)
    assert all(task.data.lineage["environment"] and task.data.hint for task in tasks)
    env = vf.load_environment(vf.resolve_env_config({"taskset": {"id": name}}))
    assert isinstance(env, package.TaskEnv)


def test_the_librarys_own_check_passes(package, installed):
    told = call("vf-validate", package.__name__, "-n", 8, "--runtime.type", "subprocess", installed=installed)
    assert json.loads(told[told.index("{") :])["outcomes"]["valid"] == 8


def test_episodes_are_the_same_as_in_a_run(package, run):
    playing = importlib.import_module(f"{package.__name__}.playing")
    rng, plays, there = random.Random(3), [], []
    for number in range(EPISODES):
        program = playing.open_program(playing.NAMES[number % len(playing.NAMES)])
        seed, actions, over = rng.randrange(2**63), [], False
        answers = [(program.reset(seed), 0.0, False, False)]
        while not over:
            actions.append(choose(answers[-1][0], rng, (), ()))
            answers.append(tuple(program.step(actions[-1])))
            over = answers[-1][2] or answers[-1][3]
        program.close()
        plays.append((program, seed, actions))
        there.append(answers)
    assert play_in_sandbox(run, plays) == there
    assert {answers[-1][1] for answers in there} >= {0.0, 1.0}


def test_an_evaluation_of_a_served_policy_has_our_returns(package, run, served, installed):
    playing = importlib.import_module(f"{package.__name__}.playing")
    call(
        "vf-eval", package.__name__, "-n", 6, "-m", "nano", "--client.base-url", served, "--client.api-key-var", "KEY",
        "--no-push", "--run.name", package.__name__, installed=installed,
    )  # fmt: skip
    file = installed / "outputs" / package.__name__ / "traces.jsonl"
    traces = [trace for line in file.read_text().splitlines() for trace in json.loads(line)["traces"]]
    plays, shown = [], []
    for trace in traces:
        assert trace["ok"], trace["errors"]
        data, said = trace["task"]["data"], [node["message"] for node in trace["nodes"]]
        actions = [find_action(each["content"]) for each in said if each["role"] == "assistant"]
        plays.append((playing.open_program(data["program"]), data["seed"], actions))
        shown.append([each["content"] for each in said if each["role"] == "user"])
    assert len(plays) == 6
    for trace, told, answers in zip(traces, shown, play_in_sandbox(run, plays), strict=True):
        assert [observation for observation, *_ in answers][: len(told)] == told
        rewards = [reward for _, reward, *_ in answers[1:]]
        ours = compute_episode_return(rewards, terminated=answers[-1][2])
        assert trace["rewards"]["episode_return"]["score"] == ours
    assert any(trace["rewards"]["episode_return"]["score"] == 1 for trace in traces)
