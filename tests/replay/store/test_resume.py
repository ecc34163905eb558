"""Resume is exact: a ledger that crashes at any moment hands out the very work of one that never did.

Two ledgers get the same requests in the same order. One lives on; the other rests in a real store and is thrown away
and loaded again whenever hypothesis likes, also between a request's effect and its commit, after which the sender
(who has no answer) asks again. Beside them stands the plainest model there is: what was acknowledged, by its id.
"""

import shutil
import tempfile
from pathlib import Path
from random import Random

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from replay.ledger.batches import count_waiting
from replay.ledger.ledger import Ledger
from replay.ledger.records import BatchRecord
from replay.ledger.state import RunState
from replay.store import open_store
from replay.store.load import load
from spade import protocol
from tests.replay import plain
from tests.replay.replay_world import (
    SECRET,
    audited,
    config,
    environment,
    played,
    rejected,
    snapshot,
    trajectory,
    void,
    weights,
)


def work_of(answer):
    return answer.plays if isinstance(answer, protocol.Plays) else answer.jobs


# Small enough that everything happens within a few dozen requests, deadlines included.
SETTINGS = config(
    "design.active_environments=4", "design.round_jobs=4", "design.active_skills=2", "design.lease_s=6",
    "design.round_deadline_s=12", "design.memory_records=2", "play.group_size=2", "play.window_chunks=2",
    "play.lease_s=4", "play.window_deadline_s=10", "play.chunk_wait_s=3", "learner.batch_sequences=4",
    "learner.agent_lag=2", "learner.group_deadline_s=20", "audit.replays=1",
    "audit.random_plays=2",
)  # fmt: skip


def holder_of(work):
    """The holder of its newest lease; anybody where it has none, or is over."""
    return work.holder if work is not None and work.holder else "x/1"


HOLDERS = st.sampled_from(["a/1", "a/2", "b/1"])
COUNTS = st.integers(1, 12)
CRASHES = st.sampled_from([False, False, False, True])


