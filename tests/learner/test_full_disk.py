"""A disk that is full at any write: what was there stays whole, nothing half is left, and it is told as what it is.

Files may grow to so many bytes (RLIMIT_FSIZE): over it a write fails with EFBIG, as it would with ENOSPC.
"""

import io
import logging
import os
import re
import resource
import sys

import pytest
import torch
from transformers import AutoModelForCausalLM

from learner import checkpoint
from learner.backends import state
from replay.service.journal import Journal
from spade import disk
from spade.errors import RunError
from spade.policy.model import publish, save
from spade.processes import logs
from spade.processes.entry import FINAL, _find_verdict
from spade.protocol import Status, StepMetrics
from tests.peers import alone


def limited(most, work):
    """Do `work` in a child whose files end at `most` bytes; what it raised, as a process tells its supervisor."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        said = "0 done"
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
            work()
        except Exception as error:
            code, line, bug = _find_verdict(error)
            said = f"{code} {line}{' BUG' if bug else ''}"
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told:
        said = told.read()
    os.waitpid(pid, 0)
    return said


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(scope="module")
def model(tiny_checkpoint):
    return AutoModelForCausalLM.from_pretrained(tiny_checkpoint)


@pytest.mark.parametrize("most", [0, 100, 1_000, 5_000, 20_000])
def test_weights_are_published_whole_or_not_at_all(model, tiny_checkpoint, tmp_path, most):
    said = limited(most, lambda: publish(model, tiny_checkpoint, tmp_path))
    assert said.startswith(f"{FINAL} ")
    assert "free some space" in said
    assert "BUG" not in said
    assert names(tmp_path) == []


def test_weights_that_do_not_fit_are_an_error_of_the_system(model, tiny_checkpoint, tmp_path):
    """Commands that write weights, such as `spade pool make`, tell it in one line."""
    said = limited(5_000, lambda: save(model, tiny_checkpoint, tmp_path))
    assert re.search(r"\[Errno \d+\] .*File too large.*'.*model\.safetensors'; free some space", said)


@pytest.mark.parametrize("most", [0, 10, 105])
def test_the_checkpoint_before_stays_and_no_half_one_does(tmp_path, most):
    def save(folder):
        (folder / "state").write_bytes(b"s" * 100)
        return {}

    checkpoint.write(tmp_path, 1, StepMetrics(), save, alone)
    said = limited(most, lambda: checkpoint.write(tmp_path, 2, StepMetrics(), save, alone))
    assert said.startswith(f"{FINAL} ")
    assert f"'{tmp_path}" in said
    assert "free some space" in said
    assert names(tmp_path) == ["step-1"]
    assert checkpoint.find_newest(tmp_path)[1].step == 1


def test_a_state_that_does_not_fit_names_its_file(tmp_path):
    save = state.freeze(state.Counters(1, 0), [("parameter.w", torch.zeros(10_000))], torch.device("cpu"))
    assert f"'{tmp_path / state.FILE}'; free some space" in limited(1_000, lambda: save(tmp_path))


@pytest.mark.parametrize("most", [0, 10])
def test_records_and_the_status_are_replaced_whole_or_not_at_all(tmp_path, most):
    journal = Journal(tmp_path)
    journal.status(Status(run="before"))
    before = (tmp_path / "status.json").read_bytes()
    assert limited(most, lambda: journal.status(Status(run="after"))).startswith(f"{FINAL} ")
    assert limited(most, lambda: journal.event("start", 1.0)).startswith(f"{FINAL} ")
    assert (tmp_path / "status.json").read_bytes() == before
    assert not [name for name in names(tmp_path) if name.endswith(".part")]
    Journal(tmp_path).event("resume", 2.0)
    assert (tmp_path / "metrics.jsonl").read_text().endswith("\n")


def test_a_file_that_appears_whole_leaves_nothing_else(tmp_path):
    def make():
        with disk.write_whole(tmp_path / "out") as part:
            part.mkdir()
            (part / "one").write_bytes(b"x" * 100)

    (tmp_path / "out.part").mkdir()  # somebody's own
    said = limited(10, make)
    assert said.startswith(f"{FINAL} {tmp_path / 'out'}: was not made (File too large); no part of it remains")
    assert names(tmp_path) == ["out.part"]
    make()
    assert names(tmp_path / "out") == ["one"]
    with pytest.raises(RunError, match="exists already"):
        make()


def test_a_log_that_cannot_be_written_is_said_once_and_nothing_fails(tmp_path):
    def work():
        sys.stderr = io.StringIO()
        logger = logging.Logger("one")
        logger.addHandler(logs.File(tmp_path / "log"))
        for number in range(50):
            logger.info("line %d", number)
        raise RunError(sys.stderr.getvalue())

    assert (
        limited(20, work).removeprefix(f"{FINAL} ").startswith(f"{tmp_path / 'log'}: lines are lost (File too large)")
    )
    assert limited(20, work).count("lines are lost") == 1
