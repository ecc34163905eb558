"""The replay service as actors see it: the same requests get the same replies of the fake and of the real one."""

import math

import pytest
import trio
from msgspec.structs import replace

from spade import protocol
from spade.codec import compute_program_digest
from spade.errors import RefusedError
from tests.actors.small_services import SmallReplay, small_replay
from tests.replay.everyone import everyone
from tests.replay.replay_world import ended, environment, played, rejected
from tests.replay.service.running import SETTINGS, address, looping

IDS = [f"e000000-0{arm}{index:03d}" for arm in "hu" for index in range(4)]
SOURCE, HINT = "class LampEnv: ...", "pull the second lever"
DIGEST = compute_program_digest(SOURCE)
PLAYS = [
    protocol.PlayLease(id, 1, "e000000", DIGEST, HINT if "h" in id[7:] else None, int(id[-3:]), index)
    for index, id in enumerate(IDS)
]
JOB = protocol.DesignJob("j000001", 1, 0, "logical deduction", 1, 1)


@pytest.fixture(params=["fake", "real"])
async def replay(request, tmp_path):
    """A client of a service with eight plays of one environment and one design job."""
    if request.param == "real":
        async with looping(tmp_path), everyone(address(tmp_path), SETTINGS, "env-runner") as client:
            yield client
    else:
        small = SmallReplay(PLAYS, [JOB], [SOURCE])
        async with small_replay(small, SETTINGS) as server, everyone(server.address, SETTINGS, "env-runner") as client:
            yield client


def requests(play, job):
    """(request, reply): Done where it is taken or means nothing any more, else words of the refusal."""
    whole, design = ended(play, 1.0, 1), environment(job, 1)
    other = next(id for id in IDS if id != play.id)
    return [
        (protocol.LeasePlays(0, 0.0), "count must be at least 1, is 0"),
        (protocol.LeaseDesigns(-1, 0.0), "count must be at least 1, is -1"),
        (protocol.LeasePlays(1, math.nan), "wait_s must be 0 to 3600 s, is nan"),
        *(
            (protocol.GetProgram(digest), f"no active environment has the program '{digest}'")
            for digest in (compute_program_digest("class OtherEnv: ..."), "e000000", "", "x" * 256)
        ),
        (protocol.GetProgram(DIGEST), protocol.Program(SOURCE)),
        (protocol.CompareProgram(SOURCE), protocol.Similarity()),
        (protocol.SubmitPlays((replace(whole, id="nobody"),)), protocol.Done()),
        (protocol.SubmitPlays((replace(whole, lease=9),)), f"play {play.id}: its lease 9 was never given"),
        (protocol.SubmitPlays((replace(whole, id=other),)), f"play {other}: its lease 1 was never given"),
        (replace(design, job="nobody"), protocol.Done()),
        (replace(design, lease=9), f"job {job.id}: its lease 9 was never given"),
        (replace(rejected(job, 1), job="nobody"), protocol.Done()),
        (replace(rejected(job, 1), lease=9), f"job {job.id}: its lease 9 was never given"),
        (protocol.ReleasePlay("nobody", 1), protocol.Done()),
        (protocol.ReleasePlay(play.id, 9), protocol.Done()),
        (protocol.ReleaseDesign("nobody", 1), protocol.Done()),
        (protocol.ReleaseDesign(job.id, 9), protocol.Done()),
        *2 * [(played(play, 1.0, 1), protocol.Done())],
        (protocol.ReleasePlay(play.id, play.lease), protocol.Done()),
        *2 * [(rejected(job, 1), protocol.Done())],
        *2 * [(design, protocol.Done())],
        (protocol.ReleaseDesign(job.id, job.lease), protocol.Done()),
    ]


async def test_every_request_has_its_reply_and_none_of_these_opens_work_again(replay):
    (play,), (job,) = await replay.lease_plays(1, 5.0), await replay.lease_designs(1, 5.0)
    assert (play.lease, job.lease) == (1, 1)
    for request, reply in requests(play, job):
        if isinstance(reply, str):
            with pytest.raises(RefusedError, match=reply):
                await replay.send(request)
        else:
            assert await replay.send(request) == reply, request
    left = [each.id for each in await replay.lease_plays(100, 0.0)]
    assert sorted(id for id in left if id in IDS) == [id for id in sorted(IDS) if id != play.id]
    assert await replay.lease_plays(1, 0.0) == ()


async def test_work_given_back_is_leased_again_under_the_next_lease_with_another_sampler(replay):
    for lease, release in (
        (replay.lease_plays, replay.release_play), (replay.lease_designs, replay.release_design)
    ):  # fmt: skip
        taken = await lease(8, 5.0)
        first = taken[0]
        for _ in range(2):  # the second release is of an older lease
            await release(first)
        (again,) = await lease(8, 0.0)
        assert again == replace(first, lease=2, sampler=again.sampler)
        assert again.sampler != first.sampler
        await release(first)
        assert await lease(8, 0.0) == ()


async def test_a_request_for_plays_waits_until_one_is_given_back(replay):
    first, *_ = await replay.lease_plays(8, 5.0)
    found = []

    async def wait():
        found.extend(await replay.lease_plays(3, 60.0))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await replay.release_play(first)
    assert [play.id for play in found] == [first.id]
