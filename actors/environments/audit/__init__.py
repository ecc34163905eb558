"""Run an audit of a program.

An audit repeats recorded plays, plays random actions on instances that were won, and plays the solution on instances
that nobody won. It finds:

* programs that answer the same seed and actions differently than before
* programs that random actions win
* hints that state a word which a play or the solution needs and no player can find
* programs that use up the time of their audit

It also counts the lost instances that the solution wins. A play proves nothing if it ended by a timeout or by a fault
of the sandbox. The same play is then tried again, at most twice.
"""

from functools import partial

import trio

from actors.environments.audit.hints import HintChecks
from actors.environments.audit.plays import AuditPlays, RepeatedPlay, follow_moves, read_moves, read_sent
from actors.environments.tries import TRIES, UndecidedError, check_decided, try_until_decided
from actors.sandbox import Sandbox
from actors.text.conversation import Move
from spade.codec import answer_digest
from spade.config import DomainName
from spade.protocol import DIGEST_BYTES, Audited, AuditJob, Faulted, Observed, RecordedPlay
from spade.returns import is_won


async def audit(sandbox: Sandbox, job: AuditJob, domain: DomainName = "games") -> Audited:
    """Run an audit of a program of the domain.

    An audit that is not over within `within_s` is a finding only if the program's own calls took most of the time. The
    time of a call is counted as in `ChildProcess.counted_s`, so a program is not blamed for waiting for a processor.
    """
    plays = AuditPlays(sandbox, job, domain)
    repetition, hint = Repetition(plays), HintChecks(plays)
    began = trio.current_time()
    with trio.move_on_after(job.within_s) as scope:
        for check in (repetition.repeat, repetition.play_at_random, hint.check_hinted_plays, hint.check_solutions):
            if not plays.findings:
                await check()
    if scope.cancelled_caught and plays.answering_s > job.within_s / 2:
        took = f"its answers took {plays.answering_s:.1f} s, in {plays.steps} steps"
        plays.findings.append(f"{took}, and its audit was not over within {job.within_s:g} s")
    return Audited(
        environment=job.environment,
        lease=job.lease,
        finding=plays.findings[0] if plays.findings else "",
        replays=repetition.replays,
        left_out=len(job.replays) - repetition.replays,
        plays=repetition.plays,
        wins=repetition.wins,
        steps=plays.steps,
        seconds=trio.current_time() - began,
        tried=hint.tried,
        solved=hint.solved,
        undecided=hint.undecided,
        cut_off=scope.cancelled_caught,
    )


class Repetition:
    """The recorded plays again, and random plays of the same instances, with the results so far."""

    def __init__(self, plays: AuditPlays) -> None:
        self.replays = self.plays = self.wins = 0
        self._plays, self._job = plays, plays.job

    async def repeat(self) -> None:
        """Repeat the recorded plays.

        Hinted and unhinted plays are mixed. Half of the plays run one by one, the other half at the same time.
        """
        replays = list(self._job.replays)
        self._plays.rng.shuffle(replays)
        for replay in replays[::2]:
            await self._replay(replay)
        async with trio.open_nursery() as nursery:
            for replay in replays[1::2]:
                nursery.start_soon(self._replay, replay)

    async def _replay(self, replay: RecordedPlay) -> None:
        """Repeat a recorded play. It is a finding if every try times out, because the recorded play did not."""
        findings = self._plays.findings
        try:
            finding = await try_until_decided(partial(self._compare, replay))
        except UndecidedError as undecided:
            if not undecided.ours:
                findings.append(f"play {replay.play} was run again and timed out in each of {TRIES} tries")
            return
        self.replays += 1
        if finding:
            findings.append(f"play {replay.play} was run again and {finding}")

    async def _compare(self, replay: RecordedPlay) -> str:
        """Repeat a play and describe how it differs from the recording. Returns "" if both are equal."""
        recording = replay.recording
        expected = [recording.answers[at : at + DIGEST_BYTES] for at in range(0, len(recording.answers), DIGEST_BYTES)]
        moves = list(read_moves(recording))
        played = await self._plays.play_on(replay.seed, recording.max_turns, follow_moves(moves))
        answers = played.answers
        # Compare before the end is looked at. A program that notices that it is repeated could prevent a result.
        for turn, (answer, digest) in enumerate(zip(answers, expected, strict=False)):
            if isinstance(answer, Observed) and answer_digest(answer) != digest:
                return f"answered turn {turn} differently than recorded"
        check_decided(answers[-1])
        self._plays.keep(replay.seed, played)
        self._plays.repeated[replay.play] = RepeatedPlay(replay, await read_sent(moves, played), played.episode_return)
        last = answers[-1]
        if isinstance(last, Faulted):
            return f"failed at turn {len(answers) - 1} with {last.kind}: {last.detail}"
        return "" if len(answers) == len(expected) else f"ended at turn {len(answers) - 1}"

    async def play_at_random(self) -> None:
        """Play random actions until enough plays are won, or too few are left to win enough."""
        job = self._job
        for left, seed in zip(range(len(job.seeds), 0, -1), job.seeds, strict=True):
            if not self.wins < job.wins <= self.wins + left:
                break
            try:
                won = await try_until_decided(partial(self._win_at_random, seed))
            except UndecidedError:
                continue
            self.plays += 1
            self.wins += won
        if self.wins >= job.wins:
            found = f"random actions win {self.wins} of {self.plays} plays on instances that were won"
            self._plays.findings.append(found)

    async def _win_at_random(self, seed: int) -> bool:
        # Moves on this instance might be its solution.
        elsewhere = (play.sent for play in self._plays.repeated.values() if play.recorded.seed != seed)
        policy = self._plays.make_guesser([each for sent in elsewhere for each in sent])

        async def anything(seen: Observed) -> Move:
            return policy(seen)

        played = await self._plays.play(seed, anything)
        return is_won(played.episode_return, self._job.win_return)
