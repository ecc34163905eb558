"""A child that judges a player's code. The code is executed in further children, one after the other.

The judging child knows the expected outputs. Each executing child knows only one input. So the code can forge nothing
but its own output.
"""

import socket
from collections.abc import Awaitable, Callable

import trio

from actors.sandbox.inside.messages import EXECUTION_BYTES
from actors.sandbox.process import Answer, ChildProcess
from actors.sandbox.wire import Execute, ExecutionReply, ExecutionRequest, Request, Resume
from spade.protocol import Faulted

VERDICT_S = 5.0
"""Processor seconds of the judging child itself, in addition to the time of its executions."""

FRAME_SPARE_BYTES = 1 << 10
"""Bytes that an answer may have in addition to the output of an execution."""


class JudgingProcess(ChildProcess):
    """A child that judges. `sibling` forks a fresh child of the same zygote with the same limits."""

    def __init__(
        self, sibling: Callable[[], Awaitable[ChildProcess]], channel: socket.socket, base_bytes: int = 0
    ) -> None:
        super().__init__(channel, base_bytes)
        self.frame_bytes = EXECUTION_BYTES
        self._sibling = sibling
        self._executing: ChildProcess | None = None

    async def request(self, request: Request, deadline_s: float) -> Answer | Faulted:
        """Return the answer, after all executions that the child wants.

        All executions together may take `deadline_s`, counted like `counted_s`. Later executions count as failed.
        """
        ends_s = self.counted_s + deadline_s
        answer = await super().request(request, deadline_s)
        try:
            while isinstance(answer, ExecutionRequest):
                output = await self._run_execution(answer, ends_s - self.counted_s)
                if isinstance(output, Faulted):
                    self.end(output)
                    return output
                answer = await super().request(Resume(output), max(ends_s + VERDICT_S - self.counted_s, 0))
        except BaseException:
            self.kill()  # the call was cancelled between two requests
            raise
        return answer

    async def _run_execution(self, wanted: ExecutionRequest, left_s: float) -> str | Faulted | None:
        """Execute code in a sibling. Returns its output, None if the code fails in any way, or a fault of ours."""
        if left_s <= 0:
            return None
        began = trio.current_time()
        process = self._executing = await self._sibling()
        if self._killed:  # while the sibling was forked
            process.kill()
        process.frame_bytes = min(wanted.most_bytes + FRAME_SPARE_BYTES, EXECUTION_BYTES)
        process.left_s = self.left_s / 2  # so that code that sleeps fails a test, and not the play
        try:
            request = Execute(wanted.code, wanted.function, wanted.given)
            answer = await process.request(request, min(wanted.seconds, left_s))
        finally:
            self.counted_s += process.counted_s
            self.left_s -= trio.current_time() - began
            process.kill()
            self._executing = None
        if isinstance(answer, Faulted) and not answer.environment_fault:
            return answer
        return answer.output if isinstance(answer, ExecutionReply) else None

    def kill(self) -> None:
        """Kill the child and the child that executes for it."""
        super().kill()
        if self._executing is not None:
            self._executing.kill()
