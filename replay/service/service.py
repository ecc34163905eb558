"""The replay service: one task that takes requests, applies them, commits, and only then answers.

    arrivals (bounded) ── ledger.apply ── ledger.advance ── one commit ── replies, pushes, journal

This is one round. Requests that have to wait for a lease or a batch are tried again in every round.
"""

import logging
from pathlib import Path

import msgspec
import trio

from replay.ledger.batches import RefusalError
from replay.ledger.keys import make_holder_id
from replay.ledger.ledger import Ledger
from replay.ledger.pacing import describe_reached, find_last_step
from replay.ledger.records import BatchRecord, Change, Clock
from replay.service.journal import Journal
from replay.service.lives import Lives
from replay.service.peers import Peers
from replay.service.status import build_status
from replay.service.waiting import Answer, Replies, WaitingRequests
from replay.service.why import explain_waits, list_own
from replay.store import Store
from replay.store.load import LoadedRun
from replay.store.newest_programs import read_newest_programs
from replay.store.past_batches import explain_dropped, read_packed_batch, read_recorded
from replay.store.retention import Retention
from spade.config import Config
from spade.protocol import (
    CompareProgram,
    Done,
    Enroll,
    Enrolled,
    GetNewestPrograms,
    GetProgram,
    GetStatus,
    Hello,
    HoldWeights,
    Orders,
    Program,
    Pulse,
    Ready,
    Refused,
    ReportProcesses,
    Response,
    RetireWeights,
    Serving,
    Status,
    StopRun,
    TakeBatch,
    Weights,
)
from spade.transport import WINDOW, IncomingRequest, Server
from spade.waits import describe_all

ROUND = 256
TICK_S = 0.5
COMMIT_DELAY_S = 0.002  # longest time that a commit waits until it has as many requests as the last commit
CLOCK_S = 5.0  # a kill loses at most this much of the run clock

log = logging.getLogger(__name__)


