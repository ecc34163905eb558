"""The plays of admission: each has the calls of an agent's play, so that a program cannot tell the two apart."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from actors.environments.probes import Transcript
from actors.sandbox import Sandbox
from actors.sandbox.host import checked
from actors.sandbox.process import Answer, ChildProcess
from actors.sandbox.wire import Loaded, LoadProgram, Request, Reset, Step
from actors.text.conversation import converse
from spade.config import Sandbox as Limits
from spade.errors import RunError
from spade.protocol import Faulted, Observed, Repairs

Policy = Callable[[str], str]


class RejectedError(Exception):
    """The candidate fails the stage that is running."""


class Trials:
    """Plays of one program, each in a process of its own, and the measurements over all of them.

    `name` of the class, `repairs` of the text, `life` (the stage that the last process reached), `slowest_s` of a call,
    `peak_bytes` of memory.
    """

    def __init__(self, sandbox: Sandbox, source: str, limits: Limits, max_turns: int) -> None:
        self.sandbox = sandbox
        self.source = source
        self.limits = limits
        self.max_turns = max_turns
        self.name = ""
        self.repairs: Repairs = ()
        self.life = "class"
        self.slowest_s = 0.0
        self.peak_bytes = 0

    @asynccontextmanager
    async def opened(self, seed: int, twin: int) -> AsyncIterator[tuple[ChildProcess, Observed]]:
        """A fresh process that loaded the program and reset it, and its first observation."""
        process = await self.sandbox.child(self.source, twin)
        if isinstance(process, Faulted):
            raise RunError(f"the sandbox failed: {process.detail}")
        try:
            loaded = await self.ask(process, LoadProgram(self.source, self.max_turns, self.limits.observation_bytes))
            self.name, self.repairs = (loaded.name, loaded.repairs) if isinstance(loaded, Loaded) else ("", ())
            if isinstance(loaded, Loaded) and loaded.tools:
                raise RejectedError("its class extends ToolUseBaseEnv, and programs with tools are not played yet")
            yield process, await self.observe(process, Reset(seed))
        finally:
            self.life = process.stage
            process.kill()

    async def ask(self, process: ChildProcess, request: Request) -> Answer:
        """The program's answer. Raises RejectedError for its fault, RunError for ours."""
        loading, began = isinstance(request, LoadProgram), time.monotonic()
        answer = await process.request(request, self.limits.load_s if loading else self.limits.step_s)
        if not isinstance(answer, Faulted):
            self.slowest_s = max(self.slowest_s, 0.0 if loading else time.monotonic() - began)
            self.peak_bytes = max(self.peak_bytes, process.grown())
            return answer
        if not answer.environment_fault:
            raise RunError(f"the sandbox failed: {answer.detail}")
        raise RejectedError(f"{answer.kind}: {answer.detail}")

    async def observe(self, process: ChildProcess, request: Reset | Step) -> Observed:
        answer = checked(await self.ask(process, request), self.limits)
        if isinstance(answer, Faulted):
            raise RejectedError(f"{answer.kind}: {answer.detail}")
        return answer

    async def play(self, seed: int, policy: Policy, twin: int) -> Transcript:
        """One play to its end, in a process of its own."""
        async with self.opened(seed, twin) as (process, first):

            async def step(_: int, action: str) -> Observed:
                return await self.observe(process, Step(action))

            async def act(seen: Observed) -> str:
                return policy(seen.observation)

            played = await converse(first, self.max_turns, step, act)
        return Transcript(seed, tuple(played.actions), tuple(played.observed))
