"""Lineage over a real store: every trajectory of every batch leads back to its programs, documents and weights."""

import pytest

from replay.inspect.lineage import Tracer
from replay.ledger.keys import make_chunk_id, reject_key
from replay.ledger.records import Environment, Job, PlayRecord, Reject
from replay.store import open_reader, open_store
from tests.replay.kept_world import keep_world


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("store")
    world = keep_world(folder, 3, 120.0)
    with open_reader(folder) as store, store.pinned():
        yield world, store, Tracer(store)


def test_a_step_leads_to_all_that_its_batch_is_made_of(kept):
    world, _, tracer = kept
    assert {group.role for batch in world.batches for group in batch.groups} == {"agent", "designer"}
    for batch in world.batches:
        line = tracer.trace(str(batch.step))
        assert (line.kind, line.version) == ("step", batch.version)
        assert [(group.id, group.step) for group in line.groups] == [(group.id, batch.step) for group in batch.groups]
        assert [group.members for group in line.groups] == [group.members for group in batch.groups]
        agents = [m.trajectory for g in batch.groups if g.role == "agent" for m in g.members]
        assert [play.id for play in line.plays] == agents
        designs = {design.trajectory for design in line.designs}
        assert {m.trajectory for g in batch.groups if g.role == "designer" for m in g.members} <= designs
        designed = {design.environment.id for design in line.designs if design.environment}
        assert {play.environment for play in line.plays} <= designed
        assert len(designs) == len(line.designs)
        assert line.versions.keys() == {*agents, *designs}
        sampled = {version for runs in line.versions.values() for version, _ in runs}
        assert {weights.version for weights in line.weights} == sampled | {batch.version}
        assert all(weights.digest == f"digest-{weights.step}" for weights in line.weights)


def test_a_play_leads_to_its_group_hint_document_and_parents(kept):
    _, store, tracer = kept
    plays = store.scan("plays", PlayRecord)
    environments = {environment.id: environment for environment in store.scan("environments", Environment)}
    assert any(environment.parents for environment in environments.values())
    for play in plays:
        line = tracer.trace(play.id)
        (one,), (design,) = line.plays, line.designs
        assert one == play
        assert (design.environment, design.hint, design.document) == (
            environments[play.environment],
            "pull the second lever",
            "tides",
        )
        assert design.parents == environments[play.environment].parents
        assert (play.id in line.versions) == (play.state == "finished")
        assert all(group.id == make_chunk_id(play.environment, play.chunk) for group in line.groups)


def test_an_environment_has_its_plays_its_design_and_every_group_it_was_trained_in(kept):
    world, store, tracer = kept
    trained = {group.id: batch.step for batch in world.batches for group in batch.groups}
    for environment in store.scan("environments", Environment):
        line = tracer.trace(environment.id)
        assert [play.id for play in line.plays] == [
            p.id for p in store.scan("plays", PlayRecord, prefix=f"{environment.id}-")
        ]
        assert [design.job.id for design in line.designs] == [environment.job]
        own = {key: step for key, step in trained.items() if key.startswith(f"{environment.id}-")}
        assert own.items() <= {group.id: group.step for group in line.groups}.items()


def test_a_group_and_a_design_of_either_fate(kept):
    world, store, tracer = kept
    for batch in world.batches:
        for group in batch.groups:
            line = tracer.trace(group.id)
            assert (line.kind, line.groups[0].step, line.groups[0].members) == ("group", batch.step, group.members)
    for job in store.scan("jobs", Job):
        line = tracer.trace(job.id)
        (design,) = line.designs
        assert design.job == job
        assert (design.environment is not None) == (job.state == "admitted")
        if job.state == "failed":
            assert design.trajectory.startswith(f"{job.id}/")
            assert design.document == "tides"
            assert line.versions[design.trajectory]


@pytest.mark.parametrize(("shown", "parents"), [((), ()), (("m1", "m3"), ("m1",))])
def test_the_parents_of_a_failed_design_are_the_seeds_shown_to_its_last_attempt(tmp_path, shown, parents):
    job = Job("j000007", 7, 1, "optimization", 0.0, "failed", 1, seeds=("m1", "m2"), attempts=((1, 1),))
    reject = Reject(job.id, 1, 1, job.skill, "tides", "class", "parse", "no class", 1.0, shown)
    with open_store(tmp_path, "nosync") as store:
        store.commit(store.encode([("jobs", job.id, job), ("rejects", reject_key(job.id, 1, 1), reject)]))
        with store.pinned():
            (design,) = Tracer(store).trace(job.id).designs
    assert design.parents == parents


@pytest.mark.parametrize("id", ["0", "9999", "e999999", "e999999-0", "e999999-0u000", "j999999", "r99999-x", "", "?"])
def test_a_missing_record_has_no_lineage(kept, id):
    assert kept[2].trace(id) is None
