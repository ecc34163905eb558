"""A run in simulated time: designers, agents and a learner of random speed drive a real ledger, with accidents."""

import heapq
import itertools
import math
from collections.abc import Callable
from functools import partial
from random import Random

import msgspec

from replay.ledger.ledger import Ledger
from replay.ledger.records import BatchRecord
from replay.ledger.state import RunState
from spade import protocol
from spade.codec import pack_floats, pack_ids
from spade.config import Config, load

SECRET = b"a secret of the tests"


def config(*overrides: str) -> Config:
    """The nano recipe without audits, with overrides."""
    return load("nano", ("audit.replays=0", "audit.random_plays=0", *overrides))


def started(settings: Config | RunState, digest: str | None = None) -> Ledger:
    """A ledger with the first weights, at time 0."""
    ledger = Ledger(settings if isinstance(settings, RunState) else RunState(settings, SECRET))
    ledger.apply(weights(0, digest), "learner", 0.0)
    ledger.advance(0.0)
    return ledger


def leased_job(ledger: Ledger, now: float = 0.0) -> protocol.DesignJob:
    """A design job, leased by designer/1."""
    (job,) = ledger.apply(protocol.LeaseDesigns(1, 0.0), "designer/1", now).jobs
    return job


def trajectory(version: int, read: int = 3, sampled: int = 2) -> protocol.Trajectory:
    """A short trajectory sampled by one version."""
    return protocol.Trajectory(
        ids=pack_ids(list(range(read + sampled))),
        spans=(read, sampled),
        logprobs=pack_floats([-1.0] * sampled),
        versions=((version, sampled),) if sampled else (),
        temperature=1.0,
    )


def environment(job: protocol.DesignJob, version: int, name: str = "LampEnv") -> protocol.SubmitEnvironment:
    """A designer's environment for the job."""
    return protocol.SubmitEnvironment(
        job=job.id, lease=job.lease, attempt=1, document="tides", name=name, source=f"class {name}: ...",
        hint="pull the second lever", seed_sensitive=True, first_observation="Three levers.",
        trajectory=trajectory(version), shown=shown(job),
    )  # fmt: skip


def shown(job: protocol.DesignJob) -> tuple[str, ...]:
    """All that the job may show, as where all of it fits into the prompt."""
    examples = job.seeds if job.avoid is None else (*job.seeds, job.avoid)
    return tuple(example.environment for example in examples)


def rejected(job: protocol.DesignJob, version: int, attempt: int = 1, last: bool = False) -> protocol.RejectCandidate:
    """An attempt that failed admission."""
    said = trajectory(version)
    return protocol.RejectCandidate(
        job.id, job.lease, attempt, "tides", "class", "parse", "no class", said, last, shown(job)
    )


def ended(play: protocol.PlayLease, value: float, version: int) -> protocol.EndedPlay:
    """A finished play of two turns with return `value`."""
    recording = protocol.Recording((play.id, "pull"), bytes(3 * protocol.DIGEST_BYTES), 8)
    return protocol.EndedPlay(
        play.id, play.lease, "terminated", value, (0.0, value), 0.5, trajectory(version), recording=recording
    )


def played(play: protocol.PlayLease, value: float, version: int) -> protocol.SubmitPlays:
    """A message of one finished play."""
    return protocol.SubmitPlays((ended(play, value, version),))


def void(play: protocol.PlayLease) -> protocol.SubmitPlays:
    """A message of one play that the environment's fault ended."""
    return protocol.SubmitPlays(
        (protocol.EndedPlay(play.id, play.lease, "fault", 0.0, (), 0.5, None, "exception: boom"),)
    )


def audited(job: protocol.AuditJob, finding: str = "") -> protocol.Audited:
    """The outcome of an audit in which everything came to a result."""
    return protocol.Audited(job.environment, job.lease, finding, len(job.replays), 0, len(job.seeds), 0, 30, 0.25)


def weights(step: int, digest: str | None = None) -> protocol.Publish:
    """New weights after a step."""
    return protocol.Publish(step, digest or f"digest-{step}", f"/weights/{step}", protocol.StepMetrics())


