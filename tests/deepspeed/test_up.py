"""`spade up` with the DeepSpeed backend: every role, real processes, a learner that steps and publishes."""

import json
import subprocess
import sys

from transformers import AutoModelForCausalLM

from learner import checkpoint
from tests.e2e.test_up import SMALL


def test_a_nano_run_learns_on_two_processes(tmp_path):
    given = (*SMALL, "learner.backend=deepspeed", "learner.processes=2", "learner.zero_stage=2", "learner.threads=1")
    command = [sys.executable, "-m", "spade.app.cli"]
    up = [*command, "up", "--headless", "--run", str(tmp_path / "run"), "--for", "60s"]
    done = subprocess.run(
        [*up, *(word for one in given for word in ("--set", one))], capture_output=True, text=True, timeout=150
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    told = subprocess.run(
        [*command, "status", str(tmp_path / "run"), "--json"], capture_output=True, text=True, check=True
    )
    status = json.loads(told.stdout)
    assert status["learner_step"] >= 2
    assert status["policy_version"] >= status["learner_step"]
    folder, manifest = checkpoint.newest(tmp_path / "run" / "checkpoints")
    assert manifest.step >= 2
    AutoModelForCausalLM.from_pretrained(folder / "model")
