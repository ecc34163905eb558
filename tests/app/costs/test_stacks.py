"""Stacks and the parts that they belong to."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from spade.app.costs.profile import PartCost, rank_parts
from spade.app.costs.stacks import OTHER, PARTS, count_parts, find_part, split_seconds

ROOT = Path(__file__).parents[3]
LOOP = "run (trio/_core/_run.py:2543);unrolled_run (trio/_core/_run.py:2700)"
MAIN = "<module> (spade/processes/__main__.py:12);main (spade/processes/entry.py:103)"


@pytest.mark.parametrize(
    ("stack", "part"),
    [
        ("step (actors/engines/torch/engine.py:130);__call__ (actors/engines/torch/dense.py:70)", "model arithmetic"),
        ("step (actors/engines/torch/engine.py:130);sample (actors/engines/torch/sampling.py:9)", "sampling"),
        ("_admit (actors/engines/torch/engine.py:130)", "engine: plans and keys"),
        (
            "train (learner/backends/torch.py:60);backward (torch/_tensor.py:5);run (torch/autograd/graph.py:8)",
            "model arithmetic",
        ),
        ("_write_checkpoint (learner/writer.py:160);save (learner/backends/state.py:73)", "weights and checkpoints"),
        ("_write_checkpoint (learner/writer.py:160);link_folder (spade/disk.py:119)", "weights and checkpoints"),
        (f"{MAIN};{LOOP};activate (trio/_core/_run.py:800)", "event loop"),
        (f"{MAIN};{LOOP};receive (spade/transport/server.py:90);decode_request (spade/codec.py:25)", "coding"),
        (f"{MAIN};{LOOP};handle (replay/service/service.py:90);commit (replay/store/store.py:25)", "store"),
        (
            "<module> (actors/roles/agent.py:5);_load (<frozen importlib._bootstrap>:1);<module> (torch/a.py:1)",
            "imports",
        ),
        ("wait (threading.py:10)", OTHER),
    ],
)
def test_the_innermost_frame_with_a_part_decides(stack, part):
    assert find_part(stack) == part


def test_every_path_of_the_table_exists():
    """A module that moves must not lose its part silently."""
    missing = [path for path in PARTS if not path.startswith("<") and not (ROOT / path).exists()]
    assert missing == []


def test_samples_divide_the_time_of_a_process():
    counts = count_parts(
        ["f (replay/ledger/ledger.py:1) 3\n", "f (zmq/a.py:1);g (spade/codec.py:1) 1\n", "py-spy> x\n"]
    )
    assert counts == Counter({"ledger": 3, "coding": 1})
    assert split_seconds(8.0, counts) == {"ledger": 6.0, "coding": 2.0}
    assert split_seconds(8.0, {}) == {OTHER: 8.0}


def test_an_event_loop_that_waits_does_not_work():
    counts = count_parts([f"{MAIN};{LOOP};get_events (trio/_core/_io_epoll.py:243) 9", f"{MAIN};{LOOP} 2"])
    assert counts == Counter({"event loop": 2})


def test_the_gain_is_the_factor_if_the_part_were_free():
    assert rank_parts({"engine-0": {"sampling": 1.0, "coding": 2.0}, "replay": {"coding": 1.0}}, 4.0) == (
        PartCost("coding", 3.0, 0.75, 4.0),
        PartCost("sampling", 1.0, 0.25, 4 / 3),
    )


SAMPLING = """
import shutil, signal, sys, trio
from spade.app.costs import stacks
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup
shutil.which = lambda *_, **__: sys.argv[1]
trio.run(stacks.sample_stacks, [1, 2], 60)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_no_sampler_and_no_file(tmp_path, number):
    begun, temporary, program = tmp_path / "begun", tmp_path / "temporary", tmp_path / "py-spy"
    for folder in (begun, temporary):
        folder.mkdir()
    program.write_text(f"#!/bin/sh\ntouch {begun}/$$\nexec sleep 60\n")
    program.chmod(0o755)
    command = [sys.executable, "-c", SAMPLING, str(program)]
    with subprocess.Popen(command, env={**os.environ, "TMPDIR": str(temporary)}, stderr=subprocess.PIPE) as process:
        until = time.monotonic() + 60
        while len(list(begun.iterdir())) < 2:
            assert time.monotonic() < until
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(number)
        _, error = process.communicate(timeout=60)
    left = [file.name for file in begun.iterdir() if Path("/proc", file.name).exists()]
    for pid in left:
        os.kill(int(pid), signal.SIGKILL)
    assert b"KeyboardInterrupt" in error
    assert left == []
    assert list(temporary.iterdir()) == []
