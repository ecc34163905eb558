"""Play a program for admission. The calls are those of an agent's play, so that the program cannot tell them apart."""

import random
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Generic

from actors.environments.probes import Action, Transcript
from actors.sandbox import Sandbox
from actors.sandbox.host import check_answer
from actors.sandbox.process import Answer, ChildProcess
from actors.sandbox.wire import Act, LoadProgram, LoadReply, Request, Reset, Step
from actors.text.conversation import play_conversation
from spade.config import DOMAINS, DomainName, Play
from spade.config import Sandbox as Limits
from spade.errors import RunError
from spade.protocol import Faulted, Observed, Repairs
from spade.seeds import INSTANCE_MASK, derive

SOLVED_PLAYS = 2
"""Number of instances whose solution is played."""
MOST_HEARD = 64 << 20
"""Limit of the texts of all plays of an admission, in bytes. A test of luck keeps hundreds of plays."""

Policy = Callable[[Observed], Action]


class RejectedError(Exception):
    """The candidate fails the stage that is running."""


class Trials(Generic[Action]):
    """Plays of one program, each in a process of its own, and the measurements over all plays.

    `request` makes the request for an action. A program of another domain than `domain` is rejected.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        source: str,
        limits: Limits,
        max_turns: int,
        request: Callable[[Action], Step | Act],
        domain: DomainName,
    ) -> None:
        self.sandbox = sandbox
        self.source = source
        self.limits = limits
        self.max_turns = max_turns
        self.request = request
        self.domain = domain
        self.name = ""
        """The name of the program's class."""
        self.repairs: Repairs = ()
        """The repairs of the program's text."""
        self.life = "class"
        """The stage that the program reached in the last process (`ChildProcess.stage`)."""
        self.slowest_s = 0.0
        """The time of the slowest call after loading, counted as in `ChildProcess.counted_s`."""
        self.counted_s = 0.0
        """The time of all calls, counted as in `ChildProcess.counted_s`."""
        self.patience_s = limits.load_s + 4 * limits.step_s
        """Limit of the time of all calls together. The tests of luck raise it with each play."""
        self.peak_bytes = 0
        """The largest memory growth of a process since its fork."""

    @asynccontextmanager
    async def opened(self, seed: int, twin: int) -> AsyncIterator[tuple[ChildProcess, Observed]]:
        """Load and reset the program in a fresh process. Yields the process and the first observation."""
        process = await self.sandbox.child(self.source, twin)
        if isinstance(process, Faulted):
            raise RunError(f"the sandbox failed: {process.detail}")
        try:
            loaded = await self.ask(process, LoadProgram(self.source, self.max_turns))
            self.name, self.repairs = (loaded.name, loaded.repairs) if isinstance(loaded, LoadReply) else ("", ())
            if isinstance(loaded, LoadReply) and loaded.domain != self.domain:
                base = DOMAINS[loaded.domain].base
                extends = f"extends {base}" if base else f"does not extend {DOMAINS[self.domain].base}"
                raise RejectedError(f"its class {extends}, but a program of the domain {self.domain} is wanted")
            yield process, await self.observe(process, Reset(seed))
        finally:
            self.life = process.stage
            process.kill()

    async def ask(self, process: ChildProcess, request: Request) -> Answer:
        """Return the program's answer. Raises RejectedError for a fault of the program, RunError for our own fault."""
        loading, before_s = isinstance(request, LoadProgram), process.counted_s
        answer = await process.request(request, self.limits.load_s if loading else self.limits.step_s)
        took_s = process.counted_s - before_s
        self.counted_s += took_s
        if not isinstance(answer, Faulted):
            if self.counted_s > self.patience_s:
                raise RejectedError(f"all stages together take more than {self.patience_s:g} s")
            self.slowest_s = max(self.slowest_s, 0.0 if loading else took_s)
            self.peak_bytes = max(self.peak_bytes, process.grown())
            return answer
        if not answer.environment_fault:
            raise RunError(f"the sandbox failed: {answer.detail}")
        raise RejectedError(f"{answer.kind}: {answer.detail}")

    async def observe(self, process: ChildProcess, request: Reset | Step | Act) -> Observed:
        calls = len(request.calls) if isinstance(request, Act) else 0
        answer = check_answer(await self.ask(process, request), self.limits, calls)
        if isinstance(answer, Faulted):
            raise RejectedError(f"{answer.kind}: {answer.detail}")
        return answer

    async def play(self, seed: int, policy: Policy[Action], twin: int) -> Transcript[Action]:
        """Play to the end in a fresh process."""
        async with self.opened(seed, twin) as (process, first):
            return await self.finish(process, seed, first, policy)

    async def finish(
        self, process: ChildProcess, seed: int, first: Observed, policy: Policy[Action]
    ) -> Transcript[Action]:
        """Play to the end in a process that answered `reset`."""

        async def step(_: int, action: Action) -> Observed:
            return await self.observe(process, self.request(action))

        async def act(seen: Observed) -> Action:
            return policy(seen)

        played = await play_conversation(first, self.max_turns, step, act)
        return Transcript(seed, tuple(played.actions), tuple(played.observed))


class Probing(Generic[Action]):
    """Plays of one program under secret instance seeds, and their `transcripts`. The secret seeds are derived from the
    argument `seed`."""

    def __init__(self, trials: Trials[Action], seed: int, play: Play) -> None:
        self.trials = trials
        self.win_return = play.win_return
        self.key = (seed % 2**64).to_bytes(8, "little")  # a message may carry any integer
        self.rng = random.Random(derive(self.key, "probe"))
        self.transcripts: list[Transcript[Action]] = []
        self.heard = 0

    def seed(self, index: int) -> int:
        """Derive a secret instance seed."""
        return derive(self.key, "instance", index) & INSTANCE_MASK

    def keep(self, transcript: Transcript[Action]) -> None:
        """Keep a transcript. Raises RejectedError if the texts of all transcripts take too much memory."""
        self.heard += sum(
            sys.getsizeof(text)
            for answer in transcript.answers
            for text in (answer.observation, answer.tools, *(result.text for result in answer.results))
        )
        if self.heard > MOST_HEARD:
            raise RejectedError(f"the observations of all plays take more than {MOST_HEARD >> 20} MiB")
        self.transcripts.append(transcript)


def make_policy(actions: list[Action], nothing: Action) -> Callable[[object], Action]:
    """Return a policy that takes one action after the other from the list, then does nothing."""
    return lambda _: actions.pop(0) if actions else nothing
