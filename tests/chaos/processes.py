"""A `spade up` of which any process may be killed, and every process it leaves behind found again."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import msgspec
import trio

from spade.app.rundir import RunDir
from spade.app.screen.observe import read_status
from spade.app.screen.reach import reach
from spade.errors import SpadeError
from spade.processes.entry import Launch
from spade.protocol import Status

PR_SET_CHILD_SUBREAPER = 36
ROOT = Path(__file__).parents[2]
SUPERVISOR = "supervisor"


def adopt_orphans() -> None:
    """From now on what our descendants leave behind becomes our child, so that nothing can hide."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def children(pid: int) -> list[int]:
    """The living children of a process."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, parent = stat.read_text().rsplit(")", 1)[1].split()[:2]
            if int(parent) == pid and state != "Z":
                found.append(int(stat.parent.name))
    return found


def _launch(pid: int) -> Launch | None:
    """The orders of a role process; None of any other, or of one that is gone or not yet itself."""
    with suppress(OSError, IndexError, msgspec.DecodeError):
        return msgspec.json.decode(Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[4], type=Launch)
    return None


class Up:
    """The processes of one run, over as many lives of its supervisor as it takes."""

    def __init__(self, run: Path, settings: tuple[str, ...]) -> None:
        self.run = run
        self._settings = [word for setting in settings for word in ("--set", setting)]
        self.output = run.parent / f"{run.name}.out"
        run.parent.mkdir(parents=True, exist_ok=True)
        self._process: subprocess.Popen[bytes]
        self.start()

    def start(self) -> None:
        """Start or resume the run."""
        command = [sys.executable, "-m", "tests.chaos.up", "up", "--headless", "--run", str(self.run), *self._settings]
        with self.output.open("ab") as file:
            self._process = subprocess.Popen(
                command, stdout=file, stderr=subprocess.STDOUT, env=os.environ | {"PYTHONPATH": str(ROOT)}
            )

    def roles(self) -> dict[str, list[int]]:
        """The processes that are up now, by role."""
        found: dict[str, list[int]] = {}
        for pid in children(self._process.pid):
            launch = _launch(pid)
            if launch is not None:
                found.setdefault(launch.role, []).append(pid)
        return found

    def processes(self, role: str, within_s: float) -> list[int]:
        """Those of one role, once there is one."""
        until = time.monotonic() + within_s
        while not (found := self.roles().get(role)):
            assert self._process.poll() is None, f"`spade up` ended: {self.tail()}"
            assert time.monotonic() < until, f"no {role} came back: {self.tail()}"
            time.sleep(0.05)
        return found

    def kill(self, pid: int) -> None:
        """SIGKILL one role process."""
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    def kill_supervisor(self, within_s: float) -> None:
        """SIGKILL the supervisor; whatever it had started has to be gone by itself, then the run is resumed."""
        self._process.kill()
        self._process.wait()
        self.wait_gone(within_s)
        self.start()

    def stop(self, within_s: float) -> None:
        """Drain everything in order."""
        self._process.send_signal(signal.SIGINT)
        code = self._process.wait(timeout=within_s)
        assert code == 0, f"`spade up` ended with {code}: {self.tail()}"
        self.wait_gone(within_s)

    def abandon(self) -> None:
        """For a run that failed: nothing of ours is left running."""
        with suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()
        self.wait_gone(240.0)

    def wait_gone(self, within_s: float) -> None:
        """Until we have no child left, orphans included."""
        until = time.monotonic() + within_s
        while left := children(os.getpid()):
            if time.monotonic() > until:
                names = [Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")[:200] for pid in left]
                for pid in left:
                    self.kill(pid)
                raise AssertionError(f"processes left behind after {within_s:g} s: {names}")
            _reap()
            time.sleep(0.05)
        _reap()

    def until(self, reached, within_s: float) -> Status:
        """The first status for which `reached` holds."""
        until, status = time.monotonic() + within_s, Status()
        while time.monotonic() < until:
            assert self._process.poll() is None, f"`spade up` ended: {self.tail()}"
            with suppress(SpadeError):  # not up, or killed by us
                status = trio.run(read_status, reach(RunDir(self.run)))
                if reached(status):
                    return status
            time.sleep(0.2)
        raise AssertionError(f"not reached within {within_s:g} s: {status.waiting_for}, step {status.learner_step}")

    def tail(self) -> str:
        """The last it said."""
        return "\n".join(self.output.read_text(errors="replace").splitlines()[-12:])


def _reap() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
