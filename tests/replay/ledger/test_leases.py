"""Leases of any kind of work, compared with a plain scan of the same work."""

from hypothesis import given
from hypothesis import strategies as st

from replay.ledger.in_flight import Leases
from replay.ledger.records import Job

HOLDERS = ["a/1", "a/2", "b/1"]
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("open"), st.none(), st.none()),
        st.tuples(st.just("lease"), st.sampled_from(HOLDERS), st.integers(0, 2)),
        st.tuples(st.sampled_from(["release", "close"]), st.integers(0, 20), st.none()),
        st.tuples(st.just("expire"), st.none() | st.frozensets(st.sampled_from(HOLDERS)), st.none()),
    ),
    max_size=40,
)


@given(CHANGES)
def test_work_is_leased_in_order_held_by_one_holder_and_opened_again_when_its_lease_is_lost(changes):
    leases, every = Leases[Job](lambda job: (job.number,)), list[Job]()
    for now, (change, which, request) in enumerate(changes):
        leased = [job for job in every if job.state == "leased"]
        match change:
            case "open":
                every.append(Job(f"j{len(every)}", -len(every), 0, "logic", now))  # the newest is leased first
                leases.add(every[-1])
            case "lease":
                job = leases.next()
                assert job is min(
                    (each for each in every if each.state == "open"), key=lambda j: j.number, default=None
                )
                if job is not None:
                    before = job.lease
                    leases.lease(job, which, request, now + 5)
                    assert (job.lease, job.holder, job.deadline) == (before + 1, which, now + 5)
            case "release" if leased:
                leases.release(leased[which % len(leased)])
            case "close" if leased:
                leases.drop(leased[which % len(leased)])
                leased[which % len(leased)].state = "failed"
            case "expire":
                gone = [job for job in leased if job.deadline <= now or (which is not None and job.holder not in which)]
                lost = leases.lost(now, which)
                assert sorted(job.id for job in lost) == sorted(job.id for job in gone)
                for job in lost:
                    leases.release(job)
                assert leases.lost(now, which) == []
        leased = [job for job in every if job.state == "leased"]
        assert sorted(job.id for job in leases) == sorted(job.id for job in leased)
        for holder in HOLDERS:
            assert leases.held(holder, 0) == []
            for number in (1, 2):
                theirs = [job for job in leased if (job.holder, job.request) == (holder, number)]
                assert leases.held(holder, number) == sorted(theirs, key=lambda job: job.id)
