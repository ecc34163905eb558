"""Trajectories of weights that were never published are kept apart, counted, and never trained."""

import io
from dataclasses import replace

import msgspec
import pytest
import trio
from rich.console import Console

from replay.inspect.contents import read_contents
from replay.inspect.verify import find_problems
from replay.ledger import provenance
from replay.ledger.ledger import Ledger
from replay.ledger.records import QuarantineRecord
from replay.store import open_reader, open_store
from replay.store.load import open_run
from spade.app.screen.observe import explain
from spade.app.screen.view import render
from spade.errors import RefusedError
from spade.protocol import Counts, Done, LeasePlays, Serving, Status, SubmitPlays, TakeBatch
from tests.replay.feeding import publish
from tests.replay.replay_world import config, ended, environment, leased_job, rejected, started, trajectory
from tests.replay.service.running import joined, serving

SETTINGS = config(
    "design.active_environments=1", "design.round_jobs=1", "design.active_skills=1", "play.group_size=2",
    "play.window_chunks=1", "learner.batch_sequences=2", "design.attempts=2",
)  # fmt: skip
GOOD, OTHER = "0123456789abcdef" * 2, "f" * 32


def sampled(message, *digests, version=1):
    """The message as if its tokens had been sampled by weights of these digests."""
    runs = tuple((version, 1) for _ in digests)
    tokens = trajectory(version, sampled=len(digests))
    whole = b"".join(map(bytes.fromhex, digests))
    return msgspec.structs.replace(message, trajectory=msgspec.structs.replace(tokens, versions=runs, digests=whole))


def begin(state=SETTINGS):
    return started(state, GOOD)


def lease_plays(ledger):
    """The plays that are leased, unhinted first."""
    answer = ledger.apply(LeasePlays(100, 0.0), "agent/1", 0.0)
    return tuple(sorted(answer.plays, key=lambda play: (play.hinted, play.id))) if answer else ()


def design(ledger):
    ledger.apply(sampled(environment(leased_job(ledger), 1), GOOD), "designer/1", 0.0)
    ledger.advance(0.0)


@pytest.mark.parametrize(("made", "why"), [
    (lambda message: sampled(message, GOOD, OTHER), f"weights {OTHER} were never published as version 1"),
    (lambda message: sampled(message, "00" * 16), f"weights {'00' * 16} were never published as version 1"),
    (lambda message: sampled(message, GOOD, version=2), "version 2 was never published"),
    (lambda message: msgspec.structs.replace(message, trajectory=trajectory(9)), "version 9 was never published"),
])  # fmt: skip
def test_a_play_of_unpublished_weights_is_kept_apart_and_played_again(made, why):
    ledger = begin()
    design(ledger)
    play, *others = lease_plays(ledger)
    state = ledger.state
    for _ in range(2):  # sent again, it is the same
        ledger.apply(SubmitPlays((made(ended(play, 1.0, 1)),)), "agent/1", 0.0)
    assert (state.counters.quarantined, state.counters.plays) == (1, 0)
    assert state.counters.newest_quarantined == f"{play.id}/1 of agent/1: {why}"
    (again,) = lease_plays(ledger)
    assert (again.id, again.lease, again.seed) == (play.id, 2, play.seed)
    plays = [sampled(ended(one, float(index % 2), 1), GOOD, GOOD) for index, one in enumerate((again, *others))]
    ledger.apply(SubmitPlays(tuple(plays)), "agent/1", 0.0)
    assert state.counters.plays == 4
    batch = ledger.apply(TakeBatch(1, 0.0), "learner", 0.0)
    assert play.id in [member.trajectory for group in batch.groups for member in group.members]
    assert state.counters.quarantined == 1


@pytest.mark.parametrize(("id", "lease"), [("x" * 5_000, 1), (None, 2), (None, 0), (None, -1)])
def test_a_play_that_nobody_leased_is_neither_taken_nor_kept(id, lease):
    """A sender may make up as many as it likes."""
    ledger = begin()
    design(ledger)
    play, *_ = lease_plays(ledger)
    made_up = msgspec.structs.replace(ended(play, 1.0, 9), id=id or play.id, lease=lease)
    ledger.state.changes()
    assert ledger.apply(SubmitPlays((made_up,)), "agent/1", 0.0) == Done()
    assert ledger.state.changes() == []
    assert (ledger.state.counters.plays, ledger.state.counters.quarantined) == (0, 0)


