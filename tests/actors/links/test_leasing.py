import pytest
import trio

from actors.links.leasing import keep_busy


async def test_slots_are_filled_and_never_overfilled(autojump_clock):
    left = list(range(40))
    asked, live, most, done = [], 0, 0, []

    async def lease(count):
        asked.append(count)
        await trio.sleep(0.1)
        jobs, left[:count] = left[:count], []
        return jobs

    async def work(job):
        nonlocal live, most
        live += 1
        most = max(most, live)
        await trio.sleep(1 + job % 3)
        live -= 1
        done.append(job)

    with trio.move_on_after(30):
        await keep_busy(6, 4, lease, work, trio.Event())
    assert sorted(done) == list(range(40))
    assert most == 6
    assert max(asked) == 4


async def test_a_retiring_actor_finishes_its_work_and_leases_no_more(autojump_clock):
    retiring, leased, done = trio.Event(), [], []

    async def lease(count):
        leased.extend(range(len(leased), len(leased) + count))
        return leased[-count:]

    async def work(job):
        await trio.sleep(1 + job)
        if job == 1:
            retiring.set()
        done.append(job)

    await keep_busy(3, 4, lease, work, retiring)
    # Job 0 made room for 3 before the end was known.
    assert leased == done == [0, 1, 2, 3]


async def test_a_job_that_crashes_ends_it_all(autojump_clock):
    async def lease(count):
        return list(range(count))

    async def work(job):
        raise ZeroDivisionError

    with pytest.RaisesGroup(ZeroDivisionError):
        await keep_busy(1, 2, lease, work, trio.Event())
