"""A play: one episode from its first observation to its end, with its tokens and its rewards."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import trio

from actors.links.connected import ActorConnections
from actors.links.pool import LostError, PooledService
from actors.play.play_settings import PlayResult, PlaySettings, PlayTranscript
from actors.play.session import OverdueError
from actors.play.voices import TurnSaid
from actors.text.conversation import Conversation, Move, play_conversation
from spade.codec import answer_digest
from spade.config import PATIENCE
from spade.decoding import UnreadableError
from spade.errors import BusError, EvictedError, SuspectError
from spade.openai_api import ServerError
from spade.protocol import (
    CloseEpisode,
    EndedPlay,
    Faulted,
    KeepProgram,
    Observed,
    OpenEpisode,
    PlayLease,
    Recording,
    StepEpisode,
)
from spade.seeds import derive
from spade.tokens import NO_TOOLS

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class UnfinishedPlay:
    """A play that has to be played again, because our own services failed."""

    why: str
    """The reason."""
    suspect: bool = False
    """True if a service crashed or failed while it served this play."""
    late: bool = False
    """True if the play was not over in time."""
    evicted: bool = False
    """True if the env-runner ended the play because the plays of its program took the most memory."""
    unserved: bool = False
    """True if a foreign server did not answer, though it was asked several times."""


async def play(
    connected: ActorConnections, lease: PlayLease, play_settings: PlaySettings, source: str | None = None
) -> PlayResult | UnfinishedPlay:
    """Play to the end. Returns the play as it ended, or the reason to play it again.

    `source` is the lease's program if the replay service does not have the program, so that no env-runner can fetch it.
    """
    within_s = connected.config.play.lease_s
    with trio.move_on_after(within_s):
        try:
            with connected.runners.hold() as runner:
                return await Episode(connected, lease, runner, source, play_settings).play()
        except SuspectError as error:
            return UnfinishedPlay(str(error), suspect=True)
        except LostError as error:
            return UnfinishedPlay(
                str(error), await connected.runners.ended(error, connected.config.bus.call_deadline_s)
            )
        except OverdueError as error:
            return UnfinishedPlay(str(error), late=True)
        except EvictedError as error:
            return UnfinishedPlay(str(error), evicted=True)
        except ServerError as error:
            return UnfinishedPlay(str(error), unserved=True)
        except BusError as error:
            return UnfinishedPlay(str(error))
    return UnfinishedPlay(f"not over within play.lease_s = {within_s:g} s", late=True)


class Episode:
    """One play at one env-runner. It prefers the engine that samples the other plays of its environment."""

    def __init__(
        self,
        connected: ActorConnections,
        lease: PlayLease,
        runner: PooledService,
        source: str | None,
        play_settings: PlaySettings,
    ) -> None:
        self._connected = connected
        self._lease = lease
        self._runner = runner
        self._source = source
        self._opening = trio.current_time()
        self._play_settings = play_settings
        self._chat_format = play_settings.chat_format
        self._voice = play_settings.voice
        self._unfit = play_settings.voice.unfit
        self._transcript = PlayTranscript()
        self._moves: list[Move] = []
        self._answers = b""
        # The name has the lease, so that two leases of one play are two episodes at an env-runner.
        self._name = f"{lease.id}#{lease.lease}"
        self._max_turns = play_settings.max_turns

    async def play(self) -> PlayResult:
        """Play to the end. Raises BusError if our own services failed, so that the play proves nothing."""
        try:
            first = await self._open()
            ended = self._end(await play_conversation(first, self._max_turns, self._step, self._act))
            return PlayResult(ended, self._transcript)
        finally:
            await self._close()

    async def _open(self) -> Observed | Faulted:
        """Open the episode and return the first answer. Sends `source` if the env-runner lacks the program."""
        sandbox, call_s = self._connected.config.sandbox, self._connected.config.bus.call_deadline_s
        needs = self._play_settings.needs
        opening = OpenEpisode(self._name, self._lease.program, self._lease.seed, self._max_turns, needs)
        # The env-runner may fetch the program, load it, and then take a step's time for construction and reset.
        within_s = call_s + PATIENCE * (sandbox.load_s + max(sandbox.step_s, needs.step_s)) + call_s
        reply = await self._runner.call(opening, within_s)
        if self._source is not None and isinstance(reply, Faulted) and reply.kind == "unknown":
            await self._runner.call(KeepProgram(self._source), call_s)
            reply = await self._runner.call(opening, within_s)
        return self._answer(reply)

    async def _act(self, seen: Observed) -> Move | None:
        """Return the model's move, or None if a turn does not fit into the context."""
        try:
            said = await self._say(seen)
        except UnreadableError as error:
            self._unfit = f"the program's tools: {error}"
            return None
        if said is None:
            self._transcript.unfit = not self._moves
            return None
        self._moves.append(self._chat_format.act(said.text))
        self._note(said)
        return self._moves[-1]

    async def _say(self, seen: Observed) -> TurnSaid | None:
        tools = NO_TOOLS
        if self._moves:
            messages = self._chat_format.turn(seen, self._moves[-1])
        else:
            messages, tools = self._chat_format.open(seen, self._lease.hint)
        seed = derive(b"", "turn", self._lease.sampler, len(self._moves) + 1)
        return await self._voice.say(messages, tools, seed, self._lease.environment)

    def _note(self, said: TurnSaid) -> None:
        noted = self._transcript
        noted.prompt = noted.prompt or said.prompt
        noted.said.append(said.text)
        noted.answer, noted.finish = self._moves[-1].action, said.finish
        noted.read += said.read
        noted.sampled += said.sampled

    async def _step(self, turn: int, move: Move) -> Observed | Faulted:
        config, request = self._connected.config, StepEpisode(self._name, turn, move.action, move.calls)
        # The env-runner enforces the program's deadline. We only wait for the env-runner.
        within_s = PATIENCE * max(config.sandbox.step_s, self._play_settings.needs.step_s) + config.bus.call_deadline_s
        seen = self._answer(await self._runner.call(request, within_s))
        self._connected.gauges["turns"] += 1
        return seen

    def _answer(self, reply: Observed | Faulted) -> Observed | Faulted:
        """Return the environment's answer. Raises BusError for a fault of our own services."""
        if isinstance(reply, Observed):
            self._answers += answer_digest(reply)
        elif not reply.environment_fault:
            error = EvictedError if reply.evicted else BusError
            raise error(f"{self._runner.peer.name}: {reply.kind}: {reply.detail}")
        return reply

    async def _close(self) -> None:
        """Make the env-runner forget the episode, also after an error.

        If the env-runner cannot be reached, it frees the episode after `play.lease_s` without a step.
        """
        with trio.CancelScope(shield=True):
            try:
                await self._runner.call(CloseEpisode(self._name), self._connected.parting_s)
            except BusError as error:
                log.info("%s not closed: %s", self._name, error)

    def _end(self, played: Conversation[Move]) -> EndedPlay:
        last, fault = played.answers[-1], ""
        if isinstance(last, Faulted):
            fault = f"{last.kind}: {last.detail}"
        elif not played.actions and played.pending is None:
            fault = "protocol: the episode is over before the first action"
        elif not played.actions:
            fault = f"protocol: {self._unfit}"
        return EndedPlay(
            id=self._lease.id,
            lease=self._lease.lease,
            outcome="fault" if fault else played.outcome,
            episode_return=played.episode_return,
            rewards=tuple(played.rewards),
            seconds=trio.current_time() - self._opening,
            trajectory=None if fault else self._voice.trajectory(),
            fault=fault,
            recording=None if fault else self._make_recording(played.actions),
            calls=sum(len(move.calls) for move in played.actions),
            refused=sum(result.refused for seen in played.observed for result in seen.results),
            malformed=sum(block is not None for move in played.actions for block in move.blocks),
            done=max((seen.done for seen in played.observed), default=0),
            instructions=max((seen.instructions for seen in played.observed), default=0),
            free=max((seen.free for seen in played.observed), default=0),
        )

    def _make_recording(self, moves: Sequence[Move]) -> Recording:
        actions, calls = tuple(move.action for move in moves), tuple(move.calls for move in moves)
        return Recording(actions, self._answers, self._max_turns, calls if any(calls) else ())
