"""The env-runner process. It serves episodes and the admission of generated programs, and it audits windows.

A request may come twice. The second copy is answered from memory. It is recognised by its episode, and a step also by
its turn. An opening names its program by digest. A missing program is fetched once for all waiting requests. An episode
is freed if its peer has left, or if it got no step during `play.lease_s`.
"""

import logging
from collections.abc import Callable
from typing import TypeVar

import msgspec
import trio

from actors.environments.admission import admit_opened, validate
from actors.environments.audit import audit
from actors.links.faults import RequestFaults
from actors.links.leasing import keep_busy
from actors.sandbox import Programs, Sandbox, open_sandbox
from replay.client import ReplayClient
from spade.config import PATIENCE, Config
from spade.errors import BusError, RefusedError, RunError
from spade.processes.entry import Launch, main, open_service
from spade.protocol import (
    AuditJob,
    CloseEpisode,
    Done,
    Faulted,
    Hello,
    KeepProgram,
    Observed,
    OpenEpisode,
    Refused,
    Response,
    StepEpisode,
    Validate,
)
from spade.transport import Client, IncomingRequest, Server

OnEpisode = TypeVar("OnEpisode", OpenEpisode, StepEpisode, CloseEpisode)

AUDITS = 4
"""Audits that run at once. Their episodes do not count towards sandbox.episodes."""
AUDIT_WAIT_S = 30.0

log = logging.getLogger(__name__)


class PeerEpisode:
    """An episode of a peer: the answer to its opening, and the time of its opening or last step."""

    def __init__(self, owner: Hello) -> None:
        self.owner = owner
        self.asked = trio.current_time()
        self.first: Observed | Faulted | None = None
        self.lock = trio.Lock()


