"""Work on design jobs, shared by designers and curators: leasing, handing in, giving back.

A failure of our own services does not count as an attempt. The job is given back.
"""

import logging
from abc import ABC, abstractmethod
from functools import partial

import trio

from actors.links.connected import ActorConnections
from actors.links.leasing import keep_busy
from spade.errors import BusError, RefusedError, RunError, SuspectError
from spade.protocol import DesignJob, RejectCandidate, Stage, SubmitEnvironment, Validate, Verdict

LEASE_BATCH = 4
LEASE_WAIT_S = 5.0

log = logging.getLogger(__name__)


class JobWork(ABC):
    """Work on design jobs. `pool` is the digest of the list from which a curator brings programs; "" for a designer.

    Gauges: `designs` going on, `rejects` and `admitted` handed in, `repaired` (admitted after a repair),
    `designs_released`.
    """

    def __init__(self, connected: ActorConnections, pool: str = "") -> None:
        self._connected = connected
        self._config = connected.config
        self._replay = connected.replay
        self._pool = pool
        self._gauges = connected.gauges
        self._gauges.update(designs=0, rejects=0, admitted=0, repaired=0, designs_released=0)

    @abstractmethod
    async def _fulfil(self, job: DesignJob) -> SubmitEnvironment | RejectCandidate:
        """Return the request that closes the job. Raises BusError if a service fails."""

    async def _admission(self, source: str, seed: int, plays: bool = True) -> Verdict:
        """Return the verdict of an env-runner.

        If several env-runners crashed while they examined the program, it fails at the stage `contain`.
        """
        try:
            return await self._connected.runners.call(Validate(source, seed, plays), self._config.design.lease_s)
        except SuspectError as error:
            return Verdict(False, (Stage("contain", False, str(error)),))

    async def work(self) -> None:
        """Work on jobs until cancelled or retired.

        If cancelled, give present jobs back. If retired, finish them first.
        """
        slots = self._config.actors.designs_in_flight
        await keep_busy(slots, LEASE_BATCH, self._lease, self._work_on, self._connected.retiring)

    async def _lease(self, count: int) -> tuple[DesignJob, ...]:
        await self._connected.services()
        try:
            return await self._replay.lease_designs(count, LEASE_WAIT_S, self._pool)
        except RefusedError as error:
            raise RunError(f"no design job is leased: {error}") from None

    async def _work_on(self, job: DesignJob) -> None:
        self._gauges["designs"] += 1
        try:
            ended = await self._try(job)
        except trio.Cancelled:
            self._connected.send(partial(self._replay.release_design, job))
            raise
        finally:
            self._gauges["designs"] -= 1
        if isinstance(ended, str):
            log.info("job %s given back: %s", job.id, ended)
            await self._connected.hand_in(partial(self._replay.release_design, job))
            self._gauges["designs_released"] += 1
            # Wait, so that failing services are not flooded with the same job.
            await trio.sleep(self._config.bus.heartbeat_s)
        else:
            await self._hand_in(ended)

    async def _try(self, job: DesignJob) -> SubmitEnvironment | RejectCandidate | str:
        """Return the request that closes the job, or the reason to do it again."""
        within_s = self._config.design.lease_s
        with trio.move_on_after(within_s):
            try:
                return await self._fulfil(job)
            except BusError as error:
                return str(error)
        return f"not done within design.lease_s = {within_s:g} s"

    async def _hand_in(self, result: SubmitEnvironment | RejectCandidate) -> None:
        if isinstance(result, SubmitEnvironment):
            await self._connected.hand_in(partial(self._replay.submit_environment, result))
            self._gauges["admitted"] += 1
            self._gauges["repaired"] += bool(result.repairs)
        else:
            await self._connected.hand_in(partial(self._replay.reject_candidate, result))
            self._gauges["rejects"] += 1
