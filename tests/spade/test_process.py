"""The entry of role processes, each a real one with the test as its supervisor."""

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from spade.processes.entry import FINAL, READY
from tests.spade.roles import SOON_S, orders


@contextmanager
def process(
    run: Path, behaviour: str, drain_s: float = SOON_S, **changes: str
) -> Iterator[tuple[subprocess.Popen[bytes], socket.socket]]:
    launch = orders(run, "agent-0", behaviour, drain_s=drain_s)
    told = msgspec.json.encode(msgspec.structs.replace(launch, **changes)).decode()
    ours, theirs = socket.socketpair()
    ours.settimeout(SOON_S)
    with ours, theirs, (run / "log").open("wb") as log:
        command = [sys.executable, "-m", "spade.processes", "tests.spade.roles", told, str(theirs.fileno())]
        with subprocess.Popen(command, stderr=log, pass_fds=(theirs.fileno(),)) as child:
            theirs.close()
            try:
                yield child, ours
            finally:
                child.kill()


def heard(pipe: socket.socket) -> bytes:
    """All that the process says until its end."""
    data = b""
    while part := pipe.recv(4_096):
        data += part
    return data


def diary(run: Path) -> list[str]:
    return (run / "diary").read_text().splitlines()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_cancels_the_body_in_order(tmp_path: Path, number: signal.Signals) -> None:
    with process(tmp_path, "steady") as (child, pipe):
        assert pipe.recv(100) == READY
        child.send_signal(number)
        assert child.wait(SOON_S) == 0
        assert heard(pipe) == b""
    assert diary(tmp_path) == [f"agent-0 started {child.pid} as life 0.0", "agent-0 left"]
    assert f"leaving: {number.name}" in (tmp_path / "log").read_text()


def test_it_leaves_in_order_when_its_supervisor_is_gone(tmp_path: Path) -> None:
    with process(tmp_path, "steady") as (child, pipe):
        assert pipe.recv(100) == READY
        pipe.close()
        assert child.wait(SOON_S) == 0
    assert diary(tmp_path)[-1] == "agent-0 left"
    assert "leaving: the supervisor is gone" in (tmp_path / "log").read_text()


@pytest.mark.parametrize("behaviour", ["stubborn", "blocked"])
def test_it_ends_without_its_supervisor_even_if_its_body_does_not(tmp_path: Path, behaviour: str) -> None:
    with process(tmp_path, behaviour, drain_s=0.5) as (child, pipe):
        assert pipe.recv(100) == READY
        pipe.close()
        assert child.wait(SOON_S) == 1


@pytest.mark.parametrize(("behaviour", "code", "line", "traceback"), [
    ("misled", FINAL, b"model.path: no such folder\n", False),
    ("lonely", 1, b"ipc:///nowhere: no answer\n", False),
    ("crash", 1, READY + b"RuntimeError: the sky fell\n", True),
])  # fmt: skip
def test_a_failure_is_said_in_one_line(tmp_path: Path, behaviour: str, code: int, line: bytes, traceback: bool) -> None:
    with process(tmp_path, behaviour) as (child, pipe):
        assert heard(pipe) == line
        assert child.wait(SOON_S) == code
    assert ("Traceback" in (tmp_path / "log").read_text()) == traceback


def test_a_config_that_cannot_be_read_is_final(tmp_path: Path) -> None:
    with process(tmp_path, "steady", config="/no/such.toml") as (child, pipe):
        assert heard(pipe).startswith(b"no config '/no/such.toml'")
        assert child.wait(SOON_S) == FINAL
