"""The agent process: leases plays, plays many episodes at once, and hands in plays that end together in one message.

If an environment fails, its play is void. If our own services fail, the play is given back, to be played again on the
same seed.
"""

import logging
from collections.abc import Callable
from functools import partial

import trio

from actors.links.leasing import keep_busy
from actors.play.episode import UnfinishedPlay, play
from actors.play.play_settings import PlayResult, make_run_play_settings
from actors.play.session import Session, attend
from replay.client import ReplayClient
from spade.config import Config
from spade.processes.entry import Launch, main
from spade.protocol import EndedPlay, PlayLease

LEASE_BATCH = 8
LEASE_WAIT_S = 5.0

log = logging.getLogger(__name__)


class PlayDelivery:
    """Sends finished plays to the replay service, one message at a time.

    Plays that finish while a message is under way go with the next message.
    """

    def __init__(self, replay: ReplayClient, most: int) -> None:
        self._replay = replay
        self._most = most
        self._waiting: list[EndedPlay] = []
        self._turn = trio.Lock()

    async def deliver(self, play: EndedPlay) -> None:
        """Deliver a play, and return when it is acknowledged.

        Callers get the lock in the order of their calls. So when a caller gets it, either an earlier caller has sent
        the play, or the play is the first in the list.
        """
        self._waiting.append(play)
        async with self._turn:
            together, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
            if together:
                await self._replay.submit_plays(tuple(together))


class Agent:
    """Plays the plays that it leases.

    Gauges: `episodes` going on, `plays` handed in, `plays_released` given back, `turns` played.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._config = session.config
        self._replay = session.replay
        # The config's checks ensure that a message can hold a batch of plays.
        self._delivery = PlayDelivery(session.replay, session.config.learner.batch_sequences)
        self._gauges = session.gauges
        self._gauges.update(episodes=0, plays=0, plays_released=0, turns=0)

    async def work(self) -> None:
        """Play until cancelled or retired. If cancelled, give present plays back. If retired, finish them first."""
        in_flight = self._config.actors.episodes_in_flight
        await keep_busy(in_flight, LEASE_BATCH, self._lease, self._play, self._session.retiring)

    async def _lease(self, count: int) -> tuple[PlayLease, ...]:
        await self._session.services()
        return await self._replay.lease_plays(count, LEASE_WAIT_S)

    async def _play(self, lease: PlayLease) -> None:
        self._gauges["episodes"] += 1
        try:
            play_settings = make_run_play_settings(self._session, lease.reads, lease.single_turn)
            played = await play(self._session, lease, play_settings)
        except trio.Cancelled:
            self._session.send(partial(self._replay.release_play, lease))
            raise
        finally:
            self._gauges["episodes"] -= 1
        if isinstance(played, UnfinishedPlay) and not played.evicted:
            log.info("play %s given back: %s", lease.id, played.why)
            await self._session.hand_in(partial(self._replay.release_play, lease, suspect=played.suspect))
            self._gauges["plays_released"] += 1
            # Wait, so that failing services are not flooded with the same play.
            await trio.sleep(self._config.bus.heartbeat_s)
            return
        await self._session.hand_in(partial(self._delivery.deliver, _find_end(lease, played)))
        self._gauges["plays"] += 1


def _find_end(lease: PlayLease, played: PlayResult | UnfinishedPlay) -> EndedPlay:
    """Return the end of a play. A play that was ended for memory is void.

    It is not played again, because then a program could lose fewer plays by filling the memory in its lost plays.
    """
    if isinstance(played, PlayResult):
        return played.ended
    return EndedPlay(lease.id, lease.lease, "fault", 0.0, (), 0.0, fault=played.why)


async def run(launch: Launch, config: Config, ready: Callable[[], None]) -> None:
    """Run an agent process until cancelled."""
    await attend(launch, config, config.play.lease_s, ready, lambda session: Agent(session).work())


if __name__ == "__main__":
    main(run)