class Resume(RuleBasedStateMachine):
    """`calm` is never interrupted; `shaken` is."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.opened = open_store(self.folder, "nosync")
        self.store = self.opened.__enter__()
        self.calm = Ledger(RunState(SETTINGS, SECRET))
        self.shaken = Ledger(RunState(SETTINGS, SECRET))
        self.now = 0.0
        self.requests = 0
        self.plays: list[protocol.PlayLease] = []
        self.jobs: list[protocol.DesignJob] = []
        self.audits: list[protocol.AuditJob] = []
        self.acknowledged: dict[str, protocol.Trajectory] = {}

    def teardown(self) -> None:
        self.restart()
        for key, handed_in in self.acknowledged.items():
            assert self.store.get("trajectories", key, protocol.Trajectory) == handed_in
        self.opened.__exit__(None, None, None)
        shutil.rmtree(self.folder)

    def commit(self) -> None:
        if changes := self.shaken.state.changes():
            self.store.commit(self.store.encode(changes))
        self.calm.state.changes()

    def ask(self, request, holder="x/1", crash=False):
        """Ask both, as a service does; with a crash the effect is lost before its commit, and it is asked again."""
        self.requests += 1
        if crash:
            self.shaken.apply(request, holder, self.now, self.requests)
            self.shaken.advance(self.now)
            self.shaken = Ledger(load(self.store, SETTINGS, SECRET))
        answers = [ledger.apply(request, holder, self.now, self.requests) for ledger in (self.calm, self.shaken)]
        assert msgspec.msgpack.encode(answers[0]) == msgspec.msgpack.encode(answers[1])
        for ledger in (self.calm, self.shaken):
            ledger.advance(self.now)
        self.commit()
        return answers[0]

    @initialize()
    def begin(self) -> None:
        self.ask(weights(0))

    def lease(self, request, holder, crash, lost):
        """The work leased. `lost`: committed, but the service dies before it answers; asked again, it says the same."""
        answer = self.ask(request, holder, crash)
        leased = () if answer is None else work_of(answer)
        if lost and leased:
            self.restart()
            self.requests -= 1
            again = self.ask(request, holder)
            assert {each[0] for each in map(msgspec.structs.astuple, work_of(again))} == {
                each[0] for each in map(msgspec.structs.astuple, leased)
            }
        return leased

    @rule(count=COUNTS, holder=HOLDERS, crash=CRASHES, lost=CRASHES)
    def lease_plays(self, count, holder, crash, lost) -> None:
        order = plain.lease_order(self.calm)[:count]
        leased = self.lease(protocol.LeasePlays(count, 0.0), holder, crash, lost)
        assert [play.id for play in leased] == order
        self.plays += leased

    @rule(count=COUNTS, holder=HOLDERS, crash=CRASHES, lost=CRASHES)
    def lease_designs(self, count, holder, crash, lost) -> None:
        self.jobs += self.lease(protocol.LeaseDesigns(count, 0.0), holder, crash, lost)

    @rule(holder=HOLDERS, crash=CRASHES, lost=CRASHES)
    def lease_audit(self, holder, crash, lost) -> None:
        self.audits += self.lease(protocol.LeaseAudit(0.0), holder, crash, lost)

    @precondition(lambda self: self.audits)
    @rule(first=st.booleans(), finding=st.sampled_from(["", "", "it came out otherwise"]), crash=CRASHES)
    def end_audit(self, first, finding, crash) -> None:
        job = self.audits.pop(0 if first else -1)
        self.ask(audited(job, finding), holder_of(self.calm.state.audits.get(job.environment)), crash)

    @precondition(lambda self: self.jobs)
    @rule(
        first=st.booleans(),
        hows=st.lists(st.sampled_from(["admit"] * 3 + ["reject", "fail", "release"]), min_size=1, max_size=4),
        crash=CRASHES,
    )
    def end_designs(self, first, hows, crash) -> None:
        for how in hows[: len(self.jobs)]:
            self.end_design(self.jobs.pop(0 if first else -1), how, crash)

    def end_design(self, job, how, crash) -> None:
        version = self.calm.state.version
        alive = self.calm.state.jobs.get(job.id)
        if how == "admit":
            self.ask(environment(job, version), holder_of(alive), crash)
            if alive:
                self.acknowledged[job.id] = trajectory(version)
        elif how == "release":
            self.ask(protocol.ReleaseDesign(job.id, job.lease), holder_of(alive), crash)
        else:
            known = alive is None or (job.lease, 1) in alive.attempts
            self.ask(rejected(job, version, last=how == "fail"), holder_of(alive), crash)
            if not known:
                self.acknowledged[f"{job.id}/{job.lease:03d}/001"] = trajectory(version)

    @precondition(lambda self: self.plays)
    @rule(
        first=st.booleans(),
        hows=st.lists(st.sampled_from([0.0, 1.0] * 6 + ["void", "release"]), min_size=1, max_size=8),
        repeated=CRASHES,
        crash=CRASHES,
    )
    def end_plays(self, first, hows, repeated, crash) -> None:
        for how in hows[: len(self.plays)]:
            play = self.plays.pop(0 if first else -1)
            for _ in range(1 + repeated):
                self.end_play(play, how, crash)

    def end_play(self, play, how, crash) -> None:
        version = self.calm.state.version
        held = self.calm.state.plays.get(play.id)
        if how == "void":
            self.ask(void(play), holder_of(held), crash)
        elif how == "release":
            self.ask(protocol.ReleasePlay(play.id, play.lease), holder_of(held), crash)
        else:
            counts = held is not None and held.state in ("open", "leased")
            self.ask(played(play, how, version), holder_of(held), crash)
            if counts:
                self.acknowledged[play.id] = trajectory(version)

    @rule(crash=CRASHES, again=st.booleans())
    def learn(self, crash, again) -> None:
        step = self.calm.state.counters.taken_step + 1
        batch = self.ask(protocol.TakeBatch(step, 0.0), crash=crash)
        if isinstance(batch, BatchRecord):
            if again:
                self.restart()
                self.ask(protocol.TakeBatch(step, 0.0), crash=crash)
            self.ask(weights(step), crash=crash)

    @precondition(lambda self: self.calm.state.counters.taken_step > 0)
    @rule(crash=CRASHES)
    def checkpoint(self, crash) -> None:
        self.ask(protocol.Checkpointed(self.calm.state.counters.taken_step), crash=crash)

    @rule(crash=CRASHES)
    def learn_anew(self, crash) -> None:
        """A learner takes the steps since its checkpoint again and comes out otherwise; that makes nothing too old."""
        counters = self.calm.state.counters
        self.pass_time(0.0, None)
        wasted = self.calm.state.counters.wasted
        for step in range(counters.retired_step, counters.taken_step + 1):
            self.ask(weights(step, f"{step}, {self.requests}"), crash=crash)
        self.pass_time(0.0, None)
        assert self.calm.state.counters.wasted == wasted

    @rule(seconds=st.sampled_from([0.5, 0.5, 3.0, 10.0]), live=st.sampled_from([None, None, frozenset(["a/1", "a/2"])]))
    def pass_time(self, seconds, live) -> None:
        self.now += seconds
        for ledger in (self.calm, self.shaken):
            ledger.tick(self.now, live)
        self.commit()

    @rule(seed=st.integers(0, 1_000_000))
    def live_on(self, seed) -> None:
        """A stretch of an ordinary run with its crashes, to come where single requests drawn at random never do."""
        random = Random(seed)
        for _ in range(12):
            crash, lost = random.random() < 0.1, random.random() < 0.1
            match random.choice(["designs", "plays", "plays", "plays", "audit", "learn", "time"]):
                case "audit":
                    self.lease_audit("a/2", crash, lost)
                    while self.audits:
                        self.end_audit(True, random.choice(["", "it came out otherwise"]), crash)
                case "designs":
                    self.lease_designs(4, "a/1", crash, lost)
                    self.end_designs(True, random.choices(["admit", "fail"], [4, 1], k=4), crash)
                case "plays":
                    self.lease_plays(8, "a/1", crash, lost)
                    self.end_plays(True, random.choices([0.0, 1.0, "void", "release"], [8, 8, 1, 1], k=6), crash, lost)
                case "learn":
                    self.learn(crash, lost)
                case "time":
                    self.pass_time(0.5, None)

    @rule()
    def restart(self) -> None:
        self.shaken = Ledger(load(self.store, SETTINGS, SECRET))

    @invariant()
    def counts_are_those_of_the_records(self) -> None:
        for ledger in (self.calm, self.shaken):
            state, flight = ledger.state, ledger.state.flight
            sequences, oldest = plain.in_flight(ledger)
            load = ledger.load()
            assert (load.outstanding, load.oldest) == (sequences + count_waiting(state), oldest)
            assert {id: (w.plays, w.voids, w.ended) for id, w in flight.windows.items()} == plain.windows(state)
            assert flight.unscored == sum(chunk.scored_at is None for _, chunk, _ in plain.chunks(state))
            leased = [play.id for play in state.plays.values() if play.state == "leased"]
            assert sorted(play.id for play in flight) == sorted(leased)
            leased = [job.id for job in state.jobs.values() if job.state == "leased"]
            assert sorted(job.id for job in state.job_leases) == sorted(leased)
            under_way = {each.id for each in state.environments.values() if each.audit is not None}
            assert under_way == set(state.audits)
            leased = [audit.id for audit in state.audits.values() if audit.state == "leased"]
            assert sorted(audit.id for audit in state.audit_leases) == sorted(leased)

    @invariant()
    def both_are_the_same(self) -> None:
        assert snapshot(self.shaken.state) == snapshot(self.calm.state)


Resume.TestCase.settings = settings(max_examples=100, stateful_step_count=20, deadline=None)
TestResume = Resume.TestCase
