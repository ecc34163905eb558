"""Play a program in its audit, and keep what the plays showed."""

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import trio

from actors.environments.domains import DOMAINS, SentMoves
from actors.environments.gifts import PlayerView, heard
from actors.environments.offers import read_offer
from actors.environments.trials import Policy, RejectedError, Trials
from actors.environments.tries import UndecidedError, check_decided
from actors.sandbox import Sandbox
from actors.sandbox.host import PLAYS
from actors.sandbox.wire import SolutionReply, Solve, Step
from actors.text.actions import read_typed_action
from actors.text.conversation import Conversation, Move, Player, play_conversation
from spade.config import DomainName
from spade.errors import RunError
from spade.protocol import AuditJob, Faulted, Observed, RecordedPlay, Recording
from spade.returns import is_won


class RepeatedPlay(NamedTuple):
    """A recorded play that was repeated, and its result."""

    recorded: RecordedPlay
    sent: SentMoves
    episode_return: float


class AuditPlays:
    """All plays of one audit, and its findings."""

    def __init__(self, sandbox: Sandbox, job: AuditJob, domain: DomainName) -> None:
        self.job = job
        self.rng = random.Random(job.draw)
        self.findings: list[str] = []
        self.steps = 0
        self.answering_s = 0.0
        """The time of the program's calls, counted as in `ChildProcess.counted_s`."""
        self.repeated: dict[str, RepeatedPlay] = {}
        self.views: defaultdict[int, list[PlayerView[Move]]] = defaultdict(list)
        """Repeated plays and plays of the solution, by instance, as their player saw them. Empty without a hint."""
        self._sandbox = sandbox
        self._name, self._domain = domain, DOMAINS[domain]
        self._opened = 0

    def make_guesser(self, sent: SentMoves) -> Policy[Move]:
        """Make a random player for one play, who sometimes sends one of these moves."""
        return self._domain.guesser(self.rng, self.job.reads, sent)

    async def play(self, seed: int, player: Player[Move]) -> Conversation[Move]:
        """Play to the end or the first fault. Raises UndecidedError if the play proves nothing."""
        played = await self.play_on(seed, self.job.max_turns, player)
        check_decided(played.answers[-1])
        return played

    async def play_on(self, seed: int, max_turns: int, player: Player[Move]) -> Conversation[Move]:
        """Play to the end or the first fault, of whatever kind."""
        self._opened += 1
        name = f"audit of {self.job.environment}#{self.job.lease}, {self._opened}"

        async def step(turn: int, move: Move) -> Observed | Faulted:
            answer = await self._sandbox.step(name, turn, move.action, move.calls)
            self.steps += 1
            return answer

        try:
            first = await self._sandbox.open(name, self.job.source, seed, max_turns)
            return await play_conversation(first, max_turns, step, player)
        finally:
            self.answering_s += self._sandbox.close(name)

    def keep(self, seed: int, played: Conversation[Move]) -> None:
        """Keep what a play showed to its player."""
        if self.job.hint:
            self.views[seed].append(_view(played))

    async def find_return(self, seed: int, moves: Iterable[Move]) -> float:
        """Play these moves. Returns the return of the play."""
        return get_least_return(await self.play(seed, follow_moves(moves)))

    async def view_play(self, seed: int, moves: Iterable[Move]) -> PlayerView[Move]:
        """Play these moves. Returns the play as its player sees it."""
        return _view(await self.play(seed, follow_moves(moves)))

    async def find_return_of_rest(self, seed: int, moves: Iterable[Move]) -> float:
        """Play the moves that are left without some words, then random moves. A program could notice a mere stop."""
        return get_least_return(await self.play(seed, follow_moves(moves, self.make_guesser(()))))

    async def check_solution(self, seed: int, moves: Iterable[Move]) -> bool:
        """Play the solution and keep what it showed. Returns True if it wins."""
        played = await self.play(seed, follow_moves(moves))
        self.keep(seed, played)
        return is_won(get_least_return(played), self.job.win_return)

    async def ask_solution(self, seed: int) -> list[Move] | None:
        """Ask the program for its solution of an instance, as moves.

        Returns None if the solution lists no actions, and [] if the program fails. Raises UndecidedError if the sandbox
        fails.
        """
        job, limits = self.job, self._sandbox.limits
        trials: Trials[str] = Trials(self._sandbox, job.source, limits, job.max_turns, Step, self._name)
        try:
            async with trials.opened(seed, PLAYS) as (process, _):
                solved = await trials.ask(process, Solve())
        except RejectedError:
            return []
        except RunError:
            raise UndecidedError(ours=True) from None
        finally:
            self.answering_s += trials.counted_s
        return self._domain.solution(solved, job.reads) if isinstance(solved, SolutionReply) else []


def _view(played: Conversation[Move]) -> PlayerView[Move]:
    return PlayerView(played.actions, list(map(heard, played.observed)))


async def read_sent(moves: Sequence[Move], played: Conversation[Move]) -> SentMoves:
    """Return the moves of a play, each with True if the observation before it did not offer its action."""
    return [
        (move, await _is_missed(move, seen))
        for move, seen in zip(moves, played.answers, strict=False)
        if isinstance(seen, Observed)
    ]


async def _is_missed(move: Move, seen: Observed) -> bool:
    await trio.lowlevel.checkpoint()  # reading a text takes time: let other tasks run in between
    return not move.calls and not read_offer(seen.observation).has(read_typed_action(move.action))


def get_least_return(played: Conversation[Move]) -> float:
    """Return the return of a play. A play that ends in a fault has the least return, so that it clears no hint."""
    return -1.0 if isinstance(played.answers[-1], Faulted) else played.episode_return


def read_moves(recording: Recording) -> Iterator[Move]:
    """Yield the moves of a recorded play."""
    return map(Move, recording.actions, recording.calls or ((),) * len(recording.actions))


def follow_moves(moves: Iterable[Move], then: Callable[[Observed], Move | None] = lambda _: None) -> Player[Move]:
    """Return a player that makes these moves, then the moves of `then`. Without `then`, the player leaves the play."""
    left = iter(moves)

    async def act(seen: Observed) -> Move | None:
        return next(left, None) or then(seen)

    return act
