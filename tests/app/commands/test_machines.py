"""The line of a machine of a cluster, and the reasons that make it unfit for a run."""

import time
from importlib import metadata

import pytest
from msgspec.structs import replace

from spade.app.commands.cluster.machines import CLOCK_S, MachineReport, describe_machine, list_faults, look
from spade.cluster.needs import Machine
from spade.config import load
from spade.protocol import PROTOCOL_VERSION

MACHINE = Machine("10.0.0.2", "b", {"CPU": 4.0, "GPU": 2.0, "memory": 8e9, "node:10.0.0.2": 1.0, "big": 1.0})
FOUND = MachineReport(
    version=metadata.version("spade-rl"), protocol=PROTOCOL_VERSION, gpus=2, sees_run=True, tier="landlock",
    lacking="", began=100.0, now=101.0,
)  # fmt: skip
PINNED = "place.resources={learner={huge=1},env-runner={huge=1}}"


def faults(found, *settings, sent=100.0, arrived=101.0):
    return list_faults(MACHINE, found, sent, arrived, load("nano", settings))


def test_a_fit_machine_is_described_in_a_line():
    assert faults(FOUND) == []
    version = metadata.version("spade-rl")
    assert (
        describe_machine(MACHINE, FOUND)
        == f"spade {version}; 4 CPUs, 2 GPUs, 1 big; sees the run directory; sandbox landlock"
    )
    bare = replace(FOUND, sees_run=None, tier="")
    assert (
        describe_machine(MACHINE, bare)
        == f"spade {version}; 4 CPUs, 2 GPUs, 1 big; no sandbox, which only env-runners need"
    )


@pytest.mark.parametrize(("fields", "told"), [
    ({"protocol": 1}, "with protocol 1, this machine"),
    ({"gpus": 1}, "the cluster promises 2 GPUs, and torch sees 1"),
    ({"sees_run": False}, "does not see the run directory, and the learner may be placed here"),
    ({"tier": "", "lacking": "no sandbox holds here"}, "no sandbox holds here"),
    ({"began": 90.0, "now": 91.0}, "its clock is off by 10 s or more"),
    ({"began": 110.0, "now": 111.0}, "its clock is off by 10 s or more"),
])  # fmt: skip
def test_a_fault_is_told(fields, told):
    (fault,) = faults(replace(FOUND, **fields))
    assert told in fault


def test_what_only_some_roles_need_is_no_fault_where_they_cannot_be_placed():
    assert faults(replace(FOUND, sees_run=False, tier="", lacking="none"), PINNED) == []


@pytest.mark.parametrize("off", [0.0, 0.9 * CLOCK_S, -0.9 * CLOCK_S])
def test_a_slow_answer_of_a_good_clock_is_no_fault(off):
    """It was asked at 100, began at 140, answered at 141 and was heard at 190."""
    assert faults(replace(FOUND, began=140.0 + off, now=141.0 + off), sent=100.0, arrived=190.0) == []


def test_this_machine_sees_its_own_run_and_its_tier(tmp_path):
    (tmp_path / "run.json").write_bytes(b"{}")
    before = time.time()
    found = look(0, str(tmp_path), b"{}")
    assert (found.sees_run, found.tier != "", found.lacking) == (True, True, "")
    assert before <= found.began <= found.now <= time.time()
    assert look(0, "", b"").sees_run is None
