"""`spade up` with the DeepSpeed backend: every role, real processes, a learner that steps and publishes."""

import signal

from transformers import AutoModelForCausalLM

from learner import checkpoint
from tests.e2e.test_up import Up, alive, role


def test_a_nano_run_learns_on_two_processes(tmp_path):
    up = Up(tmp_path / "run", "learner.backend=deepspeed", "learner.processes=2")
    try:
        status = up.until(lambda s: s.learner_step >= 3, within_s=200)
        assert status.policy_version >= 3
        assert role(status, "learner").restarts == 0
        up.stop(signal.SIGINT)
    finally:
        up.kill()
    assert not any(alive(process.pid) for process in status.processes)
    folder, manifest = checkpoint.newest(tmp_path / "run" / "checkpoints")
    assert manifest.step >= 3
    AutoModelForCausalLM.from_pretrained(folder / "model")
