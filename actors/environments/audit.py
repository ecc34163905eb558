"""An audit, run: recorded plays again, then random actions on instances that were won.

It finds programs that answer the same seed and actions otherwise than before, programs that any actions win, and
programs that use up the time of their audit. A try that a deadline or a fault of ours ended proves nothing: it is made
again, at most twice.
"""

import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import trio

from actors.environments.domains import DOMAINS, Sent
from actors.environments.offers import offered
from actors.sandbox import Sandbox
from actors.text.actions import action_typed
from actors.text.conversation import Conversation, Move, Player, converse
from spade.codec import answer_digest
from spade.config import DomainName
from spade.protocol import DIGEST_BYTES, Audited, AuditJob, Faulted, Observed, RecordedPlay
from spade.returns import won

TRIES = 3

Result = TypeVar("Result")


async def audit(sandbox: Sandbox, job: AuditJob, domain: DomainName = "games") -> Audited:
    """Run an audit of a program of the domain.

    If it is not over within `within_s`, that is a finding only if the program took the time.
    """
    auditor = Auditor(sandbox, job, domain)
    began = trio.current_time()
    with trio.move_on_after(job.within_s) as scope:
        await auditor.run()
    if scope.cancelled_caught:
        auditor.cut_off()
    return Audited(
        environment=job.environment,
        lease=job.lease,
        finding=auditor.findings[0] if auditor.findings else "",
        replays=auditor.replays,
        left_out=len(job.replays) - auditor.replays,
        plays=auditor.plays,
        wins=auditor.wins,
        steps=auditor.steps,
        seconds=trio.current_time() - began,
    )


class UndecidedError(Exception):
    """A try proved nothing; `ours` if the program is not to blame."""

    def __init__(self, ours: bool) -> None:
        self.ours = ours


class Auditor:
    """One audit under way, and its results so far."""

    def __init__(self, sandbox: Sandbox, job: AuditJob, domain: DomainName) -> None:
        self.findings: list[str] = []
        self.replays = self.plays = self.wins = self.steps = 0
        self._sandbox = sandbox
        self._job = job
        self._guesser = DOMAINS[domain].guesser
        self._rng = random.Random(job.draw)
        self._sent: dict[tuple[int, str], Sent] = {}  # of replays, by seed and play
        self._opened = 0
        self._answering_s = 0.0

    async def run(self) -> None:
        """Run the recorded plays, arms mixed, half one by one and half at once; then random plays."""
        replays = list(self._job.replays)
        self._rng.shuffle(replays)
        for replay in replays[::2]:
            await self._replay(replay)
        async with trio.open_nursery() as nursery:
            for replay in replays[1::2]:
                nursery.start_soon(self._replay, replay)
        if not self.findings:
            await self._play_at_random()

    def cut_off(self) -> None:
        """The time is over: a finding if the program's own calls took most of it."""
        within_s = self._job.within_s
        if self._answering_s > within_s / 2:
            took = f"its answers took {self._answering_s:.1f} s, in {self.steps} steps"
            self.findings.append(f"{took}, and its audit was not over within {within_s:g} s")

    async def _replay(self, replay: RecordedPlay) -> None:
        """Run a recorded play again. It did not time out before, so it is a finding if every try does now."""
        try:
            finding = await decided(partial(self._compare, replay))
        except UndecidedError as undecided:
            if not undecided.ours:
                self.findings.append(f"play {replay.play} was run again and timed out in each of {TRIES} tries")
            return
        self.replays += 1
        if finding:
            self.findings.append(f"play {replay.play} was run again and {finding}")

    async def _compare(self, replay: RecordedPlay) -> str:
        """The difference to the record, "" if there is none."""
        recording = replay.recording
        expected = [recording.answers[at : at + DIGEST_BYTES] for at in range(0, len(recording.answers), DIGEST_BYTES)]
        sent = list(map(Move, recording.actions, recording.calls or ((),) * len(recording.actions)))
        moves = iter(sent)

        async def again(_: Observed) -> Move | None:
            return next(moves, None)

        answers = (await self._play(replay.seed, recording.max_turns, again)).answers
        self._sent[replay.seed, replay.play] = [
            (move, await is_missed(move, answer))
            for move, answer in zip(sent, answers, strict=False)
            if isinstance(answer, Observed)
        ]
        last = answers[-1]
        if isinstance(last, Faulted):
            return f"failed at turn {len(answers) - 1} with {last.kind}: {last.detail}"
        for turn, (answer, digest) in enumerate(zip(answers, expected, strict=False)):
            if isinstance(answer, Observed) and answer_digest(answer) != digest:
                return f"answered turn {turn} otherwise than recorded"
        return "" if len(answers) == len(expected) else f"ended at turn {len(answers) - 1}"

    async def _play_at_random(self) -> None:
        """Play random actions until enough plays are won, or too few are left to win enough."""
        job = self._job
        for left, seed in zip(range(len(job.seeds), 0, -1), job.seeds, strict=True):
            if not self.wins < job.wins <= self.wins + left:
                break
            try:
                won = await decided(partial(self._win_at_random, seed))
            except UndecidedError:
                continue
            self.plays += 1
            self.wins += won
        if self.wins >= job.wins:
            self.findings.append(f"random actions win {self.wins} of {self.plays} plays on instances that were won")

    async def _win_at_random(self, seed: int) -> bool:
        policy = self._guesser(self._rng, self._job.reads, self._sent_elsewhere(seed))

        async def anything(seen: Observed) -> Move:
            return policy(seen)

        played = await self._play(seed, self._job.max_turns, anything)
        return won(played.episode_return, self._job.win_return)

    def _sent_elsewhere(self, seed: int) -> Sent:
        """Return what agents sent on other instances: their moves on this one may be its answer."""
        return [each for (other, _), sent in self._sent.items() if other != seed for each in sent]

    async def _play(self, seed: int, max_turns: int, player: Player[Move]) -> Conversation[Move]:
        """Play to the end or the first fault. Raises UndecidedError if that proves nothing."""
        self._opened += 1
        name = f"audit of {self._job.environment}#{self._job.lease}, {self._opened}"

        async def step(turn: int, move: Move) -> Observed | Faulted:
            answer = await self._timed(self._sandbox.step(name, turn, move.action, move.calls))
            self.steps += 1
            return answer

        try:
            first = await self._timed(self._sandbox.open(name, self._job.source, seed, max_turns))
            played = await converse(first, max_turns, step, player)
        finally:
            self._sandbox.close(name)
        last = played.answers[-1]
        if isinstance(last, Faulted) and (last.kind == "timeout" or not last.environment_fault):
            raise UndecidedError(ours=last.kind != "timeout")
        return played

    async def _timed(self, asked: Awaitable[Observed | Faulted]) -> Observed | Faulted:
        began = trio.current_time()
        answer = await asked
        if not isinstance(answer, Faulted) or answer.environment_fault:
            self._answering_s += trio.current_time() - began
        return answer


async def is_missed(move: Move, seen: Observed) -> bool:
    """Return whether the observation before a move does not offer its action."""
    await trio.lowlevel.checkpoint()  # reading a text takes its time: other tasks may run in between
    return not move.calls and not offered(seen.observation).has(action_typed(move.action))


async def decided(once: Callable[[], Awaitable[Result]]) -> Result:
    """The first result in TRIES tries. Raises UndecidedError if none has one; `ours` if any try failed by our fault."""
    ours = False
    for _ in range(TRIES):
        try:
            return await once()
        except UndecidedError as undecided:
            ours = ours or undecided.ours
    raise UndecidedError(ours)
