"""A `spade` command of which any process may be killed, and every process it leaves behind found again."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
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
        return msgspec.json.decode(Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[5], type=Launch)
    return None


def descendants(pid: int) -> list[int]:
    """The living children of a process, theirs, and so on."""
    return [each for child in children(pid) for each in (child, *descendants(child))]


class Command:
    """The processes of one `spade` command, over as many lives of it as it takes."""

    def __init__(self, words: Sequence[str], output: Path, folder: Path | None = None) -> None:
        """`words` follow `python -m`; what the command says is appended to `output`; it works in `folder`."""
        self._words = words
        self.folder = folder
        self.output = output
        output.parent.mkdir(parents=True, exist_ok=True)
        self._process: subprocess.Popen[bytes]
        self.start()

    def start(self) -> None:
        """Start it, or start it again."""
        with self.output.open("ab") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", *self._words],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env=os.environ | {"PYTHONPATH": str(ROOT)},
            )

    @property
    def code(self) -> int | None:
        """The exit code; None while it runs."""
        return self._process.poll()

    def roles(self) -> dict[str, list[int]]:
        """The processes that are up now, by role."""
        found: dict[str, list[int]] = {}
        for pid in children(self._process.pid):
            launch = _launch(pid)
            if launch is not None:
                found.setdefault(launch.role, []).append(pid)
        return found

    def kill(self, pid: int) -> None:
        """SIGKILL one role process."""
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    def die(self) -> None:
        """SIGKILL the command alone."""
        self._process.kill()
        self._process.wait()

    def end(self, within_s: float) -> None:
        """SIGKILL the command alone; whatever it had started has to be gone by itself."""
        self.die()
        self.wait_gone(within_s)

    def end_all(self, within_s: float) -> None:
        """SIGKILL the command and all below it."""
        self._process.send_signal(signal.SIGSTOP)  # it starts nothing more
        for pid in descendants(self._process.pid):
            self.kill(pid)
        self.end(within_s)

    def wait(self, within_s: float) -> int:
        """The exit code of a command that ends by itself, with nothing left."""
        code = self._process.wait(timeout=within_s)
        self.wait_gone(within_s)
        return code

    def interrupt(self, within_s: float) -> int:
        """Ctrl-C; the exit code."""
        self._process.send_signal(signal.SIGINT)
        return self.wait(within_s)

    def stop(self, within_s: float) -> None:
        """Drain everything in order."""
        code = self.interrupt(within_s)
        assert code == 130, f"the command ended with {code}: {self.tail()}"

    def abandon(self) -> None:
        """For a command that failed: nothing of ours is left running."""
        self.end(240.0)

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

    def tail(self) -> str:
        """The last it said."""
        return "\n".join(self.output.read_text(errors="replace").splitlines()[-12:])


class Up(Command):
    """The processes of one run."""

    def __init__(self, run: Path, settings: tuple[str, ...]) -> None:
        self.run = run
        words = [word for setting in settings for word in ("--set", setting)]
        up = ("tests.chaos.up", "up", "--headless", "--run", str(run), *words)
        super().__init__(up, run.parent / f"{run.name}.out")

    def processes(self, role: str, within_s: float) -> list[int]:
        """Those of one role, once there is one."""
        until = time.monotonic() + within_s
        while not (found := self.roles().get(role)):
            assert self.code is None, f"`spade up` ended: {self.tail()}"
            assert time.monotonic() < until, f"no {role} came back: {self.tail()}"
            time.sleep(0.05)
        return found

    def kill_supervisor(self, within_s: float) -> None:
        """SIGKILL the supervisor, then resume the run."""
        self.end(within_s)
        self.start()

    def until(self, reached, within_s: float) -> Status:
        """The first status for which `reached` holds."""
        until, status = time.monotonic() + within_s, Status()
        while time.monotonic() < until:
            assert self.code is None, f"`spade up` ended: {self.tail()}"
            with suppress(SpadeError):  # not up, or killed by us
                status = trio.run(read_status, reach(RunDir(self.run)))
                if reached(status):
                    return status
            time.sleep(0.2)
        raise AssertionError(f"not reached within {within_s:g} s: {status.waiting_for}, step {status.learner_step}")


def _reap() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