def snapshot(state):
    """All of a state as bytes."""
    tables = (
        state.jobs, state.environments, state.sources, state.plays, state.design_groups, state.queue, state.batches,
        state.audits, {id: sorted(kept.items()) for id, kept in state.recordings.items()},
    )  # fmt: skip
    return msgspec.msgpack.encode(
        [sorted(table.items()) for table in tables]
        + [state.counters, state.statistics, state.history, list(state.memory)]
    )


class Pace(msgspec.Struct, frozen=True):
    """Mean seconds of the parts, how much runs at once, and the shares of accidents.

    `design_s` is of an attempt; of `failed_attempts` of them the next follows. `failed_designs` of the jobs fail.
    Times are log-normal: `spread` is the sigma of any part, `apart` that of the mean play between environments. After
    a step the learner takes `publish_s` to publish and `checkpoint_s` for a checkpoint, where the config has them due.
    """

    play_s: float = 4.0
    spread: float = 1.0
    apart: float = 0.0
    design_s: float = 6.0
    step_s: float = 3.0
    audit_s: float = 0.5
    episodes: int = 48
    designs: int = 4
    lost: float = 0.0
    faults: float = 0.0
    released: float = 0.0
    failed_designs: float = 0.05
    failed_attempts: float = 0.0
    findings: float = 0.0
    tick_s: float = 0.5
    publish_s: float = 0.0
    checkpoint_s: float = 0.0


