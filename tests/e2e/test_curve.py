"""A run keeps policies, and `spade eval --policy every:N` makes the curve of them."""

import json
import subprocess
import sys
from pathlib import Path

from spade.policy import kept, manifest
from tests.e2e.test_up import SOON_S, Up

SMALL = ("--suite", "nano", "--protocol", "short", "--items", "3")


def spade(*words, fails=False):
    done = subprocess.run(
        [sys.executable, "-m", "spade.app.cli", *words], capture_output=True, text=True, timeout=SOON_S
    )
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr if fails else done.stdout


def test_policies_that_are_kept_make_a_curve(tmp_path):
    run = tmp_path / "run"
    up = Up(run, "learner.keep_policy_every=1", "limits.steps=2")
    try:
        up.process.communicate(timeout=SOON_S)
    finally:
        up.kill()
    assert up.process.returncode == 0
    assert "no problems" in spade("replay", "verify", str(run))

    told = json.loads(spade("eval", str(run), *SMALL, "--policy", "every:1", "--json"))
    assert [(one["step"], one["policy"]) for one in told] == [(1, "step 1"), (2, "step 2")]
    assert len({one["rules"]["policy"] for one in told}) == 2
    assert {one["against"]["policy"] for one in told} == {"start"}
    assert all(one["difference"]["items"] == 3 for one in told)

    records = Path(told[0]["folder"]) / "records.jsonl"
    lines = records.read_bytes().splitlines(keepends=True)
    records.write_bytes(b"".join(lines[:-1]))  # a kill has cut the last record
    title, header, *rows = spade("eval", str(run), *SMALL, "--policy", "every:1").splitlines()[-5:]
    assert (title, header.split()[-3:]) == ("nano@short, 3 items × 1", ["paired", "by", "item"])
    assert [row[:9].strip() for row in rows] == ["start", "step 1", "step 2"]
    means = [round(one["summary"]["headline"]["mean"], 3) for one in told]
    assert [float(row.split()[2]) for row in rows[1:]] == means
    assert len(records.read_bytes().splitlines()) == 3

    damage(run / kept.FOLDER / "step-1")
    damage(run / kept.FOLDER / "step-2")
    said = spade("replay", "verify", str(run), fails=True)
    assert said.count("was changed or cut short") == 2


def damage(folder):
    """Change the last byte of the parameters, in this folder alone."""
    data = (folder / manifest.PARAMETERS).read_bytes()
    (folder / manifest.PARAMETERS).unlink()
    (folder / manifest.PARAMETERS).write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
