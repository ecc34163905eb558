"""The batch script on machines of their own, under commands that stand in for Slurm's."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from spade.cluster.schedulers import write_slurm
from tests.ray import slurm as stand_in
from tests.ray.lab import ENVIRONMENT, SOON_S, lab
from tests.ray.test_run import all_ready, status, until

DRAIN_S = 60.0  # a busy machine takes long to stop Ray, after the drain
SETTINGS = (
    "bus.silence_s=60",
    "supervise.ready_s=900",
    f"supervise.drain_s={DRAIN_S:g}",
    "place.cpus={learner=0.5,designer=0.5}",
)
CPUS = "3"


class Job:
    """A run of the batch script, as Slurm starts one, on two machines."""

    def __init__(self, machines, script: Path, run: Path) -> None:
        self._machine, self._pid = machines.machines["a"], machines.shared / "pid"
        self._pid.unlink(missing_ok=True)
        here = {
            "SLURM_JOB_ID": "7", "SLURM_NNODES": "2", "SLURM_CPUS_ON_NODE": CPUS, "SLURMD_NODENAME": "machine-a",
            "PATH": f"{machines.shared}/bin:{ENVIRONMENT['PATH']}",
        }  # fmt: skip
        words = [f"{key}={value}" for key, value in (ENVIRONMENT | here).items()]
        begin = f'echo $$ > {self._pid}; exec bash "$0" "$1"'
        self._process = self._machine.start("env", *words, "sh", "-c", begin, str(script), str(run))

    def signal(self, name: str) -> None:
        subprocess.run(self._machine.inside("kill", f"-{name}", self._pid.read_text().strip()), check=True)

    def ready(self, machines, run: Path) -> list[dict]:
        """Its processes, once all are ready."""
        assert self._process.poll() is None, self._process.communicate()[0]
        return all_ready(machines, run)

    def ended(self) -> tuple[int, str]:
        """Its exit code and all that it said."""
        told = self._process.communicate(timeout=SOON_S)[0]
        return self._process.returncode, told


@pytest.fixture(scope="module")
def machines(tmp_path_factory):
    with lab(tmp_path_factory.mktemp("shared")) as made:
        stand_in.tools(made.shared)
        made.power_on("a")
        made.power_on("b").start(
            "sh", "-c", f"cd {made.shared} && exec {sys.executable} -m tests.ray.slurm serve {CPUS}"
        )
        until((made.shared / "slurmd.machine-b").exists)
        yield made


@pytest.fixture(scope="module")
def script(machines):
    file = machines.shared / "spade.sbatch"
    file.write_text(write_slurm("nano", SETTINGS, 8))
    return file


@pytest.fixture(scope="module")
def run(machines):
    return machines.shared / "run"


def test_a_machine_on_which_ray_cannot_start_ends_the_job(machines, script, run):
    (machines.shared / "broken").touch()
    code, told = Job(machines, script, run).ended()
    (machines.shared / "broken").unlink()
    assert (code, told.count("a machine could not join")) == (1, 1), told
    assert machines.roles("a") == []


@pytest.mark.slow
def test_a_job_drains_before_its_time_is_over_and_goes_on_when_it_is_started_again(machines, script, run):
    job = Job(machines, script, run)
    hosts = {process["host"] for process in until(lambda: job.ready(machines, run))}
    assert machines.address("b") in hosts
    until(lambda: status(machines, run)["learner_step"] >= 1)
    assert (run / "ray.token").stat().st_mode & 0o777 == 0o600
    refused = machines.spade("a", "doctor", "--cluster", "ray")  # without the token
    assert refused.returncode == 1
    assert "no Ray cluster can be reached from here" in refused.stderr.splitlines()[-1], refused.stderr
    step, told = drained(machines, job, run, "USR1")
    assert (machines.shared / "scontrol").read_text() == "requeue 7\n", told

    again = Job(machines, script, run)
    until(lambda: again.ready(machines, run))
    assert status(machines, run)["learner_step"] >= step
    drained(machines, again, run, "TERM")
    assert (machines.shared / "scontrol").read_text() == "requeue 7\n"  # whoever ends a job wants it no more
    verified = machines.spade("a", "replay", "verify", run)
    assert verified.returncode == 0, verified.stdout + verified.stderr


def drained(machines, job: Job, run: Path, name: str) -> tuple[int, str]:
    """The step at a signal, and what the job said, which ended in order and left nothing on any machine."""
    step, since = status(machines, run)["learner_step"], time.monotonic()
    job.signal(name)
    code, told = job.ended()
    assert (code, time.monotonic() - since < DRAIN_S + 10) == (0, True), told
    assert [machines.roles(machine) for machine in machines.machines] == [[], []]
    # Nobody waits for those that were killed on a machine whose first process is this simple.
    alive = machines.machines["a"].inside("pgrep", "--runstates", "DRST", "raylet|gcs_server")
    left = subprocess.run(alive, capture_output=True, check=False)
    assert left.stdout == b""
    return step, told
