"""`spade profile` of one real run of nano, which all tests of this file look at."""

import json
import time

import pytest

from spade.app import door
from spade.errors import SpadeError
from spade.protocol import Status
from tests.app.commands.test_pool import run_spade

SOON_S = 600.0  # a busy machine takes long to start
SMALL = {
    "design.active_environments": 6, "design.round_jobs": 3, "play.group_size": 4, "play.window_chunks": 1,
    "learner.batch_sequences": 16, "evaluation.suite": "", "evaluation.diversity_programs": 0,
}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run that plays."""
    with door.start("nano", run=tmp_path_factory.mktemp("runs") / "run", settings=SMALL) as started:
        until = time.monotonic() + SOON_S
        while read_status(started).counts.plays == 0:
            assert started.up
            assert time.monotonic() < until
            time.sleep(0.3)
        yield started


def read_status(run):
    try:
        return run.status
    except SpadeError:  # not up yet
        return Status()


@pytest.fixture(scope="module")
def found(run):
    code, told = run_spade("profile", str(run.path), "--for", "3s", "--json")
    assert code == 0, told
    return json.loads(told)


def test_every_process_has_its_time(run, found):
    status = run.status
    names = {process.name for process in status.processes} | {process.supervisor for process in status.processes}
    assert {cost["name"] for cost in found["processes"]} == names
    assert found["elsewhere"] == 0
    assert found["seconds"] >= 3
    assert min(min(cost["own_s"], cost["children_s"]) for cost in found["processes"]) >= 0
    assert sum(cost["children_s"] > 0 for cost in found["processes"]) == 1, "the env-runner has sandboxed programs"


def test_the_parts_add_up_to_the_processes(found):
    whole = sum(cost["own_s"] + cost["children_s"] for cost in found["processes"])
    assert sum(part["seconds"] for part in found["parts"]) == pytest.approx(whole)
    assert sum(part["share"] for part in found["parts"]) == pytest.approx(1)
    for cost in found["processes"]:
        assert sum(found["parts_by_process"][cost["name"]].values()) == pytest.approx(
            cost["own_s"] + cost["children_s"]
        )


def test_stacks_of_every_process_were_sampled(found):
    assert found["missing"] == ""
    assert {"sandboxed programs", "model arithmetic"} <= {part["part"] for part in found["parts"]}


def test_tokens_were_counted(found):
    tokens = {row["what"].strip(): row["tokens"] for row in found["tokens"]}
    assert tokens["engines: tokens of prompts"] == tokens["found in the key-value store"] + tokens["computed"] > 0
    assert tokens["engines: sampled tokens"] > 0


def test_a_person_reads_the_same(run):
    code, told = run_spade("profile", str(run.path), "--for", "1s")
    assert code == 0, told
    assert "processor seconds" in told
    assert "gain if it were free" in told
    assert "env-runner-0" in told
