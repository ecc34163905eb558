"""Machines that are bought for what has no room, and returned when nothing needs them, by Ray's own autoscaler.

Its provider starts Ray's nodes as further processes of one machine.
"""

import json
import subprocess

import pytest

from tests.ray.lab import SOON_S, lab
from tests.ray.test_run import all_ready, status, until

CONFIG = {
    "cluster_name": "bought",
    "max_workers": 4,
    "idle_timeout_minutes": 0.1,
    "upscaling_speed": 10.0,
    "provider": {
        "type": "fake_multinode",
        "gcs_address": "10.88.0.1:6379",
        "use_node_id_as_ip": True,  # all have one
        "disable_node_updaters": True,
        "disable_launch_config_check": True,
    },
    "head_node_type": "ray.head.default",
    "available_node_types": {
        "ray.head.default": {"resources": {"CPU": 0}, "node_config": {}, "max_workers": 0},
        "worker": {
            "resources": {"CPU": 4, "object_store_memory": 80_000_000},
            "node_config": {},
            "min_workers": 0,
            "max_workers": 4,
        },
    },
    "docker": {}, "auth": {}, "file_mounts": {}, "cluster_synced_files": [], "file_mounts_sync_continuously": False,
    "rsync_exclude": [], "rsync_filter": [], "initialization_commands": [], "setup_commands": [],
    "head_setup_commands": [], "worker_setup_commands": [],
    "head_start_ray_commands": [], "worker_start_ray_commands": [],
}  # fmt: skip


@pytest.fixture
def machines(tmp_path):
    file = tmp_path / "autoscaling.yaml"
    file.write_text(json.dumps(CONFIG))
    with lab(tmp_path) as made:
        bought = {"RAY_FAKE_CLUSTER": "1", "AUTOSCALER_UPDATE_INTERVAL_S": "1"}
        made.add("a", "--num-cpus=0", f"--autoscaling-config={file}", environment=bought)
        yield made


def nodes(machines) -> int:
    """The worker nodes there are."""
    found = subprocess.run(machines.machines["a"].inside("pgrep", "-c", "-x", "raylet"), capture_output=True, text=True)
    return int(found.stdout) - 1


@pytest.mark.slow
def test_what_has_no_room_buys_a_machine_and_one_without_work_is_returned(machines):
    run = machines.shared / "run"
    words = ("up", "nano", "--run", run, "--cluster", "ray", "--headless", "--agents", "2")
    up = machines.start("a", *words, "--set", "bus.silence_s=30", "--set", "supervise.drain_s=20")
    until(lambda: all_ready(machines, run))
    until(lambda: status(machines, run)["learner_step"] >= 1)
    assert nodes(machines) == 2  # for six processes of a CPU each
    done = machines.spade("a", "actors", "scale", run, "agents=6")
    assert done.returncode == 0, done.stderr
    assert nodes(machines) == 3
    done = machines.spade("a", "actors", "scale", run, "agents=1")
    assert done.returncode == 0, done.stderr
    until(lambda: nodes(machines) < 3)
    assert machines.spade("a", "stop", run).returncode == 0
    assert up.communicate(timeout=SOON_S)[0].count("Traceback") == 0
    until(lambda: nodes(machines) == 0)
