"""One run over machines of their own: placed, cut off, grown beyond its room, stopped from elsewhere."""

import json
import os
import re
import subprocess
import sys
import time

import pytest

from tests.ray.lab import SOON_S, Lab, lab
from tests.recipes.small_runs import SMALL

LEARNER = "place.resources={learner={sees=1}}"
GPUS = ("--set", "place.gpus={engine=2}", "--set", "engine.device=cpu", "--set", "actors.engines=2")
STEPS = [word for each in (*SMALL, "evaluation.suite=nano", "evaluation.plays=8") for word in ("--set", each)]
SILENCE_S, DRAIN_S = 15.0, 8.0  # of machines that may be busy
BEAT = (
    "--set", "supervise.ready_s=900", "--set", f"bus.silence_s={SILENCE_S:g}",
    "--set", f"supervise.drain_s={DRAIN_S:g}",
)  # fmt: skip


@pytest.fixture(scope="module")
def machines(tmp_path_factory):
    """The head without CPUs, a machine that sees the shared folder, and one that does not, with GPUs 4 to 7."""
    with lab(tmp_path_factory.mktemp("shared")) as made:
        made.add("a", "--num-cpus=0")
        made.add("b", "--num-cpus=3", '--resources={"sees": 1}')
        made.add("c", "--num-cpus=5", "--num-gpus=4", blind=True, environment={"CUDA_VISIBLE_DEVICES": "4,5,6,7"})
        yield made


@pytest.fixture(scope="module")
def run(machines):
    path = machines.shared / "run"
    words = ("up", "nano", "--run", path, "--cluster", "ray", "--headless", "--agents", "2", "--set", LEARNER)
    up = machines.start("a", *words, *GPUS, *STEPS, *BEAT)
    yield path
    up.terminate()
    told = up.communicate(timeout=SOON_S)[0]
    assert "Traceback" not in told, told


def status(machines: Lab, run) -> dict:
    done = machines.spade("a", "status", run, "--json")
    return json.loads(done.stdout) if done.returncode == 0 else {"processes": [], "learner_step": -1}


def until(condition, what: str = ""):
    ends = time.monotonic() + SOON_S
    while not (found := condition()):
        assert time.monotonic() < ends, what
        time.sleep(0.2)
    return found


def all_ready(machines: Lab, run) -> list[dict]:
    processes = status(machines, run)["processes"]
    up = [process for process in processes if process["state"] != "stopped"]
    return up if len(up) > 5 and all(process["state"] == "ready" for process in up) else []


def test_a_run_lives_on_several_machines_one_of_which_does_not_see_its_directory(machines, run):
    processes = until(lambda: all_ready(machines, run))
    hosts = {process["name"]: process["host"] for process in processes}
    assert (hosts["replay"], hosts["learner"]) == ("", machines.address("b"))
    assert set(hosts.values()) == {"", machines.address("b"), machines.address("c")}
    until(lambda: status(machines, run)["learner_step"] >= 1)
    assert {log.name for log in (run / "logs").iterdir()} >= {"learner.log", "engine-0.log", "agent-0.log"}


def test_engines_see_gpus_of_their_own_and_other_processes_none(machines, run):
    seen = {process["role"]: set() for process in until(lambda: all_ready(machines, run))}
    for process in all_ready(machines, run):
        seen[process["role"]].add(environment(machines, process)["CUDA_VISIBLE_DEVICES"])
    first, second = (set(shown.split(",")) for shown in seen.pop("engine"))
    assert (len(first), first | second) == (2, {"4", "5", "6", "7"})
    assert set.union(*seen.values()) == {""}


def environment(machines: Lab, process: dict) -> dict[str, str]:
    """The environment of a role process."""
    name = next(each for each in machines.machines if machines.address(each) == process["host"] or not process["host"])
    read = machines.machines[name].inside("cat", f"/proc/{process['pid']}/environ")
    rows = subprocess.check_output(read, text=True).split("\0")
    return dict(row.split("=", 1) for row in rows if row)


def test_no_other_user_reads_a_key_on_any_machine(machines, run):
    until(lambda: all_ready(machines, run))
    for machine, folder in [("a", run / "keys"), *((each, "/tmp") for each in machines.machines)]:
        loose = f"find {folder} -name '*.key_secret' ! -perm 600; find {folder} -name 'spade-post-*' ! -perm 700"
        found = subprocess.check_output(machines.machines[machine].inside("sh", "-ec", loose), text=True)
        assert found == "", found
    there = subprocess.check_output(machines.machines["c"].inside("find", "/tmp", "-name", "*.key_secret"), text=True)
    assert "client.key_secret" in there  # it was looked for in the right place


