"""OpenEnv: its check and its client on what we export, and the environments of its servers as ours."""

import importlib
import os
import random
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
import trio
from msgspec.structs import replace

from actors.environments.offers import choose
from actors.sandbox import open_sandbox
from actors.text.actions import format_action
from spade.app.rundir import RunDir
from spade.config import load
from spade.pools import list_names, read_program
from spade.protocol import Faulted

EPISODES = 200
STARTED_S = 300
SESSIONS = 8
"""Sessions of the counter."""
SIDES = Path(__file__).with_name("sides")


@pytest.fixture(scope="module", params=["some_walls", "some_bare"])
def package(request, run, run_spade, install, installed):
    """The name of an exported package that is installed."""
    folder = installed / "sources" / request.param.replace("_", "-")
    options = ["--bare"] if request.param == "some_bare" else []
    code, told = run_spade("env", "export", run, folder, "--format", "openenv", *options, cwd=installed)
    assert code == 0, told
    install(folder, installed)
    return request.param


@pytest.fixture(scope="module")
def served(package, installed):
    """The address of the package's server."""
    with serve(["-m", f"{package}.server.app", "--port"], installed) as address:
        yield address


@contextmanager
def serve(words, folder):
    """Run a server of OpenEnv on a free port, which is its last argument."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-P", *map(str, words), str(port)]
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(folder)}, stderr=subprocess.DEVNULL) as server:
        try:
            until = time.monotonic() + STARTED_S
            while True:
                try:
                    httpx2.get(f"http://127.0.0.1:{port}/health")
                    break
                except httpx2.ConnectError:
                    assert server.poll() is None
                    assert time.monotonic() < until
                    time.sleep(0.2)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()


def play_here(config, plays):
    """Play (source, form, seed, actions) in our sandbox. Return the answers of each play."""

    async def play():
        answers = []
        async with open_sandbox(config.sandbox) as sandbox:
            for source, form, seed, actions in plays:
                played = [await sandbox.open("one", source, seed, config.play.max_turns)]
                for turn, action in enumerate(actions, 1):
                    played.append(await sandbox.step("one", turn, format_action(action, form)))
                answers.append(played)
        return answers

    return trio.run(play)


def to_rows(answers):
    return [[(each.observation, each.reward, each.terminated, each.truncated) for each in play] for play in answers]


def test_openenvs_own_check_passes(package, installed):
    folder = installed / "sources" / package.replace("_", "-")
    command = [sys.executable, "-P", "-m", "openenv.cli", "validate", folder, "--level", "static", "--skip-build"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "PASS  static.manifest" in done.stdout


def test_openenvs_own_check_of_a_running_server_passes(served):
    command = [sys.executable, "-P", "-m", "openenv.cli", "validate", "--url", served, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_client_plays_as_in_a_run_and_so_do_programs_made_of_the_server(
    package, served, run, run_spade, installed, tmp_path
):
    name = "".join(map(str.capitalize, package.split("_")))
    client = getattr(importlib.import_module(f"{package}.client"), f"{name}Env")
    action = getattr(importlib.import_module(f"{package}.models"), f"{name}Action")
    told = httpx2.post(f"{served}/{package}/tasks", json={"split": "train"}).json()["tasks"]
    rng, plays, there = random.Random(7), [], []
    with client(base_url=served).sync() as session:
        for number in range(EPISODES):
            task, seed, actions = told[number % len(told)], rng.getrandbits(31), []
            result = session.reset(index=task["index"], seed=seed)
            answers = [(result.observation.text, 0.0, False, False)]
            while not result.done:
                actions.append(choose(result.observation.text, rng, (), ()))
                result = session.step(action(text=actions[-1]))
                cut = result.observation.truncated
                answers.append((result.observation.text, result.reward, result.done and not cut, cut))
            plays.append((task["id"], task["lineage"]["reads"], seed, actions))
            there.append(answers)
    programs = installed / package / "programs"
    sources = {task["id"]: (programs / f"{task['id']}.py").read_text() for task in told}
    config = RunDir(run).config()
    assert to_rows(play_here(config, [(sources[name], *rest) for name, *rest in plays])) == there
    assert {answers[-1][1] for answers in there} >= {0.0, 1.0}

    code, said = run_spade("pool", "import", f"openenv:{served}/", "-o", tmp_path / "pool", cwd=tmp_path)
    assert code == 0, said
    pool = {name: read_program(tmp_path / "pool", name) for name in list_names(tmp_path / "pool")}
    assert pool.keys() == sources.keys()
    config = replace(config, sandbox=replace(config.sandbox, servers=(served,)))
    played = play_here(config, [(pool[name].source, "inside", seed, actions) for name, _, seed, actions in plays[:50]])
    assert to_rows(played) == there[:50]


@pytest.fixture(scope="module")
def counter():
    with serve([SIDES / "counter.py", SESSIONS], SIDES) as address:
        yield address


@pytest.fixture(scope="module")
def counted(counter, run_spade, tmp_path_factory):
    """A pool of the counter."""
    folder = tmp_path_factory.mktemp("counted")
    code, told = run_spade("pool", "import", f"openenv:{counter}", "-o", folder / "pool", cwd=folder)
    assert code == 0, told
    assert "1 of 1 programs" in told
    return folder / "pool"


def test_a_server_of_others_is_played_by_its_schemas(counter, counted):
    program = read_program(counted, "counter")
    assert program.origin == f"openenv:{counter}"
    config = load("nano", (f'sandbox.servers=["{counter}"]',))
    actions = ["1", "x", "9", "0", "2", "1"]
    [answers, broken] = play_here(
        config, [(program.source, "inside", 2, actions), (program.source, "inside", 2, ["3", "1"])]
    )
    first, one, unread, invalid, zero, won, late = answers
    assert first.observation == '{"target":4,"total":0}\nActions: 0..3'
    assert (one.observation, one.reward) == ('{"target":4,"total":1}\nActions: 0..3', 0.0)
    for refused in (unread, invalid):
        assert refused.observation.startswith("The action does not count: ")
        assert refused.observation.endswith(one.observation)
        assert not refused.terminated
    assert zero.observation == one.observation
    assert (won.observation, won.reward, won.terminated) == ('{"target":4,"total":3}\nActions: 0..3', 0.0, False)
    assert (late.reward, late.terminated) == (1.0, True)
    assert broken[1] == Faulted("exception", "the counter\\nbroke")


def test_more_sessions_than_the_server_has_are_a_fault_of_ours(counter, counted):
    source = read_program(counted, "counter").source
    config = load("nano", (f'sandbox.servers=["{counter}"]',))

    async def play():
        async with open_sandbox(config.sandbox) as sandbox:
            opened = [await sandbox.open(str(number), source, 1, 9) for number in range(SESSIONS + 1)]
            sandbox.close("0")
            with trio.fail_after(10):  # the session ends with the episode
                while isinstance(await sandbox.open("again", source, 1, 9), Faulted):  # noqa: ASYNC110
                    await trio.sleep(0.1)
        return opened

    *opened, refused = trio.run(play)
    assert not any(isinstance(each, Faulted) for each in opened)
    assert refused.kind == "infrastructure"
    assert counter in refused.detail


def test_a_program_reaches_no_server_that_the_settings_do_not_name(counter, counted):
    source = read_program(counted, "counter").source
    [[answer]] = play_here(load("nano"), [(source, "inside", 1, [])])
    assert answer == Faulted("exception", "NameError: name 'OpenEnvServerEnv' is not defined (line 1)")


def test_a_run_plays_a_server_as_a_fixed_environment(counter, counted, run_spade, tmp_path):
    settings = ("design.source=pool", f"pool.source=folder:{counted}", f'sandbox.servers=["{counter}"]')
    given = [word for setting in (*settings, "evaluation.suite=") for word in ("--set", setting)]
    code, told = run_spade("up", "nano", "--headless", "--steps", 1, "--run", tmp_path / "run", *given, cwd=tmp_path)
    assert code == 0, told
    code, told = run_spade("env", "ls", tmp_path / "run", "--json", cwd=tmp_path)
    assert code == 0, told
    assert "TaskCounterEnv" in told


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("http://127.0.0.1:1", "no server of OpenEnv answers (all attempts to connect to 127.0.0.1:1 failed)"),
        ("127.0.0.1:8000", "write openenv:http://HOST:PORT"),
        ("http://me:secret@127.0.0.1", "write openenv:http://HOST:PORT"),
    ],
)
def test_a_server_that_is_not_there_is_one_line(address, reason, run_spade, tmp_path):
    code, told = run_spade("pool", "import", f"openenv:{address}", "-o", tmp_path / "pool", cwd=tmp_path)
    assert (code, told.count("\n")) == (1, 1)
    assert reason in told
    assert not [*tmp_path.iterdir()]