def test_designs_of_unpublished_weights_are_kept_apart_and_designed_again():
    ledger = begin()
    state = ledger.state
    job = leased_job(ledger)
    ledger.apply(sampled(rejected(job, 1), OTHER), "designer/1", 0.0)
    assert (state.counters.rejected_candidates, state.jobs[job.id].state) == (0, "leased"), "its designer goes on"
    ledger.apply(sampled(rejected(job, 1, attempt=2, last=True), OTHER), "designer/1", 0.0)
    assert (state.counters.failed_jobs, state.jobs[job.id].state) == (0, "open")
    job = leased_job(ledger)
    ledger.apply(sampled(environment(job, 1), OTHER), "designer/1", 0.0)
    assert (state.counters.environments, state.jobs[job.id].state) == (0, "open")
    design(ledger)
    assert (state.counters.environments, state.counters.quarantined) == (1, 3)


def test_trajectories_of_an_engine_without_digests_are_judged_by_their_versions():
    published = {1: GOOD}
    assert provenance.describe_flaw(published, trajectory(1)) == ""
    assert provenance.describe_flaw(published, trajectory(2)) == "version 2 was never published"


def test_the_quarantine_outlives_a_restart_and_verify_sees_through_it(tmp_path):
    with open_store(tmp_path / "store", "nosync") as store:
        ledger = begin(open_run(store, SETTINGS).state)
        design(ledger)
        play = lease_plays(ledger)[0]
        bad = sampled(ended(play, 1.0, 1), OTHER)
        ledger.apply(SubmitPlays((bad,)), "agent/1", 3.0)
        store.commit(store.encode(ledger.state.changes()))
    with open_store(tmp_path / "store", "nosync") as store:
        ledger = Ledger(open_run(store, SETTINGS).state)
        ledger.apply(SubmitPlays((bad,)), "agent/1", 4.0)
        assert ledger.state.counters.quarantined == 1
        (kept,) = store.scan("quarantine", QuarantineRecord)
        assert (kept.at, kept.trajectory) == (3.0, bad.trajectory)
    with open_reader(tmp_path / "store") as store:
        found = read_contents(store)
    assert find_problems(found) == []
    found.quarantine["another"] = ""
    flawed = found.trajectories["j000000"]._replace(flaw="version 9 was never published")
    again = replace(found, trajectories=found.trajectories | {"j000000": flawed})
    assert find_problems(again) == [
        "trajectories j000000: version 9 was never published, and it is not in quarantine",
        "quarantine: 2 are stored, 1 were counted",
        "quarantine another: its provenance is sound",
    ]


async def test_a_broadcast_ends_when_the_last_engine_serves_its_weights(tmp_path):
    async with (
        serving(tmp_path),
        joined(tmp_path) as replay,
        joined(tmp_path, "engine", "engine-0") as one,
        joined(tmp_path, "engine", "engine-1") as other,
    ):
        started = trio.current_time()
        published = await publish(replay)
        says = Serving(published.version, published.digest)
        assert await one.client.call(says) == Done()
        assert (await replay.status()).traffic.broadcast_s is None, "one engine does not serve them yet"
        with pytest.raises(RefusedError, match=r"weights another .* never published as version 1"):
            await other.client.call(Serving(published.version, "another"))
        with pytest.raises(RefusedError, match="never published as version 2"):
            await other.client.call(Serving(2, published.digest))
        assert await other.client.call(says) == Done()
        assert 0 < (await replay.status()).traffic.broadcast_s < trio.current_time() - started
        assert await one.client.call(says) == Done()


def test_a_person_sees_the_quarantine():
    status = Status(
        counts=Counts(quarantined=2, newest_quarantined="e000001-0u000/1 of agent-0: version 9 was never published")
    )
    assert "2 trajectories are quarantined, the last e000001-0u000/1 of agent-0: version 9" in "\n".join(
        explain(status)
    )
    console = Console(width=140, height=40, file=io.StringIO())
    console.print(render(status, 140, 40))
    shown = "2 trajectories quarantined e000001-0u000/1 of agent-0: version 9 was never published"
    assert shown in console.file.getvalue()