def test_what_has_no_room_says_what_it_waits_for_and_takes_the_room_of_a_new_machine(machines, run):
    until(lambda: all_ready(machines, run))
    scaling = machines.start("a", "actors", "scale", run, "agents=6")
    assert posts(machines, "c")
    why = until(
        lambda: [row for row in machines.spade("a", "why", run).stdout.splitlines() if "waits for 1 CPU" in row]
    )
    assert why[0].startswith("agent-")
    machines.add("d", "--num-cpus=4", '--resources={"sees": 1}')
    told = scaling.communicate(timeout=SOON_S)[0]
    assert scaling.returncode == 0, told
    assert machines.address("d") in {process["host"] for process in all_ready(machines, run)}
    done = machines.spade("a", "actors", "scale", run, "agents=2")
    assert done.returncode == 0, done.stderr
    until(lambda: posts(machines, "d") == 0)  # so a cluster that buys machines may return it


def posts(machines: Lab, name: str) -> int:
    """The posts on a machine, by the title that Ray gives their processes."""
    looked = machines.machines[name].inside("pgrep", "-c", "-f", "^ray::PostActor")
    found = subprocess.run(looked, capture_output=True, check=False)
    return int(found.stdout)


def test_each_machine_tells_the_doctor_what_it_has(machines, run):
    until(lambda: all_ready(machines, run))
    done = machines.spade("a", "doctor", run, "--cluster", "ray")
    told = {row.split()[1]: row for row in done.stdout.splitlines()}
    assert (done.returncode, set(told)) == (1, {machines.address(name) for name in machines.machines}), done.stderr
    sees = {name: "; sees the run directory;" in told[machines.address(name)] for name in "abd"}
    assert sees == dict.fromkeys("abd", True)
    assert all(told[machines.address(name)].startswith("ok ") for name in "abd")
    assert told[machines.address("c")].endswith("the cluster promises 4 GPUs, and torch sees 0")


def test_a_learner_that_is_cut_off_is_gone_before_another_takes_its_place(machines, run):
    until(lambda: all_ready(machines, run))
    (learner,) = (one for one in status(machines, run)["processes"] if one["name"] == "learner")
    assert (learner["host"], "learner" in machines.roles("b")) == (machines.address("b"), True)
    step = status(machines, run)["learner_step"]
    machines.pull_cable("b")
    try:
        until(lambda: not twice(machines) and "learner" in machines.roles("d"))
        until(lambda: not twice(machines) and status(machines, run)["learner_step"] > step)
        assert "learner" in list_lost(run, machines.address("b"))
        assert machines.roles("b") == []
    finally:
        machines.plug_cable("b")


def list_lost(run, host: str) -> list[str]:
    """The processes whose machine did not answer, each as often as this happened. Ray may know of the loss before."""
    lost = rf"{host} did not answer for {SILENCE_S + DRAIN_S:g} s|its post has died \(on {host}\)"
    return re.findall(rf"(\S+): (?:{lost}); starting it", (run / "logs" / "supervisor.log").read_text())


def list_homes(machines: Lab, name: str) -> list[str]:
    """The folders that the posts of a machine have there."""
    look = machines.machines[name].inside("find", "/tmp", "-maxdepth", "1", "-name", "spade-post-*")
    return subprocess.check_output(look, text=True).splitlines()


def twice(machines: Lab) -> bool:
    names = [name for machine in machines.machines for name in machines.roles(machine)]
    assert len(names) == len(set(names)), names
    return False


def test_a_run_is_stopped_from_another_machine_and_leaves_nothing_behind(machines, run):
    stopped = machines.spade("d", "stop", run)
    assert (stopped.returncode, stopped.stderr) == (0, "")
    until(lambda: not any(machines.roles(machine) for machine in machines.machines))
    verified = machines.spade("a", "replay", "verify", run)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    for name in machines.machines:  # a machine that is too busy to answer keeps a folder until its next post begins
        assert len(list_homes(machines, name)) <= len(list_lost(run, machines.address(name)))


@pytest.mark.parametrize(
    ("address", "told"),
    [("127.0.0.1:1", "[^:]*:1: Connection refused"), ("local", "RAY_ADDRESS=local names no"), ("a b", "Invalid")],
)
def test_a_cluster_that_is_not_there_is_one_line(address, told):
    words = [sys.executable, "-c", "from spade.cluster import on_ray as o; o.join_ray().__enter__()"]
    done = subprocess.run(
        words, env={**os.environ, "RAY_ADDRESS": address}, capture_output=True, text=True, check=False
    )
    assert re.search(rf"no Ray cluster can be reached from here \({told}", done.stderr.splitlines()[-1]), done.stderr


def test_one_line_refuses_what_a_cluster_cannot_keep(machines, tmp_path):
    folder = machines.shared / "refused"
    for words, told in (
        (("--set", "engine.gpus=[0]"), "engine.gpus: the cluster chooses GPUs"),
        (
            ("--set", "place.gpus={engine=5}"),
            "engine: asks for 5 GPUs of one machine, and the largest of the cluster has 4",
        ),
        (("--cluster", "slurm"), "--cluster 'slurm': unknown cluster; write --cluster ray"),
        (("--set", "place.resources={agent={CPU=1}}"), "[place]: Ray cannot place 1 CPU, 1 CPU (Use the 'num_cpus'"),
    ):
        done = machines.spade("a", "up", "nano", "--run", folder, "--headless", "--cluster", "ray", *words)
        assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
        assert told in done.stderr