class Runner:
    """The service of an env-runner.

    Its gauges are the sandbox's gauges and five counts since the start: `program_fetches`, `validations`, `admitted`,
    `audits` and `request_faults`.
    """

    def __init__(self, server: Server, replay: Client, sandbox: Sandbox, config: Config) -> None:
        self._server = server
        self._replay = replay
        self._ledger = ReplayClient(replay, config.play.lease_s)
        self._sandbox = sandbox
        # An agent waits for an opening no longer than a call's deadline. A program that arrives later is useless.
        self._programs = Programs(ReplayClient(replay, config.bus.call_deadline_s).program)
        self._config = config
        self._tenants: dict[str, PeerEpisode] = {}
        self._validating = self._validations = self._admitted = self._audits = 0
        self._faults = RequestFaults()
        # Each request holds one place from its arrival to its reply. If no place is free, requests wait at the peers.
        self._places = trio.Semaphore(2 * config.sandbox.episodes)

    async def run(self) -> None:
        """Serve until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._evict_gone)
            nursery.start_soon(self._beat)
            nursery.start_soon(keep_busy, AUDITS, 1, self._lease_audit, self._audit, trio.Event())
            while True:
                await self._places.acquire()
                nursery.start_soon(self._serve, await self._server.receive())

    async def _serve(self, incoming: IncomingRequest) -> None:
        try:
            await self._server.reply(incoming, await self._answer_surely(incoming))
        finally:
            self._places.release()

    async def _answer_surely(self, incoming: IncomingRequest) -> Response:
        """Answer a request. An unforeseen error becomes a refusal, so that only this request fails."""
        try:
            return await self._answer(incoming)
        except Exception as error:
            match incoming.message:
                case OpenEpisode() as request:  # after the error, the state of the episode is unknown
                    self._evict(_add_owner(incoming.hello, request).episode)
                case StepEpisode() as request:
                    self._evict(_add_owner(incoming.hello, request).episode)
            return self._faults.refusal(incoming.message, error)

    async def _answer(self, incoming: IncomingRequest) -> Response:
        owner = incoming.hello
        match incoming.message:
            case OpenEpisode() as request:
                return await self._open(owner, _add_owner(owner, request))
            case StepEpisode() as request:
                return await self._step(owner, _add_owner(owner, request))
            case CloseEpisode() as request:
                self._evict(_add_owner(owner, request).episode)
                return Done()
            case Validate() as request:
                return await self._validate(request)
            case KeepProgram(source=source):
                self._programs.keep(source)
                return Done()
            case other:
                return Refused(f"an env-runner does not serve {type(other).__name__}")

    # ------------------------------------------------------------ requests

    async def _open(self, owner: Hello, request: OpenEpisode) -> Response:
        tenant = self._tenants.get(request.episode)
        if tenant is None:
            if self._is_full():
                return self._refuse_overload()
            tenant = self._tenants[request.episode] = PeerEpisode(owner)
        async with tenant.lock:
            if tenant.first is None:
                program = await self._programs.get(request.program)
                if isinstance(program, Faulted):
                    return program  # the fault is not remembered, so that the opening may be requested again
                if self._tenants.get(request.episode) is not tenant:
                    return Faulted("lost", "the episode was closed while its program was fetched")
                opening = request.episode, program, request.seed, request.max_turns, request.needs
                # An item of a suite may take as long as the step that it needs: evaluators wait longer than a lease.
                clock_s = max(self._config.play.program_s, PATIENCE * request.needs.step_s)
                tenant.first = await self._sandbox.open(*opening, clock_s)
        return tenant.first

    async def _step(self, owner: Hello, request: StepEpisode) -> Response:
        tenant = self._tenants.get(request.episode)
        if tenant is not None:
            tenant.owner, tenant.asked = owner, trio.current_time()
        return await self._sandbox.step(request.episode, request.turn, request.action, request.calls)

    async def _validate(self, request: Validate) -> Response:
        if self._is_full():
            return self._refuse_overload()
        self._validating += 1
        try:
            asked, limits, play = (self._sandbox, request.source, request.seed), self._config.sandbox, self._config.play
            if request.plays:
                verdict = await validate(*asked, limits, play, self._config.run.domain, self._config.tools)
            else:
                verdict = await admit_opened(*asked, limits, play)
        except RunError as error:
            return Refused(str(error))
        finally:
            self._validating -= 1
        self._validations += 1
        self._admitted += verdict.passed
        if verdict.passed:
            self._programs.keep(request.source)  # keep the program: it is about to be played
        return verdict

    # ------------------------------------------------------------ audits

    async def _lease_audit(self, _: int) -> tuple[AuditJob, ...]:
        try:
            return await self._ledger.lease_audit(AUDIT_WAIT_S)
        except RefusedError as error:
            raise RunError(f"the replay service refuses to lease an audit: {error}") from None
        except BusError as error:
            log.warning("no audit was leased: %s", error)
            return ()

    async def _audit(self, job: AuditJob) -> None:
        try:
            outcome = await audit(self._sandbox, job, self._config.run.domain)
        except Exception as error:  # only this audit fails: its lease expires, and after a few leases it is left out
            self._faults.note(job, error)
            return
        if outcome.finding:
            log.info("environment %s: %s", job.environment, outcome.finding)
        try:
            await self._ledger.audited(outcome)
        except BusError as error:
            log.warning("the audit of %s was not handed in: %s", job.environment, error)
        self._audits += 1

    def _is_full(self) -> bool:
        return len(self._tenants) + self._validating >= self._config.sandbox.episodes

    def _refuse_overload(self) -> Refused:
        limit = self._config.sandbox.episodes
        return Refused(f"overloaded: sandbox.episodes = {limit} are running; try later or start another env-runner")

    # ------------------------------------------------------------ evictions

    def _evict(self, episode: str) -> None:
        self._tenants.pop(episode, None)
        self._sandbox.close(episode)

    async def _evict_gone(self) -> None:
        """Free the episodes of peers that left. A peer that returned under another routing id has not left."""
        async for _, hello in self._server.gone:
            if hello in self._server.peers.values():
                continue
            orphans = [episode for episode, tenant in self._tenants.items() if tenant.owner == hello]
            for episode in orphans:
                self._evict(episode)
            if orphans:
                log.info("%s is gone: %d episodes freed", hello.name, len(orphans))

    async def _beat(self) -> None:
        """Free forgotten episodes and update the gauges at every heartbeat."""
        while True:
            patience_s = self._config.play.lease_s
            now = trio.current_time()
            for episode in [name for name, tenant in self._tenants.items() if now - tenant.asked > patience_s]:
                log.info("episode %s freed: no step for %g s", episode, patience_s)
                self._evict(episode)
            self._replay.gauges.update(self._sandbox.gauges())
            self._replay.gauges.update(validations=self._validations, admitted=self._admitted, audits=self._audits)
            self._replay.gauges.update(request_faults=self._faults.total, program_fetches=self._programs.fetches)
            await trio.sleep(self._config.bus.heartbeat_s)


def _add_owner(owner: Hello, request: OnEpisode) -> OnEpisode:
    """Return the request with its owner in the episode's name, so that a peer reaches only its own episodes."""
    return msgspec.structs.replace(request, episode=f"{owner.name}/{owner.pid}/{request.episode}")


async def run(launch: Launch, config: Config, ready: Callable[[], None]) -> None:
    """Serve episodes at `launch.bind` until cancelled. Raises RunError if the sandbox cannot work on this machine."""
    limits = msgspec.structs.replace(config.sandbox, libraries=config.libraries)
    async with open_sandbox(limits) as sandbox, open_service(launch, config) as (server, replay):
        log.info("serving up to %d episodes at %s", config.sandbox.episodes, server.address)
        ready()
        await Runner(server, replay, sandbox, config).run()


if __name__ == "__main__":
    main(run)
