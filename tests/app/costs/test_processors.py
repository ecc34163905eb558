"""Processor time of a run's processes: whose it is, and that none is lost when a child ends."""

import os

import pytest

from spade.app.costs.processors import (
    MachineTimes,
    ProcessCost,
    ProcessTimes,
    compute_costs,
    find_processes,
    parse_times,
    read_times,
)
from spade.protocol import Process

TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def test_a_name_with_parentheses_and_spaces():
    fields = " ".join(["S", "7", *["0"] * 9, "100", "20", "30", "4", *["0"] * 20])
    assert parse_times(f"5 (a) (b c) {fields}") == pytest.approx((7, 120 * TICK_S, 34 * TICK_S))


def test_this_process_is_read():
    mine = read_times().processes[os.getpid()]
    assert mine.parent == os.getppid()
    assert mine.own_s > 0


def test_a_process_of_another_machine_is_not_taken_for_ours():
    """This process has the reported id, but its command line does not name a role."""
    assert find_processes([Process("agent-0", "agent", os.getpid(), "ready", 0)], read_times()) == {}


def test_time_below_a_process_is_counted_once_however_its_children_end():
    """1 supervises 2 and 3. 2 has the child 4, whose children 5 and 6 play: 5 ends in between, 7 is born."""
    names = {1: "supervisor", 2: "env-runner-0", 3: "agent-0"}
    before = {
        1: ProcessTimes(0, 1.0, 50.0), 2: ProcessTimes(1, 2.0, 0.0), 3: ProcessTimes(1, 3.0, 0.0),
        4: ProcessTimes(2, 1.0, 10.0), 5: ProcessTimes(4, 0.5, 0.0), 6: ProcessTimes(4, 0.25, 0.0),
    }  # fmt: skip
    after = {
        1: ProcessTimes(0, 1.5, 60.0), 2: ProcessTimes(1, 4.0, 0.0), 3: ProcessTimes(1, 3.0, 0.0),
        4: ProcessTimes(2, 1.0, 11.0), 6: ProcessTimes(4, 0.5, 0.0), 7: ProcessTimes(4, 0.125, 0.0),
        8: ProcessTimes(0, 9.0, 9.0),
    }  # fmt: skip
    assert compute_costs(names, MachineTimes(0, 0, before), MachineTimes(0, 0, after)) == [
        ProcessCost("env-runner-0", 2, 2.0, 11.0 + 0.5 + 0.125 - 10.0 - 0.5 - 0.25),
        ProcessCost("supervisor", 1, 0.5, 0.0),
        ProcessCost("agent-0", 3, 0.0, 0.0),
    ]


def test_a_process_that_started_in_between_counts_from_its_start():
    after = {2: ProcessTimes(1, 4.0, 1.0)}
    found = compute_costs({2: "learner", 3: "engine-0"}, MachineTimes(0, 0, {}), MachineTimes(0, 0, after))
    assert found == [ProcessCost("learner", 2, 4.0, 1.0)]
