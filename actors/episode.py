"""One episode from its first observation to its end: the conversation, its tokens and its rewards."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

import trio

from actors.actions import answer, boxed, sent
from actors.pool import LostError, Service
from actors.rollout import TrajectoryBuilder, episode_return
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
    Outcome,
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
        self._rewards: list[float] = []
        self._actions: list[str] = []
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
            seen = await self._ask(opening, sandbox.load_s + sandbox.step_s)
            ended = seen if isinstance(seen, Faulted) else await self._converse(seen.observation)
        finally:
            await self._close()
        return self._end(ended)

    async def _converse(self, observation: str) -> Outcome | Faulted:
        """Turn after turn until the environment, its fault or the context ends it."""
        tokenizer, profile = self._session.tokenizer, self._session.profile
        opening = profile.play(observation, self._program.hint if self._lease.hinted else None)
        unread = await self._tokens(observation, partial(tokenizer.prompt_ids, opening))
        while len(unread) <= self._room:
            self._builder.read(unread)
            generated = await self._sample()
            seen = await self._step(generated)
            if isinstance(seen, Faulted):
                return seen
            self._rewards.append(seen.reward)
            if seen.terminated or seen.truncated:
                return "terminated" if seen.terminated else "truncated"
            sampled, turn = unpack_ids(generated.ids).tolist(), profile.turn(seen.observation)
            unread = await self._tokens(seen.observation, partial(tokenizer.turn_ids, sampled, turn))
        if not self._rewards:
            return Faulted("protocol", f"a first prompt of over {self._room} tokens does not fit play.context_tokens")
        return "truncated"

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
        play, turn = self._session.config.play, len(self._rewards) + 1
        seed = derive(b"", "turn", self._lease.sampler, turn)
        near, left = self._lease.environment, self._builder.room(0, play.context_tokens)
        most = min(play.max_turn_tokens, left)
        generated = await self._session.generate(self._builder.ids, most, play.temperature, seed, near)
        self._builder.sampled(generated)
        return generated

    async def _step(self, generated: Generated) -> Observed | Faulted:
        said = self._session.tokenizer.decode(unpack_ids(generated.ids).tolist())
        self._actions.append(sent(boxed(answer(said)), self._program.reads))
        step = StepEpisode(self._name, len(self._actions), self._actions[-1])
        seen = await self._ask(step, self._session.config.sandbox.step_s)
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

    def _end(self, ended: Outcome | Faulted) -> EndedPlay:
        fault = f"{ended.kind}: {ended.detail}" if isinstance(ended, Faulted) else ""
        outcome: Outcome = "fault" if isinstance(ended, Faulted) else ended
        return EndedPlay(
            id=self._lease.id,
            lease=self._lease.lease,
            outcome=outcome,
            episode_return=episode_return(self._rewards, outcome == "terminated"),
            rewards=tuple(self._rewards),
            seconds=trio.current_time() - self._opening,
            trajectory=None if fault else self._builder.trajectory(),
            fault=fault,
            recording=None if fault else Recording(tuple(self._actions), self._answers, self._max_turns),
        )
