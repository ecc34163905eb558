"""The service's view of its peers: the connected peers, the processes that supervisors report, and rates of work.

The view is kept in memory only.
"""

import math

import msgspec

from replay.ledger.keys import make_holder_id
from replay.ledger.statistics import Meter
from replay.service.held_weights import EngineWeights
from replay.service.status import PeersView
from replay.service.why import Progress
from spade.codec import encode
from spade.config import Config
from spade.protocol import (
    MOST_ACTORS,
    AnyRequest,
    Heartbeat,
    Hello,
    HoldWeights,
    Orders,
    Peer,
    Process,
    Refused,
    RejectCandidate,
    ReportProcesses,
    Retired,
    RetireWeights,
    Role,
    Serving,
    SubmitEnvironment,
    SubmitPlays,
    Traffic,
    Weights,
)
from spade.transport import Server
from spade.waits import add_owner

SUPERVISORS = 64
REPORT_BYTES = 262_144  # most bytes of a supervisor's report, which is kept, shown and written into status.json
PARTINGS = 6  # a supervisor drains up to this many roles one after the other, each within supervise.drain_s
CALLED: frozenset[Role] = frozenset({"engine", "endpoint", "env-runner", "learner"})


class Peers:
    """The peers seen since the service started. Nobody is connected before `begin`."""

    def __init__(self, config: Config, start: float) -> None:
        self._start = start
        self._silence_s = config.bus.silence_s
        self._server: Server | None = None
        self._services: tuple[int, tuple[Peer, ...]] = (-1, ())  # `Server.changes`, and the list made at this count
        self._progress = Progress(config.replay.stall_s, start)
        self._plays = Meter(start)
        self._tokens = Meter(start)
        self._delivered_tokens = self._delivered_sampled_tokens = 0
        self._processes: dict[str, tuple[Process, ...]] = {}
        self._wanted: dict[str, dict[Role, int]] = {}
        self._orders: dict[str, Orders] = {}
        self._stop_by: float | None = None  # run clock at which the service's own supervisor stops waiting for others
        self._source = config.design.source
        self._drain_s = config.supervise.drain_s
        self._spreading: Weights | None = None
        self._announced = start
        self._broadcast_s: float | None = None
        self._served: dict[str, int] = {}
        self._held = EngineWeights(start, config.bus.silence_s)

    def begin(self, server: Server) -> None:
        """Set the server to which peers connect from now on."""
        self._server = server

    # ------------------------------------------------------------ connected peers

    def _list_hellos(self) -> tuple[Hello, ...]:
        return () if self._server is None else tuple(self._server.peers.values())

    def services(self) -> tuple[Peer, ...]:
        """Return the services that other peers may call.

        The list is cached until a peer comes or goes, because every heartbeat asks for it.
        """
        if self._server is not None and self._services[0] != self._server.changes:
            services = {
                hello.name: Peer(hello.role, hello.name, hello.address)
                for hello in self._list_hellos()
                if hello.address is not None and hello.role in CALLED
            }
            self._services = self._server.changes, tuple(services.values())
        return self._services[1]

    def holders(self, now: float) -> frozenset[str] | None:
        """Return the peers that may hold leases.

        Returns None until every living peer has had time to greet a restarted service.
        """
        return None if now - self._start < self._silence_s else frozenset(map(make_holder_id, self._list_hellos()))

    def beats(self) -> dict[str, Heartbeat]:
        """Return the last heartbeat of each peer, by its name."""
        if self._server is None:
            return {}
        beats = self._server.heartbeats
        return {
            hello.name: _remove_infinite(beats[peer]) for peer, hello in self._server.peers.items() if peer in beats
        }

    def replace(self, newer: Hello) -> None:
        """Disconnect older processes with the same name as `newer`. If they connect again, they are refused."""
        if self._server is None:
            return
        for peer, hello in list(self._server.peers.items()):
            if hello.name == newer.name and hello.life < newer.life:
                self._server.give_up(peer, f"life {newer.life} has taken its place")

    # ------------------------------------------------------------ events

    def finished(self, plays: int, now: float) -> None:
        """Count `plays` more finished plays."""
        self._plays.add(now, plays)

    def measure(self, request: AnyRequest, now: float) -> None:
        """Count the tokens of an accepted request, even if they will never be trained."""
        match request:
            case SubmitPlays(plays=plays):
                handed_in = [play.trajectory for play in plays]
            case SubmitEnvironment(trajectory=trajectory) | RejectCandidate(trajectory=trajectory):
                handed_in = [trajectory]
            case _:
                return
        trajectories = [trajectory for trajectory in handed_in if trajectory is not None]
        sampled = sum(trajectory.sampled for trajectory in trajectories)
        self._tokens.add(now, sampled)
        self._delivered_tokens += sum(trajectory.tokens for trajectory in trajectories)
        self._delivered_sampled_tokens += sampled

    def stalls(self, step: int, plays: int, now: float) -> bool:
        """Record the run's progress. Returns True once when the run stalls."""
        return self._progress.look(step, plays, now)

    def announced(self, weights: Weights, now: float) -> None:
        """Record that these weights are being announced to the engines."""
        self._spreading, self._announced = weights, now
        self._held.published(weights.digest)

    def serving(self, name: str, serving: Serving, now: float) -> None:
        """Record that an engine serves these weights.

        When all connected engines serve the newest weights, record how long their broadcast took.
        """
        engines = [hello.name for hello in self._list_hellos() if hello.role == "engine"]
        self._served = {engine: version for engine, version in self._served.items() if engine in engines}
        self._served[name] = serving.version
        newest = self._spreading
        if newest is not None and all(self._served.get(engine, 0) >= newest.version for engine in engines):
            self._broadcast_s, self._spreading = now - self._announced, None

    def hold(self, engine: str, request: HoldWeights) -> str:
        """Record that an engine holds exactly these weights. Returns the reason if it must not, else ""."""
        gone = self._held.hold(engine, request.digests)
        return f"weights {gone} are retired; newer ones have been published" if gone else ""

    def retire(self, request: RetireWeights, now: float) -> Retired:
        """Retire those of the weights that no connected engine holds."""
        engines = {hello.name for hello in self._list_hellos() if hello.role == "engine"}
        return Retired(self._held.retire(request.digests, engines, now))

    # ------------------------------------------------------------ supervisors

    def report(self, report: ReportProcesses, now: float) -> Orders | Refused:
        """Keep a supervisor's newest report. Returns the orders for this supervisor since its last report."""
        if (size := len(encode(report))) > REPORT_BYTES:
            return Refused(
                f"a report of {size} bytes is over {REPORT_BYTES}; start more supervisors, each with fewer processes"
            )
        self._processes.pop(report.supervisor, None)
        self._processes[report.supervisor] = report.processes
        if report.wanted is not None:
            self._wanted[report.supervisor] = report.wanted
        while len(self._processes) > SUPERVISORS:
            oldest = next(iter(self._processes))
            del self._processes[oldest]
            self._wanted.pop(oldest, None)
            self._orders.pop(oldest, None)
        orders = self._orders.pop(report.supervisor, Orders(report.supervisor))
        return msgspec.structs.replace(orders, stop=self._can_leave(report, now))

    def stop(self, now: float) -> str:
        """Stop all supervisors: the answer to their next report tells them to leave.

        Returns "", or the reason if no supervisor is connected. A repeated call always returns "", because the
        supervisors may have left since the first call.
        """
        if self._stop_by is None and not any(hello.role == "supervisor" for hello in self._list_hellos()):
            return "no supervisor is connected"
        self._stop_by = self._stop_by or now + PARTINGS * self._drain_s
        return ""

    def _can_leave(self, report: ReportProcesses, now: float) -> bool:
        """Return True if this supervisor should leave now.

        The service's own supervisor leaves when all others and their processes are gone.
        """
        if self._stop_by is None:
            return False
        serving = any(process.role == "replay" for process in report.processes)
        return not serving or now >= self._stop_by or not self._has_others(report)

    def _has_others(self, report: ReportProcesses) -> bool:
        """Return True while another supervisor, or a process of one, is connected."""
        own = {report.supervisor, *(process.name for process in report.processes)}
        theirs = {process.name for reported in self._processes.values() for process in reported}
        others = [hello for hello in self._list_hellos() if hello.name not in own]
        return any(hello.role == "supervisor" or hello.name in theirs for hello in others)

    def order(self, orders: Orders) -> str:
        """Keep orders until the supervisor's next report. Returns the reason if the orders are impossible, else ""."""
        connected = sorted({hello.name for hello in self._list_hellos()} & self._wanted.keys())
        if orders.supervisor not in connected:
            return f"no supervisor {orders.supervisor!r} keeps actors; there are {', '.join(connected) or 'none'}"
        if not all(0 <= count <= MOST_ACTORS for count in orders.counts.values()) or len(orders.drain) > MOST_ACTORS:
            return f"a supervisor keeps 0 to {MOST_ACTORS} actors of a role"
        needless: Role = "designer" if self._source == "pool" else "curator"
        if orders.counts.get(needless):
            return f"this run has no work for a {needless} (design.source)"
        before = self._orders.get(orders.supervisor, Orders(orders.supervisor))
        drain = tuple(dict.fromkeys((*before.drain, *orders.drain)))[-MOST_ACTORS:]
        self._orders[orders.supervisor] = Orders(orders.supervisor, {**before.counts, **orders.counts}, drain)
        return ""

    # ------------------------------------------------------------ the whole view

    def seen(self, run: str, now: float) -> PeersView:
        """Return the whole view at `now`."""
        hellos, beats = self._list_hellos(), self.beats()
        connected = {hello.name for hello in hellos}
        dropped, strangers = (0, 0) if self._server is None else (self._server.dropped, self._server.strangers)
        processes = [
            _mark_silent(process, supervisor, supervisor in connected, beats.get(process.name, Heartbeat()).gauges)
            for supervisor, reported in self._processes.items()
            for process in reported
        ]
        return PeersView(
            run=run,
            now=now,
            traffic=Traffic(
                plays_per_s=self._plays.rate(now),
                sampled_tokens_per_s=self._tokens.rate(now),
                dropped_messages=dropped,
                strangers=strangers,
                stalled_s=self._progress.stalled_s(now),
                broadcast_s=self._broadcast_s,
                delivered_tokens=self._delivered_tokens,
                delivered_sampled_tokens=self._delivered_sampled_tokens,
            ),
            roles=frozenset(hello.role for hello in hellos),
            processes=tuple(processes),
            wanted={supervisor: counts for supervisor, counts in self._wanted.items() if supervisor in connected},
            waits=tuple(wait for name, beat in beats.items() for wait in add_owner(beat.waits, name)),
        )


def _remove_infinite(beat: Heartbeat) -> Heartbeat:
    """Return a heartbeat without infinite floats and NaN, which would make status.json unreadable."""
    gauges = {name: value for name, value in beat.gauges.items() if math.isfinite(value)}
    return Heartbeat(gauges, tuple(wait for wait in beat.waits if math.isfinite(wait.for_s)))


def _mark_silent(process: Process, supervisor: str, supervised: bool, gauges: dict[str, float]) -> Process:
    """Return a process with its supervisor and gauges. It is "silent" if its supervisor is not connected."""
    alive = process.state in ("waiting", "starting", "ready", "restarting", "draining")
    state = "silent" if alive and not supervised else process.state
    return msgspec.structs.replace(process, state=state, gauges=gauges, supervisor=supervisor)