class Service:
    """The shell around the ledger: bus, store, journal and clock."""

    def __init__(self, config: Config, run: Path, store: Store, opened: LoadedRun) -> None:
        self.ledger = Ledger(opened.state)
        self._config = config
        self._name = run.name
        self._store = store
        self._journal = Journal(run)
        self._base_s = opened.elapsed_s
        self._corpus = opened.corpus
        self._started = trio.current_time()
        self._next_tick = self._committed = self._base_s
        self._expected = 1  # number of requests in the last round: peers answered together often ask again together
        self._waiting = WaitingRequests(WINDOW)
        self._peers = Peers(config, self._base_s)
        self._retention = Retention(opened.state, store)
        self._lives = Lives(opened.state, store)
        self._weights = self._get_newest()
        self._evaluated = opened.state.history.evaluations[-1:]
        self._diversity = opened.state.history.diversity
        self._finished = ""
        self._capped = {} if opened.state.levels is None else opened.state.levels.capped
        self._journal.event("resume" if opened.resumed else "start", self._base_s, opened.changed)
        self._finish(self._base_s)

    def now(self) -> float:
        """Return the run clock: the seconds that this run's service has been up, over all its restarts."""
        return self._base_s + trio.current_time() - self._started

    def greet(self, hello: Hello) -> Ready | Refused:
        """Return the first message to a peer that joins.

        Refuses a peer that would design from other documents, and a process if a newer process of its name has joined.
        """
        if hello.corpus and self._corpus not in ("", hello.corpus):
            return Refused(
                f"{hello.name} has another corpus (digest {hello.corpus[:8]}, this run {self._corpus[:8]}); "
                "copy the run's files of design.corpus and tools.settings to the paths that its config names"
            )
        if why := self._lives.over(hello):
            return Refused(why)
        if self._lives.note(hello):
            self._peers.replace(hello)
        pulse = self.pulse()
        return Ready(pulse.peers, pulse.weights, finished=pulse.finished)

    def pulse(self) -> Pulse:
        """Return the services that may be called, the newest weights, and the limit that ended the run, if any."""
        return Pulse(self._peers.services(), self._weights, self._finished)

    async def run(self, server: Server) -> None:
        """Serve until cancelled. Then all acknowledged requests are committed."""
        self._peers.begin(server)
        try:
            while True:
                await self._round(server, await self._collect_arrivals(server))
        except trio.Cancelled:
            await self._commit(self.ledger.state.changes())
            self._journal.status(self.status())
            self._journal.event("stop", self.now())
            raise

    # ------------------------------------------------------------ a round

    async def _collect_arrivals(self, server: Server) -> list[IncomingRequest]:
        """Wait for requests, and return those to commit together, at most ROUND.

        Returns no requests if a tick is due or a waiting request's deadline passes first.

        Takes all requests that have arrived. If they are fewer than in the last round, also takes requests that come
        within COMMIT_DELAY_S. So a single peer never waits, and peers that were answered together are committed
        together again.
        """
        wake = min(self._next_tick, self._waiting.deadline())
        arrived: list[IncomingRequest] = []
        with trio.move_on_after(max(wake - self.now(), 0.0)):
            arrived.append(await server.receive())
        if not arrived:
            return arrived
        with trio.move_on_after(COMMIT_DELAY_S):
            while len(arrived) < ROUND:
                if (next_ := server.receive_nowait()) is not None:
                    arrived.append(next_)
                elif len(arrived) < self._expected:
                    arrived.append(await server.receive())
                else:
                    break
        self._expected = len(arrived)
        return arrived

    async def _round(self, server: Server, arrived: list[IncomingRequest]) -> None:
        now, state = self.now(), self.ledger.state
        if now >= self._next_tick:
            self._next_tick = now + TICK_S
            self.ledger.tick(now, self._peers.holders(now))
            if self._peers.stalls(state.published_step, state.counters.plays, now):
                self._tell_stall()
        # Choose the batch to delete before requests are served, so that none of them gets it.
        self._retention.stage(now)
        replies = self._serve(arrived, now)
        self.ledger.advance(now)
        replies += self._waiting.try_again(self._answer, lambda: self.status().waiting_for, server.peers, now)
        # Commit the clock even without other changes. Otherwise repeated kills could extend a lease for ever.
        if (changes := state.changes()) or now >= self._committed + CLOCK_S:
            await self._commit(changes)
        # Announce a new version only now, because it had to be committed first.
        newest = self._get_newest()
        if newest != self._weights:
            self._weights = newest
            await self._announce(server)
        if (evaluated := state.history.evaluations[-1:]) != self._evaluated:
            self._evaluated = evaluated
            self._journal.evaluation(evaluated[0], now)
        if (diversity := state.history.diversity) is not None and diversity != self._diversity:
            self._diversity = diversity
            self._journal.diversity(diversity, now)
        self._tell_closed_levels()
        self._finish(now)
        for incoming, answer in replies:
            await self._reply(server, incoming, answer)

    def _tell_closed_levels(self) -> None:
        """Log each level of a pool program that was closed because the program makes no instance at it."""
        capped = {} if self.ledger.state.levels is None else self.ledger.state.levels.capped
        for name, cap in capped.items():
            if self._capped.get(name) != cap:
                log.warning("%s makes no instance at level %d: from now on only lower levels are drawn", name, cap + 1)
        self._capped = capped

    def _finish(self, now: float) -> None:
        """When a limit ends the run, write it once into log and journal. From then on each pulse states it."""
        if not self._finished and (why := describe_reached(self.ledger.state, now)):
            self._finished = why
            log.info("finished: %s", why)
            self._journal.event("finish", now, why=why)

    async def _commit(self, changes: list[Change]) -> None:
        """Write the changes and the clock. A cancellation waits for the end of the commit."""
        self._committed = self.now()
        encoded = self._store.encode([*changes, ("meta", "clock", Clock(self._committed))])
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(self._store.commit, encoded)

    def _serve(self, arrived: list[IncomingRequest], now: float) -> Replies:
        """Apply requests and return the replies to send after the commit. Keep requests that must wait."""
        replies: Replies = []
        counters = self.ledger.state.counters
        before = counters.plays
        for incoming in arrived:
            answer = self._answer(incoming, now)
            if answer is None:
                answer = self._waiting.keep(incoming, now)
            if answer is not None:
                replies.append((incoming, answer))
        self._peers.finished(counters.plays - before, now)
        return replies

    def _answer(self, incoming: IncomingRequest, now: float) -> Answer | None:
        request, holder = incoming.message, make_holder_id(incoming.hello)
        if why := self._lives.over(incoming.hello):  # a newer process of this name came while this request waited
            return Refused(why)
        match request:
            case Enroll():
                return Enrolled(self._lives.enroll())
            case GetStatus():
                return self.status()
            case GetNewestPrograms():
                return request
            case CompareProgram(source=source):
                return self.ledger.state.memory.similarity(source)
            case GetProgram(program=digest):
                return self._get_program(digest)
            case Serving():
                return self._serving(incoming.hello, request, now)
            case HoldWeights():
                refusal = self._peers.hold(incoming.hello.name, request)
                return Refused(refusal) if refusal else Done()
            case RetireWeights():
                return self._peers.retire(request, now)
            case ReportProcesses() if request.supervisor != incoming.hello.name:
                return Refused(f"{incoming.hello.name} may not report for {request.supervisor!r}")
            case ReportProcesses():
                return self._peers.report(request, now)
            case Orders():
                refusal = self._peers.order(request)
                return Refused(refusal) if refusal else Done()
            case StopRun():
                refusal = self._peers.stop(now)
                return Refused(refusal) if refusal else Done()
        try:
            answer = self.ledger.apply(request, holder, now, incoming.id)
        except RefusalError as refusal:
            log.warning("refused %s of %s: %s", type(request).__name__, holder, refusal)
            return Refused(str(refusal))
        counters = self.ledger.state.counters
        recorded_to = min(counters.taken_step, find_last_step(self.ledger.state))
        if answer is None and isinstance(request, TakeBatch) and request.step <= recorded_to:
            past = read_recorded(self._store, request.step)
            return Refused(explain_dropped(request.step)) if request.step <= counters.dropped_step else past
        self._peers.measure(request, now)
        return answer

    async def _reply(self, server: Server, incoming: IncomingRequest, answer: Answer) -> None:
        response: Response | bytes
        if isinstance(answer, BatchRecord):
            last = answer.step == find_last_step(self.ledger.state)
            response = await trio.to_thread.run_sync(read_packed_batch, self._store, answer, last)
        elif isinstance(answer, GetNewestPrograms):
            room = self._config.bus.max_message_bytes // 2
            response = await trio.to_thread.run_sync(read_newest_programs, self._store, answer.count, room)
        else:
            response = answer
        # A lost answer does not lose the lease: the sender repeats its request, or disconnects and the lease expires.
        await server.reply(incoming, response)

    async def _announce(self, server: Server) -> None:
        """Announce new weights to every engine, and write their step into the journal."""
        assert self._weights is not None
        self._peers.announced(self._weights, self.now())
        for peer, hello in list(server.peers.items()):
            if hello.role == "engine":
                await server.push(peer, self._weights)
        if self._weights.step > 0:
            gauges = {name: beat.gauges for name, beat in self._peers.beats().items()}
            self._journal.step(self.status(), gauges)

    def _tell_stall(self) -> None:
        """Log that the run stalls, and which process waits for which."""
        status = self.status()
        log.warning("no learner step and no play for %.0f s (replay.stall_s)", status.traffic.stalled_s)
        for line in (status.waiting_for, *describe_all(status.waits, status.processes)):
            log.warning("%s", line)

    # ------------------------------------------------------------ programs and status

    def _serving(self, hello: Hello, request: Serving, now: float) -> Done | Refused:
        published = self.ledger.state.published.get(request.version)
        if published != request.digest:
            log.error("%s serves weights %s, not published as version %d", hello.name, request.digest, request.version)
            return Refused(f"weights {request.digest} were never published as version {request.version}")
        self._peers.serving(hello.name, request, now)
        return Done()

    def _get_program(self, digest: str) -> Program | Refused:
        source = self.ledger.state.program(digest)
        return Refused(f"no active environment has the program {digest!r}") if source is None else Program(source)

    def status(self) -> Status:
        """Return the status of the run."""
        now = self.now()
        view = self._peers.seen(self._name, now)
        waits = (*explain_waits(view.waits, self.ledger), *list_own(self.ledger.state, now))
        return build_status(self.ledger, msgspec.structs.replace(view, waits=waits))

    def _get_newest(self) -> Weights | None:
        newest = self.ledger.state.counters.newest
        return None if newest is None else newest.weights
