"""`--json`: each command that prints facts has it, and prints JSON alone."""

import json

import msgspec
import pytest
import typer

from replay.inspect.environments import read_environments
from replay.ledger.records import PlayRecord
from replay.store import open_reader
from spade.app.cli import app
from spade.app.rundir import RunDir
from spade.app.screen import observe
from spade.config import load
from spade.policy.best import FOLDER, Best
from spade.protocol import Process, Status, Wait
from tests.app.commands.test_pool import run_spade
from tests.replay.kept_world import keep_world

ACTS = {
    "up", "learner up", "replay up", "actors up", "serve", "track", "top", "web", "stop", "actors scale",
    "actors drain", "experiment run", "eval setup", "nano build", "env play",
}  # fmt: skip
"""Commands that start, order or show something live."""

WRITES = {
    "report", "experiment table", "replay export", "replay compact", "replay import", "env export", "pool make",
    "pool import", "pool export", "pool demonstrate", "corpus build", "cluster template", "model import",
    "model export", "keys new", "model push", "env push", "corpus push",
}  # fmt: skip
"""Commands whose result is a file or a folder."""


def list_commands(command, name=""):
    """Return the options of each command below one, by the command's full name."""
    if not hasattr(command, "commands"):
        return {name: {option for parameter in command.params for option in parameter.opts}}
    found = [list_commands(below, f"{name} {word}".strip()) for word, below in command.commands.items()]
    return {full: options for each in found for full, options in each.items()}


def test_every_command_that_prints_facts_has_it():
    commands = list_commands(typer.main.get_command(app))
    assert {name for name, options in commands.items() if "--json" not in options} == ACTS | WRITES


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run with environments and a best policy, a folder of keys and a pool, one of whose programs cannot be read."""
    made = RunDir(tmp_path_factory.mktemp("runs") / "run")
    made.create(load("nano"))
    keep_world(made.store)
    (made.path / FOLDER / "7" / "policy").mkdir(parents=True)
    (made.path / FOLDER / "7" / "best.json").write_bytes(msgspec.json.encode(Best(7, "d", "m", 0.5, 0.1, 20)))
    (made.path.parent / "pool").mkdir()
    (made.path.parent / "pool" / "broken.py").write_bytes(b"\xff")
    (made.path.parent / "pool" / "whole.py").write_text("class WholeEnv: ...")
    run_spade("keys", "new", made.path.parent / "keys", "far")
    return made


@pytest.fixture
def ask(run, monkeypatch):
    """Return a function that gives a command with --json, and returns what it printed and its exit code."""
    monkeypatch.chdir(run.path.parent)

    def asked(*words):
        code, told = run_spade(*words, "--json")
        return json.loads(told), code

    return asked


def test_environments_and_plays(run, ask):
    listed, _ = ask("env", "ls", "run")
    assert [each["id"] for each in listed] == [each.id for each in read_environments(run.store)]
    rejected, _ = ask("env", "ls", "run", "--rejected")
    assert {"job", "stage", "reason"} <= set(rejected[0])
    shown, _ = ask("env", "show", "run", listed[0]["id"])
    assert shown["hint"] == "pull the second lever"
    assert {name: shown[name] for name in listed[0]} == listed[0]
    with open_reader(run.store) as store:
        play = next(play for play in store.scan("plays", PlayRecord) if play.state == "finished")
    shown, _ = ask("env", "show", "run", play.id)
    assert shown["play"]["episode_return"] == play.episode_return
    assert len(shown["tokens"]["ids"]) == len(shown["tokens"]["mask"]) > len(shown["tokens"]["logprobs"]) > 0


def test_configs_and_corpora(ask):
    assert ask("config", "ls")[0]["nano"].startswith("Self-play on a laptop")
    assert ask("config", "show", "nano")[0]["learner"]["lr"] == load("nano").learner.lr
    checked, code = ask("config", "check", "nano")
    assert (checked["checked"].startswith("nano: fine, "), len(checked["memory"]) > 1, code) == (True, True, 0)
    assert ask("corpus", "show", "builtin")[0]["documents"] == 230
    assert ask("corpus", "show", "builtin", "--index", "0")[0]["text"]


def test_pools_and_keys(ask):
    listed, code = ask("pool", "ls", "pool")
    assert (listed[0]["name"], "is not UTF-8 text" in listed[0]["error"], code) == ("broken", True, 1)
    assert (listed[1]["name"], listed[1]["source"]) == ("whole", "class WholeEnv: ...")
    checked, code = ask("pool", "check", "pool")
    assert ([each["passed"] for each in checked], code) == ([False, False], 1)
    keys, _ = ask("keys", "ls", "keys")
    assert [each["name"] for each in keys] == ["far", "local"]


def test_problems_of_a_store_and_the_best_policy(run, ask):
    found, code = ask("replay", "verify", "run")
    assert (len(found["problems"]) > 0, code) == (True, 1), "its policies were never written"
    assert found["trajectories"] > 0
    assert ask("model", "best", "run")[0] == {
        "folder": str(run.path / FOLDER / "7" / "policy"),
        "best": {"step": 7, "digest": "d", "measure": "m", "win_rate": 0.5, "error": 0.1, "plays": 20},
    }


def test_waits_and_actors_of_a_live_run(ask, monkeypatch):
    wait = Wait("learner", "TakeBatch", 1, 3.0, "replay", "8 of 96 sequences")
    processes = (Process("agent-0", "agent", 1, "ready", 0, supervisor="s"),)

    async def answer(*given):
        return Status(waits=(wait,), processes=processes, wanted={"s": {"agent": 1}})

    monkeypatch.setattr(observe, "ask_live", answer)
    told, _ = ask("why", "run")
    assert told["waits"] == [msgspec.structs.asdict(wait)]
    assert any("learner" in line and "8 of 96 sequences" in line for line in told["lines"])
    told, _ = ask("actors", "ls", "run")
    assert (told["s"]["wanted"], [each["name"] for each in told["s"]["processes"]]) == ({"agent": 1}, ["agent-0"])


def test_a_machine(ask):
    told, code = ask("doctor")
    assert code == 0
    assert {"python", "cores", "torch", "suite nano"} <= {each["name"] for each in told}
    assert {each["good"] for each in told} <= {True, False, None}
