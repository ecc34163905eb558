"""A run keeps policies while its learner is killed, and `spade eval --policy every:N` makes the curve of them."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from replay.inspect.environments import list_published
from spade.policy import kept, manifest
from tests.e2e.test_up import SOON_S, Up, role

SMALL = ("--suite", "nano", "--protocol", "short", "--items", "3")


def spade(*words, fails=False):
    done = subprocess.run(
        [sys.executable, "-m", "spade.app.cli", *words], capture_output=True, text=True, timeout=SOON_S
    )
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr if fails else done.stdout


def steps_kept(run):
    """The steps of the policies that are kept; each is whole, and was published after its step."""
    announced = {(one.step, one.digest) for one in list_published(run / "store")}
    found = kept.list_by_step(run / kept.FOLDER)
    assert all((step, manifest.verify_parameters(folder)) in announced for step, folder in found)
    assert not list((run / kept.FOLDER).glob(".draft-*"))
    return [step for step, _ in found]


def test_policies_are_kept_once_each_through_a_kill_and_make_a_curve(tmp_path):
    run = tmp_path / "run"
    up = Up(run, "learner.keep_policy_every=2", "learner.checkpoint_every=4", "limits.steps=4")
    try:
        status = up.until(lambda s: s.learner_step >= 2, within_s=SOON_S)
        os.kill(role(status, "learner").pid, signal.SIGKILL)  # before the first checkpoint: all steps are trained again
        up.process.communicate(timeout=SOON_S)
    finally:
        up.kill()
    assert up.process.returncode == 0
    assert steps_kept(run) == [2, 4]
    assert "no problems" in spade("replay", "verify", str(run))

    told = json.loads(spade("eval", str(run), *SMALL, "--policy", "every:2", "--json"))
    assert [(one["step"], one["policy"]) for one in told] == [(2, "step 2"), (4, "step 4")]
    assert len({one["rules"]["policy"] for one in told}) == 2
    assert {one["against"]["policy"] for one in told} == {"start"}
    assert all(one["difference"]["items"] == 3 for one in told)

    records = Path(told[0]["folder"]) / "records.jsonl"
    lines = records.read_bytes().splitlines(keepends=True)
    records.write_bytes(b"".join(lines[:-1]))  # a kill has cut the last record
    title, header, *rows = spade("eval", str(run), *SMALL, "--policy", "every:2").splitlines()[-5:]
    assert (title, header.split()[-3:]) == ("nano@short, 3 items × 1", ["paired", "by", "item"])
    assert [row[:9].strip() for row in rows] == ["start", "step 2", "step 4"]
    means = [round(one["summary"]["headline"]["mean"], 3) for one in told]
    assert [float(row.split()[2]) for row in rows[1:]] == means
    assert len(records.read_bytes().splitlines()) == 3

    damage(run / kept.FOLDER / "step-2")
    damage(run / kept.FOLDER / "step-4")
    said = spade("replay", "verify", str(run), fails=True)
    assert said.count("was changed or cut short") == 2


def damage(folder):
    """Change the last byte of the parameters, in this folder alone."""
    data = (folder / manifest.PARAMETERS).read_bytes()
    (folder / manifest.PARAMETERS).unlink()
    (folder / manifest.PARAMETERS).write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("every:0", "policy 'every:0': write every:N, a number of learner steps from 1"),
        ("every:", "policy 'every:': write every:N"),
        ("every:5", "policy 'every:5': only a run has steps; of a model there is newest alone"),
    ],
)
def test_a_curve_of_nothing_is_refused_in_one_line(asked, said):
    told = spade("eval", "nano", *SMALL, "--policy", asked, fails=True)
    assert said in told
    assert told.count("\n") == 1
