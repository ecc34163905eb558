"""`smol` learns one task over a SIGKILL of all its processes; then its policy is exported, served and measured."""

import json
import subprocess
import sys
import time
import urllib.request

import pytest
import torch
import trio

from replay.inspect.contents import read_contents
from replay.store import open_reader
from spade.policy.model import compute_parameters_digest, load
from tests.actors.gateway.clients import free_port
from tests.chaos.processes import Command
from tests.chaos.serving import until_ready

pytestmark = [pytest.mark.slow, pytest.mark.timeout(7_200)]  # a training run of minutes on two cores
SOON_S = 600.0
TASK = (
    "run.seed=1", "pool.source=reasoning-gym:chain_sum", "pool.difficulty=fixed", "design.active_environments=1",
    "learner.lr=4e-5", "learner.batch_sequences=32", "learner.checkpoint_every=2", "actors.episodes_in_flight=16",
    "evaluation.suite=",
)  # fmt: skip
PLAYS = 128
"""A win rate at the beginning or at the end is a mean over this many plays.

The 8 plays of a group have one question, so these are 16 questions, and the standard error is at most 0.13. Without
training the policy wins 0.15 of its plays, and after six steps 0.65.
"""
RISE = 0.2


def spade(folder, *words):
    return subprocess.run(
        [sys.executable, "-m", "spade.app.cli", *words], cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def run(smollm2, tmp_path_factory):
    """A run of at least six steps, whose processes were all killed after the first two."""
    folder = tmp_path_factory.mktemp("run")
    given = [word for each in (f"model.path={smollm2}", *TASK) for word in ("--set", each)]
    words = ("up", "smol", "--headless", "--run", "run", *given)
    killed = Command(("spade.app.cli", *words), folder / "killed", folder)
    while not list((folder / "run" / "checkpoints").glob("[!.]*/model")):
        assert killed.code is None, killed.tail()
        time.sleep(0.2)
    killed.end_all(SOON_S)
    resumed = spade(folder, *words, "--steps", "4")
    assert resumed.returncode == 0, resumed.stderr
    return folder / "run"


def test_a_killed_run_goes_on(run):
    with open_reader(run / "store") as store:
        assert len(read_contents(store).batches) >= 6
    checked = spade(run.parent, "replay", "verify", str(run))
    assert checked.returncode == 0, checked.stdout


def test_it_learns_its_task(run):
    with open_reader(run / "store") as store:
        plays = read_contents(store).plays
    returns = [play.episode_return for _, play in sorted(plays.items()) if play.state == "finished"]
    before, after = (sum(some) / PLAYS for some in (returns[:PLAYS], returns[-PLAYS:]))
    assert after > before + RISE, (before, after)


def test_the_trained_policy_is_exported_whole(run, smollm2, tmp_path):
    done = spade(tmp_path, "model", "export", str(run), "exported")
    assert done.returncode == 0, done.stderr
    assert compute_parameters_digest(tmp_path / "exported") != compute_parameters_digest(smollm2)
    loaded = load(tmp_path / "exported", dtype="bfloat16", device=torch.device("cpu"))
    assert sum(each.numel() for each in loaded.parameters()) == 134_515_008


def test_it_is_measured_as_a_paired_difference(run):
    done = spade(
        run.parent, "eval", str(run), "--suite", "reasoning-gym-nano", "--protocol", "short", "--items", "6",
        "--against", "start",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "difference" in done.stdout
    assert "6 of 6 samples" in done.stdout


def ask(port, question):
    asked = {"temperature": 0, "max_tokens": 16, "messages": [{"role": "user", "content": question}]}
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/chat/completions", json.dumps(asked).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=SOON_S) as answer:
        return json.load(answer)["choices"][0]["message"]["content"]


async def test_the_capital_of_france_is_paris(smollm2, tmp_path):
    port = free_port()
    serving = Command(("spade.app.cli", "serve", str(smollm2), "--port", str(port)), tmp_path / "said", tmp_path)
    try:
        await until_ready(serving, port)
        said = await trio.to_thread.run_sync(ask, port, "What is the capital of France?")
    finally:
        serving.abandon()
    assert "Paris" in said