class World:
    """Events in order of time.

    batches        what the learner was given
    leases         every play handed out, in order
    double_leases  plays handed out while somebody else still had them
    idle_s         seconds for which the learner waited for a batch
    played_s       seconds of all plays that began, together
    """

    def __init__(self, settings: Config, seed: int, pace: Pace) -> None:
        self.ledger = Ledger(RunState(settings, SECRET))
        self.pace = pace
        self.batches: list[BatchRecord] = []
        self.leases: list[protocol.PlayLease] = []
        self.double_leases: list[protocol.PlayLease] = []
        self.now = 0.0
        self.idle_s = 0.0
        self.played_s = 0.0
        self._random = Random(seed)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._held: dict[str, tuple[int, float]] = {}
        self._episodes = 0
        self._designs = 0
        self._asked_at = 0.0
        self._learning = False
        self.ledger.apply(weights(0), "learner/1", 0.0)
        self._after(pace.tick_s, self._tick)

    def run(self, until: float, watch: Callable[["World"], None] | None = None) -> None:
        """Simulate on; `watch` sees the world after every event."""
        while self._events and self._events[0][0] <= until:
            self.now, _, event = heapq.heappop(self._events)
            event()
            self._ask()
            if watch is not None:
                watch(self)

    def _after(self, delay: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + delay, next(self._order), event))

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def _lasts(self, mean: float) -> float:
        """A log-normal time of this mean."""
        return mean * _factor(self._random, self.pace.spread)

    def _play_lasts(self, play: protocol.PlayLease) -> float:
        apart = _factor(Random(f"pace of {play.environment}"), self.pace.apart)
        return self._lasts(self.pace.play_s * apart)

    def _tick(self) -> None:
        self.ledger.tick(self.now, None)
        self._after(self.pace.tick_s, self._tick)

    def _ask(self) -> None:
        """Everybody idle asks for work, as it would wait at the service."""
        ledger, now = self.ledger, self.now
        ledger.advance(now)
        if self._designs < self.pace.designs:
            answer = ledger.apply(protocol.LeaseDesigns(self.pace.designs - self._designs, 0.0), "designer/1", now)
            for job in answer.jobs if isinstance(answer, protocol.Designs) else ():
                self._designs += 1
                self._attempt(job, 1)
        if self._episodes < self.pace.episodes:
            answer = ledger.apply(protocol.LeasePlays(self.pace.episodes - self._episodes, 0.0), "agent/1", now)
            for play in answer.plays if isinstance(answer, protocol.Plays) else ():
                self._episodes += 1
                self._hold(play)
                version = ledger.state.version
                lasts = self._play_lasts(play)
                self.played_s += lasts
                self._after(lasts, lambda play=play, version=version: self._play(play, version))
        audits = ledger.apply(protocol.LeaseAudit(0.0), "env-runner/1", now)
        for job in audits.jobs if isinstance(audits, protocol.Audits) else ():
            self._after(self._lasts(self.pace.audit_s), lambda job=job: self._audit(job))
        if not self._learning:
            batch = ledger.apply(protocol.TakeBatch(ledger.state.counters.taken_step + 1, 0.0), "learner/1", now)
            if isinstance(batch, BatchRecord):
                self._learning = True
                self.idle_s += now - self._asked_at
                self.batches.append(batch)
                self._after(self._lasts(self.pace.step_s), lambda: self._learn(batch))

    def _attempt(self, job: protocol.DesignJob, attempt: int) -> None:
        """Begin an attempt at a design."""
        self._after(self._lasts(self.pace.design_s), partial(self._design, job, attempt, self.ledger.state.version))

    def _design(self, job: protocol.DesignJob, attempt: int, version: int) -> None:
        if attempt < self.ledger.state.config.design.attempts and self._chance(self.pace.failed_attempts):
            self.ledger.apply(rejected(job, version, attempt), "designer/1", self.now)
            self._attempt(job, attempt + 1)
            return
        self._designs -= 1
        if self._chance(self.pace.lost):
            return
        if self._chance(self.pace.failed_designs):
            self.ledger.apply(rejected(job, version, attempt, last=True), "designer/1", self.now)
        else:
            self.ledger.apply(environment(job, version), "designer/1", self.now)

    def _hold(self, play: protocol.PlayLease) -> None:
        self.leases.append(play)
        if play.id in self._held and self.now < self._held[play.id][1]:
            self.double_leases.append(play)
        self._held[play.id] = (play.lease, self.now + self.ledger.state.config.play.lease_s)

    def _play(self, play: protocol.PlayLease, version: int) -> None:
        self._episodes -= 1
        if self._chance(self.pace.lost):
            return
        if play.id in self._held and self._held[play.id][0] == play.lease:
            del self._held[play.id]
        if self._chance(self.pace.released):
            self.ledger.apply(protocol.ReleasePlay(play.id, play.lease), "agent/1", self.now)
            return
        if self._chance(self.pace.faults):
            self.ledger.apply(void(play), "agent/1", self.now)
            return
        skill = Random(play.environment).random()
        won = self._chance(min(skill + 0.2 * play.hinted, 1.0))
        self.ledger.apply(played(play, float(won), version), "agent/1", self.now)

    def _audit(self, job: protocol.AuditJob) -> None:
        if not self._chance(self.pace.lost):
            finding = "the same actions came out otherwise" if self._chance(self.pace.findings) else ""
            self.ledger.apply(audited(job, finding), "env-runner/1", self.now)

    def _learn(self, batch: BatchRecord) -> None:
        """End a step: publish and save what is due, then ask for the next batch."""
        learner = self.ledger.state.config.learner
        due = [
            (self.pace.publish_s, weights(batch.step), learner.publish_every),
            (self.pace.checkpoint_s, protocol.Checkpointed(batch.step), learner.checkpoint_every),
        ]
        self._conclude([(takes, request) for takes, request, every in due if batch.step % every == 0])

    def _conclude(self, due: list[tuple[float, protocol.Publish | protocol.Checkpointed]]) -> None:
        """Make the requests one after the other, each after the time that it takes."""
        for index, (takes, request) in enumerate(due):
            if takes:
                self._after(takes, partial(self._conclude, [(0.0, request), *due[index + 1 :]]))
                return
            self.ledger.apply(request, "learner/1", self.now)
        self._learning = False
        self._asked_at = self.now


def _factor(random: Random, sigma: float) -> float:
    """A log-normal draw with a mean of 1."""
    return random.lognormvariate(-sigma * sigma / 2, sigma)


def mean_lag(world: World) -> float:
    """Over all agent trajectories trained."""
    lags = [b.version - m.version for b in world.batches for g in b.groups if g.role == "agent" for m in g.members]
    return sum(lags) / len(lags) if lags else math.nan
