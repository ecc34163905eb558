"""`spade up` with the DeepSpeed backend: every role, real processes, a learner that steps and publishes."""

import signal

from transformers import AutoModelForCausalLM

from learner import checkpoint
from tests.e2e.test_up import SOON_S, Up, left_behind, role


def test_a_nano_run_learns_on_two_processes(tmp_path):
    run = tmp_path / "run"
    up = Up(run, "learner.backend=deepspeed", "learner.processes=2")
    try:
        status = up.until(lambda s: s.learner_step >= 3, within_s=SOON_S)
        assert status.policy_version >= 3
        assert role(status, "learner").restarts == 0
        up.stop(signal.SIGINT)
    finally:
        up.kill()
    assert not left_behind(run, status)
    folder, manifest = checkpoint.find_newest(run / "checkpoints")
    assert manifest.step >= 3
    AutoModelForCausalLM.from_pretrained(folder / "model")
