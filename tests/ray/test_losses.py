"""A run that loses each of its machines, its supervisor and its supervisor's machine, and goes on."""

import subprocess
import time
from typing import NamedTuple

import pytest

from tests.ray.lab import Lab, lab
from tests.ray.test_run import BEAT, DRAIN_S, SILENCE_S, all_ready, status, until

pytestmark = pytest.mark.slow
UNHEARD_S = SILENCE_S + DRAIN_S
WORKERS = "bc"


class Run(NamedTuple):
    """A run directory, and the seconds from the command to the first time that all processes were ready."""

    path: str
    start_s: float


@pytest.fixture(scope="module")
def machines(tmp_path_factory):
    """The head without CPUs, and two machines each of which has room for all."""
    with lab(tmp_path_factory.mktemp("shared")) as made:
        begin(made)
        yield made


@pytest.fixture(scope="module")
def run(machines):
    path, since = str(machines.shared / "run"), time.monotonic()
    begun = up(machines, path)
    until(lambda: ready(machines, path, begun))
    return Run(path, time.monotonic() - since)


def begin(machines: Lab) -> None:
    machines.add("a", "--num-cpus=0")
    for name in WORKERS:
        machines.add(name, "--num-cpus=6")


def up(machines: Lab, path: str) -> subprocess.Popen[str]:
    return machines.start("a", "up", "nano", "--run", path, "--cluster", "ray", "--headless", "--agents", "2", *BEAT)


def ready(machines: Lab, path: str, begun: subprocess.Popen[str]) -> list[dict]:
    """Its processes, once all are ready."""
    assert begun.poll() is None, begun.communicate()[0]
    return all_ready(machines, path)


def nobody(machines: Lab) -> bool:
    """True if no role process is alive on any machine."""
    return not any(machines.roles(name) for name in machines.machines)


@pytest.mark.parametrize("name", WORKERS)
def test_what_a_machine_without_power_had_is_ready_elsewhere_and_steps_go_on(machines, run, name):
    lost = machines.address(name)
    here = {one["name"] for one in until(lambda: all_ready(machines, run.path)) if one["host"] == lost}
    assert here
    step = status(machines, run.path)["learner_step"]
    machines.cut_power(name)
    since = time.monotonic()

    def again():
        processes = all_ready(machines, run.path)
        return processes if lost not in {one["host"] for one in processes} else []

    processes = until(again)
    took = time.monotonic() - since
    print(f"all ready {took:.1f} s after a machine with {sorted(here)} was lost, {run.start_s:.1f} s after the command")
    assert took < UNHEARD_S + run.start_s + 5
    for one in processes:
        if one["name"] in here:
            assert one["restarts"] > 0, one
            # The latter where Ray already knew.
            assert one["detail"] in (f"{lost} did not answer for {UNHEARD_S:g} s", f"its post has died (on {lost})")
    until(lambda: status(machines, run.path)["learner_step"] > step)
    machines.add(name, "--num-cpus=6")


def test_a_supervisor_that_is_killed_leaves_no_process_and_the_same_command_goes_on(machines, run):
    before = status(machines, run.path)
    subprocess.run(machines.machines["a"].inside("pkill", "-KILL", "-f", "spade.app.cli up"), check=True)
    since = time.monotonic()
    until(lambda: nobody(machines))
    print(f"no process {time.monotonic() - since:.1f} s after the supervisor was killed")
    assert time.monotonic() - since < UNHEARD_S + 5
    goes_on(machines, run, before)


def test_a_head_that_is_lost_silently_leaves_no_process_and_the_same_command_goes_on(machines, run):
    before = status(machines, run.path)
    machines.pull_cable("a")
    machines.cut_power("a")
    since = time.monotonic()
    until(lambda: nobody(machines))
    print(f"no process {time.monotonic() - since:.1f} s after the head was lost silently")
    assert time.monotonic() - since < UNHEARD_S + 5
    for name in WORKERS:  # whoever brings up a new head brings up its cluster
        machines.cut_power(name)
    begin(machines)
    goes_on(machines, run, before)


def goes_on(machines: Lab, run: Run, before: dict) -> None:
    """Begin the run again, and wait until it has taken a step beyond `before`, with all that it had."""
    begun = up(machines, run.path)
    until(lambda: ready(machines, run.path, begun))
    after = status(machines, run.path)
    for figure in ("learner_step", "policy_version", "memory", "plays"):
        assert after[figure] >= before[figure], figure
    until(lambda: status(machines, run.path)["learner_step"] > before["learner_step"])


def test_a_run_that_had_losses_stops_in_order_and_its_store_is_whole(machines, run):
    stopped = machines.spade("a", "stop", run.path)
    assert (stopped.returncode, stopped.stderr) == (0, "")
    until(lambda: nobody(machines))
    verified = machines.spade("a", "replay", "verify", run.path)
    assert verified.returncode == 0, verified.stdout + verified.stderr
