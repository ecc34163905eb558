"""One episode from its first observation to its end: the conversation, its tokens and its rewards."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

import trio

from actors.actions import action_said
from actors.conversation import Conversation, converse
from actors.pool import LostError, Service
from actors.rollout import TrajectoryBuilder
from actors.session import Session
from spade.codec import answer_digest, unpack_ids
from spade.errors import BusError, SuspectError
from spade.protocol import (
    CloseEpisode,
    EndedPlay,
    Faulted,
    Generated,
    Observed,
    OpenEpisode,
    PlayLease,
    Program,
    Recording,
    StepEpisode,
)
from spade.seeds import derive
from spade.tokens import LONG_TEXT

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Undone:
    """Why a play has to be played again: our own services failed. `suspect`: one of them while it served this play."""

    why: str
    suspect: bool = False


async def attempt(session: Session, lease: PlayLease, find: Callable[[], Awaitable[Program]]) -> EndedPlay | Undone:
    """Play the program that `find` brings: the play as it ended, or as it has to be played again."""
    within_s = session.config.play.lease_s
    with trio.move_on_after(within_s):
        try:
            program = await find()
            with session.runners.hold() as runner:
                return await Episode(session, lease, runner, program).play()
        except SuspectError as error:
            return Undone(str(error), suspect=True)
        except LostError as error:
            return Undone(str(error), await session.runners.ended(error, session.config.bus.call_deadline_s))
        except BusError as error:
            return Undone(str(error))
    return Undone(f"not over within play.lease_s = {within_s:g} s")


class Episode:
    """Sticks to one env-runner, and while that is free to the engine of the other plays of its environment."""

    def __init__(self, session: Session, lease: PlayLease, runner: Service, program: Program) -> None:
        self._session = session
        self._lease = lease
        self._runner = runner
        self._program = program
        self._opening = trio.current_time()
        self._said: list[int] = []  # tokens of the last turn
        self._turns = 0
        self._answers = b""
        self._builder = TrajectoryBuilder(session.config.play.temperature)
        # Two leases of one play are two episodes, should they ever meet at an env-runner.
        self._name = f"{lease.id}#{lease.lease}"
        self._max_turns = session.config.play.max_turns

    async def play(self) -> EndedPlay:
        """Play to the end. Raises BusError where our own services failed, so that the play proves nothing."""
        sandbox = self._session.config.sandbox
        opening = OpenEpisode(self._name, self._program.source, self._lease.seed, self._max_turns)
        try:
            # Constructing and resetting may take a step's time after the load.
            first = await self._ask(opening, sandbox.load_s + sandbox.step_s)
            return self._end(await converse(first, self._max_turns, self._step, self._act))
        finally:
            await self._close()

    async def _act(self, seen: Observed) -> str | None:
        """The model's action; None where the context has no room for a turn."""
        unread = await self._unread(seen.observation)
        if len(unread) > self._room:
            return None
        self._builder.read(unread)
        self._turns += 1
        self._said = unpack_ids((await self._sample()).ids).tolist()
        return action_said(self._session.tokenizer.decode(self._said))

    async def _unread(self, observation: str) -> list[int]:
        """Tokens between what the model said last and its next turn."""
        tokenizer, profile = self._session.tokenizer, self._session.profile
        if self._turns:
            return await self._tokens(observation, partial(tokenizer.turn_ids, self._said, profile.turn(observation)))
        opening = profile.play(observation, self._program.hint if self._lease.hinted else None)
        return await self._tokens(observation, partial(tokenizer.prompt_ids, opening))

    @property
    def _room(self) -> int:
        """Tokens that may be read before the next turn, so that the least of a turn is left."""
        play = self._session.config.play
        return self._builder.room(min(play.min_turn_tokens, play.max_turn_tokens), play.context_tokens)

    async def _tokens(self, observation: str, encode: Callable[[int], list[int]]) -> list[int]:
        """Encode for the room there is; a long observation in a thread, so that the event loop goes on."""
        if len(observation) <= LONG_TEXT:
            return encode(self._room)
        return await trio.to_thread.run_sync(encode, self._room)

    async def _sample(self) -> Generated:
        play = self._session.config.play
        seed = derive(b"", "turn", self._lease.sampler, self._turns)
        near, left = self._lease.environment, self._builder.room(0, play.context_tokens)
        most = min(play.max_turn_tokens, left)
        generated = await self._session.generate(self._builder.ids, most, play.temperature, seed, near)
        self._builder.sampled(generated)
        return generated

    async def _step(self, turn: int, action: str) -> Observed | Faulted:
        seen = await self._ask(StepEpisode(self._name, turn, action), self._session.config.sandbox.step_s)
        self._session.gauges["turns"] += 1
        return seen

    async def _ask(self, request: OpenEpisode | StepEpisode, program_s: float) -> Observed | Faulted:
        """What the environment answers; the env-runner enforces `program_s`, we wait for the env-runner."""
        reply = await self._runner.call(request, program_s + self._session.config.bus.call_deadline_s)
        match reply:
            case Faulted() if not reply.environment_fault:
                raise BusError(f"{self._runner.peer.name}: {reply.kind}: {reply.detail}")
            case Observed():
                self._answers += answer_digest(reply)
                return reply
            case Faulted():
                return reply
        raise BusError(f"{self._runner.peer.name} answered {type(request).__name__} with {type(reply).__name__}")

    async def _close(self) -> None:
        """Let the env-runner forget the episode, also on the way out. If it does not hear us, our silence tells it."""
        with trio.CancelScope(shield=True):
            try:
                await self._runner.call(CloseEpisode(self._name), self._session.parting_s)
            except BusError as error:
                log.info("%s not closed: %s", self._name, error)

    def _end(self, played: Conversation) -> EndedPlay:
        last, fault = played.answers[-1], ""
        if isinstance(last, Faulted):
            fault = f"{last.kind}: {last.detail}"
        elif not played.actions and played.pending is None:
            fault = "protocol: the episode is over before the first action"
        elif not played.actions:
            fault = f"protocol: a first prompt of over {self._room} tokens does not fit play.context_tokens"
        return EndedPlay(
            id=self._lease.id,
            lease=self._lease.lease,
            outcome="fault" if fault else played.outcome,
            episode_return=played.episode_return,
            rewards=tuple(played.rewards),
            seconds=trio.current_time() - self._opening,
            trajectory=None if fault else self._builder.trajectory(),
            fault=fault,
            recording=None if fault else Recording(tuple(played.actions), self._answers, self._max_turns),
        )
