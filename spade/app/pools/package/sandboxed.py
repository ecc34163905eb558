"""Run programs behind the sandbox of SPADE. Each process has one sandbox, which lives in a thread of its own."""

import atexit
import os
from contextlib import ExitStack
from functools import cache
from itertools import count
from threading import Lock
from typing import NamedTuple

import msgspec
from anyio.from_thread import BlockingPortal, start_blocking_portal
from trio.lowlevel import in_trio_run

from actors.sandbox import Sandbox, open_sandbox
from spade.config import Sandbox as Limits
from spade.protocol import Faulted, Observed

from .playing import SETTINGS, PackagedProgram, TurnResult

_numbers = count()
_starting = Lock()


class SandboxThread(NamedTuple):
    """A sandbox, and the portal through which other threads call it."""

    portal: BlockingPortal
    sandbox: Sandbox


@cache
def _start_sandbox(process: int) -> SandboxThread:
    """Start the sandbox of a process. A forked process gets its own. The sandbox ends with its process."""
    if in_trio_run():
        raise RuntimeError("an environment blocks; from trio, play it in a thread (trio.to_thread.run_sync)")
    with ExitStack() as stack:
        portal = stack.enter_context(start_blocking_portal("trio"))
        limits = msgspec.convert(SETTINGS["sandbox"], Limits)
        sandbox = stack.enter_context(portal.wrap_async_context_manager(open_sandbox(limits)))
        close = stack.pop_all().close
    atexit.register(lambda: close() if os.getpid() == process else None)
    return SandboxThread(portal, sandbox)


def _find_sandbox() -> SandboxThread:
    """Return the sandbox of this process. Threads that ask at the same time get the same one."""
    with _starting:
        return _start_sandbox(os.getpid())


class SandboxedProgram(PackagedProgram):
    """A program in a process of its own, without files and network."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._episode = f"{name}-{next(_numbers)}"
        self._opened = False

    def close(self) -> None:
        """End the program's process."""
        if self._opened:
            thread = _find_sandbox()
            thread.portal.call(thread.sandbox.close, self._episode)

    def _begin(self, seed: int) -> str:
        self._opened = True
        thread = _find_sandbox()
        answer = thread.portal.call(thread.sandbox.open, self._episode, self.source, seed, SETTINGS["max_turns"])
        return _check(answer).observation

    def _play(self, action: str, turn: int) -> TurnResult:
        thread = _find_sandbox()
        answer = _check(thread.portal.call(thread.sandbox.step, self._episode, turn, action))
        return TurnResult(answer.observation, answer.reward, answer.terminated, answer.truncated)


make_program = SandboxedProgram


def _check(answer: Observed | Faulted) -> Observed:
    """Return an answer of the program. Raises RuntimeError for a fault."""
    if isinstance(answer, Faulted):
        raise RuntimeError(f"the program failed ({answer.kind}): {answer.detail}")
    return answer
