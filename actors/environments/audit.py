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

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import trio

from actors.environments.domains import DOMAINS, SentMoves
from actors.environments.gifts import PlayerView, drop_words, find_stated_words, find_unseen_words, heard
from actors.environments.offers import read_offer
from actors.environments.trials import RejectedError, Trials
from actors.environments.tries import TRIES, UndecidedError, check_decided, try_until_decided
from actors.sandbox import Sandbox
from actors.sandbox.host import PLAYS
from actors.sandbox.wire import SolutionReply, Solve, Step
from actors.text.actions import read_typed_action
from actors.text.conversation import Conversation, Move, Player, play_conversation
from actors.text.leaks import NUMBER, SearchableText
from spade.codec import answer_digest
from spade.config import DomainName
from spade.errors import RunError
from spade.protocol import DIGEST_BYTES, Audited, AuditJob, Faulted, Observed, RecordedPlay, Recording
from spade.returns import is_won

SEARCHES = 8
"""Number of random plays that search an instance for words that the hint states. If no play finds them, the hint gives
them away."""


async def audit(sandbox: Sandbox, job: AuditJob, domain: DomainName = "games") -> Audited:
    """Run an audit of a program of the domain.

    An audit that is not over within `within_s` is a finding only if the program's own calls took most of the time. The
    time of a call is counted as in `ChildProcess.counted_s`, so a program is not blamed for waiting for a processor.
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
        tried=auditor.tried,
        solved=auditor.solved,
        undecided=auditor.undecided,
        cut_off=scope.cancelled_caught,
    )


class Auditor:
    """One audit under way, and its results so far."""

    def __init__(self, sandbox: Sandbox, job: AuditJob, domain: DomainName) -> None:
        self.findings: list[str] = []
        self.replays = self.plays = self.wins = self.steps = self.tried = self.solved = self.undecided = 0
        self._sandbox = sandbox
        self._job = job
        self._name, self._domain = domain, DOMAINS[domain]
        self._rng = random.Random(job.draw)
        self._hint = SearchableText(job.hint)
        self._sent: dict[tuple[int, str], SentMoves] = {}  # the moves of recorded plays, by seed and play
        self._returns: dict[str, float] = {}  # the returns of recorded plays, by play
        self._opened = 0
        self._answering_s = 0.0
        self._heard: defaultdict[int, list[PlayerView[Move]]] = defaultdict(list)

    async def run(self) -> None:
        """Repeat the recorded plays, then run the other checks.

        Hinted and unhinted plays are mixed. Half of the plays run one by one, the other half at the same time.
        """
        replays = list(self._job.replays)
        self._rng.shuffle(replays)
        for replay in replays[::2]:
            await self._replay(replay)
        async with trio.open_nursery() as nursery:
            for replay in replays[1::2]:
                nursery.start_soon(self._replay, replay)
        for check in (self._play_at_random, self._find_gift, self._play_solutions):
            if not self.findings:
                await check()

    def cut_off(self) -> None:
        """End the audit at its deadline. This is a finding if the program's own calls took most of the time."""
        within_s = self._job.within_s
        if self._answering_s > within_s / 2:
            took = f"its answers took {self._answering_s:.1f} s, in {self.steps} steps"
            self.findings.append(f"{took}, and its audit was not over within {within_s:g} s")

    async def _replay(self, replay: RecordedPlay) -> None:
        """Repeat a recorded play. It is a finding if every try times out, because the recorded play did not."""
        try:
            finding = await try_until_decided(partial(self._compare, replay))
        except UndecidedError as undecided:
            if not undecided.ours:
                self.findings.append(f"play {replay.play} was run again and timed out in each of {TRIES} tries")
            return
        self.replays += 1
        if finding:
            self.findings.append(f"play {replay.play} was run again and {finding}")

    async def _compare(self, replay: RecordedPlay) -> str:
        """Repeat a play and describe how it differs from the recording. Returns "" if both are equal."""
        recording = replay.recording
        expected = [recording.answers[at : at + DIGEST_BYTES] for at in range(0, len(recording.answers), DIGEST_BYTES)]
        sent = list(_read_moves(recording))
        played = await self._play_on(replay.seed, recording.max_turns, follow_moves(sent))
        answers = played.answers
        # Compare before the end is looked at. A program that notices that it is repeated could prevent a result.
        for turn, (answer, digest) in enumerate(zip(answers, expected, strict=False)):
            if isinstance(answer, Observed) and answer_digest(answer) != digest:
                return f"answered turn {turn} differently than recorded"
        self._take(replay.seed, played)
        self._returns[replay.play] = played.episode_return
        self._sent[replay.seed, replay.play] = [
            (move, await is_missed(move, answer))
            for move, answer in zip(sent, answers, strict=False)
            if isinstance(answer, Observed)
        ]
        last = answers[-1]
        if isinstance(last, Faulted):
            return f"failed at turn {len(answers) - 1} with {last.kind}: {last.detail}"
        return "" if len(answers) == len(expected) else f"ended at turn {len(answers) - 1}"

    async def _play_at_random(self) -> None:
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
            self.findings.append(f"random actions win {self.wins} of {self.plays} plays on instances that were won")

    async def _win_at_random(self, seed: int) -> bool:
        policy = self._domain.guesser(self._rng, self._job.reads, self._collect_sent_elsewhere(seed))

        async def anything(seen: Observed) -> Move:
            return policy(seen)

        played = await self._play(seed, self._job.max_turns, anything)
        return is_won(played.episode_return, self._job.win_return)

    def _collect_sent_elsewhere(self, seed: int) -> SentMoves:
        """Return the moves of agents on other instances. Moves on this instance might be its solution."""
        return [each for (other, _), sent in self._sent.items() if other != seed for each in sent]

    async def _play_solutions(self) -> None:
        """Play the solution on instances that nobody won. If these are few, add instances that only hinted plays won.

        If the solution lists actions for some instances, every instance without a list counts as tried and not solved.
        If it never lists actions, it proves nothing about the instances.

        It is a finding if the solution needs a word that only the hint states. If the word is a number, it is a finding
        only on the second such instance, since a hint may name a number as an example.
        """
        job = self._job
        listed, tried, solved, numbers, gift = False, 0, 0, 0, ""
        aided = [each.seed for each in job.unaided if each.seed not in job.lost] if job.seeds else []
        for seed in (*job.lost, *aided)[: max(len(job.lost), len(job.unaided))]:
            try:
                moves, won = await self._try_solution(seed)
                given = await self._given(seed, moves, job.win_return) if moves and won else ()
                findable = moves and given and await self._can_find(seed, moves, given, job.win_return)
            except UndecidedError:
                self.undecided += 1
                continue
            listed = listed or moves is not None
            if seed in job.lost:
                tried, solved = tried + 1, solved + won
            if not findable:
                numbers += any(map(NUMBER.fullmatch, given))
                gift = gift or next((word for word in given if numbers > 1 or not NUMBER.fullmatch(word)), "")
        if listed or await self._check_lists_elsewhere():
            self.tried, self.solved = tried, solved
        if gift:
            self.findings.append(f"its solution wins a lost instance by {_describe_gift(gift)}")

    async def _check_lists_elsewhere(self) -> bool:
        """Return True if the solution lists actions on an instance that was won."""
        if not (seeds := self._job.seeds):
            return False
        try:
            return await try_until_decided(partial(self._ask_solution, seeds[0])) is not None
        except UndecidedError:
            self.undecided += 1
            return False

    async def _try_solution(self, seed: int) -> tuple[list[Move] | None, bool]:
        """Return the moves of the solution of an instance, and True if they win. Moves that time out have lost."""
        try:
            moves = await try_until_decided(partial(self._ask_solution, seed))
            return moves, moves is not None and await try_until_decided(partial(self._check_wins, seed, moves))
        except UndecidedError as undecided:
            if undecided.ours:
                raise
            return [], False

    async def _ask_solution(self, seed: int) -> list[Move] | None:
        """Ask the program for its solution of an instance, as moves.

        Returns None if the solution lists no actions, and [] if the program fails. Raises UndecidedError if the sandbox
        fails.
        """
        job, limits = self._job, self._sandbox.limits
        trials: Trials[str] = Trials(self._sandbox, job.source, limits, job.max_turns, Step, self._name)
        try:
            async with trials.opened(seed, PLAYS) as (process, _):
                solved = await trials.ask(process, Solve())
        except RejectedError:
            return []
        except RunError:
            raise UndecidedError(ours=True) from None
        finally:
            self._answering_s += trials.counted_s
        return self._domain.solution(solved, job.reads) if isinstance(solved, SolutionReply) else []

    async def _check_wins(self, seed: int, moves: Iterable[Move]) -> bool:
        return is_won(await self._find_return(seed, moves), self._job.win_return)

    async def _find_return(self, seed: int, moves: Iterable[Move]) -> float:
        return _get_least_return(await self._play(seed, self._job.max_turns, follow_moves(moves)))

    async def _find_return_without(self, words: Sequence[str], seed: int, moves: Iterable[Move]) -> float:
        """Play the moves that contain none of the words, then random moves. A program could notice a mere stop."""
        player = follow_moves(drop_words(moves, words), self._domain.guesser(self._rng, self._job.reads, ()))
        return _get_least_return(await self._play(seed, self._job.max_turns, player))

    async def _find_gift(self) -> None:
        """Look for a hinted play that needs a word which the hint states and no observation states.

        A play needs a word if it returns less without the moves that have the word. The play need not be won, since the
        regret pays for any higher return. The same must hold on another instance, and there the moves must also return
        more than every play without the hint. Otherwise the word was a guess or part of a method.
        """
        for replay in self._job.replays:
            if not replay.hinted or replay.play not in self._returns:
                continue
            moves, reached = list(_read_moves(replay.recording)), self._returns[replay.play]
            try:
                words = await self._given(replay.seed, moves, reached)
                if words and await self._is_gift(replay.seed, moves, words, reached):
                    does = "wins" if is_won(reached, self._job.win_return) else f"returns {reached:.2g}"
                    self.findings.append(f"hinted play {replay.play} {does} by {_describe_gift(words[0])}")
            except UndecidedError:
                self.undecided += 1

    async def _is_gift(self, seed: int, moves: Sequence[Move], words: Sequence[str], reached: float) -> bool:
        for other in self._job.unaided:
            if other.seed == seed:
                continue
            better = await try_until_decided(partial(self._find_return, other.seed, moves))
            if is_won(other.best, better) or is_won(
                await try_until_decided(partial(self._find_return_without, words, other.seed, moves)), better
            ):
                continue
            return not await self._can_find(seed, moves, words, reached)
        return False

    async def _given(self, seed: int, moves: Sequence[Move], least: float) -> Sequence[str]:
        """Return the words of these moves that only the hint states, if the play returns `least` only with these words.

        A word is not among them if an observation states it in time:
        * in a play of these moves, before an action that nobody can find (`keep_findable`)
        * in another play, if the moves still return `least` after the actions that led to the observation

        Returns () if the moves return `least` without these words. Raises UndecidedError if no try decides this.
        """
        # In a thread, since long observations take time. If the program has a hint, `_play` kept the observations.
        words, tellings = await trio.to_thread.run_sync(find_stated_words, self._hint, moves, tuple(self._heard[seed]))
        for word, told_by in tellings.items():
            if is_won(await try_until_decided(partial(self._find_return, seed, [*told_by, *moves])), least):
                words.remove(word)
        if not words or is_won(await try_until_decided(partial(self._find_return_without, words, seed, moves)), least):
            return ()
        return words

    async def _can_find(self, seed: int, moves: Sequence[Move], words: Sequence[str], least: float) -> bool:
        """Return True if random play finds the words on this instance, and the moves then return at least `least`.

        Raises UndecidedError if no search finds them and one of them failed by our own fault.
        """
        ours = False
        for _ in range(SEARCHES):
            try:
                if await try_until_decided(partial(self._succeeds_after_search, seed, moves, words, least)):
                    return True
            except UndecidedError as undecided:
                ours = ours or undecided.ours
        if ours:
            raise UndecidedError(ours)
        return False

    async def _succeeds_after_search(
        self, seed: int, moves: Sequence[Move], words: Sequence[str], least: float
    ) -> bool:
        """Act at random until the observations state all of the words. Then make the moves.

        Returns True if the play returns at least `least`. The search fails if an observation states a word only after
        the play is lost.
        """
        policy = self._domain.guesser(self._rng, self._job.reads, self._collect_sent_elsewhere(seed))
        said, observations, rest = list[Move](), list[str](), iter(moves)

        async def act(seen: Observed) -> Move | None:
            observations.append(heard(seen))
            heard_so_far = [PlayerView([*said, Move("")], observations)]
            if set(words) & set(await trio.to_thread.run_sync(find_unseen_words, moves, heard_so_far)):
                said.append(policy(seen))
                return said[-1]
            return next(rest, None)

        played = await self._play(seed, self._job.max_turns, act)
        return len(played.actions) > len(said) and is_won(_get_least_return(played), least)

    async def _play(self, seed: int, max_turns: int, player: Player[Move]) -> Conversation[Move]:
        """Play to the end or the first fault. Raises UndecidedError if the play proves nothing."""
        played = await self._play_on(seed, max_turns, player)
        self._take(seed, played)
        return played

    async def _play_on(self, seed: int, max_turns: int, player: Player[Move]) -> Conversation[Move]:
        """Play to the end or the first fault, of whatever kind."""
        self._opened += 1
        name = f"audit of {self._job.environment}#{self._job.lease}, {self._opened}"

        async def step(turn: int, move: Move) -> Observed | Faulted:
            answer = await self._sandbox.step(name, turn, move.action, move.calls)
            self.steps += 1
            return answer

        try:
            first = await self._sandbox.open(name, self._job.source, seed, max_turns)
            played = await play_conversation(first, max_turns, step, player)
        finally:
            self._answering_s += self._sandbox.close(name)
        return played

    def _take(self, seed: int, played: Conversation[Move]) -> None:
        """Keep what the play showed. Raises UndecidedError if the play proves nothing."""
        check_decided(played.answers[-1])
        if self._job.hint:
            self._heard[seed].append(PlayerView(played.actions, list(map(heard, played.observed))))


async def is_missed(move: Move, seen: Observed) -> bool:
    """Return True if the observation before a move does not offer the move's action."""
    await trio.lowlevel.checkpoint()  # reading a text takes time: let other tasks run in between
    return not move.calls and not read_offer(seen.observation).has(read_typed_action(move.action))


def _get_least_return(played: Conversation[Move]) -> float:
    """Return the return of a play. A play that ends in a fault has the least return, so that it clears no hint."""
    return -1.0 if isinstance(played.answers[-1], Faulted) else played.episode_return


def _read_moves(recording: Recording) -> Iterator[Move]:
    return map(Move, recording.actions, recording.calls or ((),) * len(recording.actions))


def _describe_gift(word: str) -> str:
    return f"{word[:40]!r}, which only its hint states"


def follow_moves(moves: Iterable[Move], then: Callable[[Observed], Move | None] = lambda _: None) -> Player[Move]:
    """Return a player that makes these moves, then the moves of `then`. Without `then`, the player leaves the play."""
    left = iter(moves)

    async def act(seen: Observed) -> Move | None:
        return next(left, None) or then(seen)

    return act
