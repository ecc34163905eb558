import msgspec
import pytest
import trio

from actors.sandbox import Programs
from spade.codec import compute_program_digest
from spade.errors import BusError, RefusedError
from spade.protocol import Faulted

SOURCES = [f"class Env{number}: ..." for number in range(9)]
DIGESTS = [compute_program_digest(source) for source in SOURCES]


def test_a_digest_is_sha256_of_utf_8():
    assert compute_program_digest("é") == "4a99557e4033c3539de2eb65472017cad5f9557f7a0625a09f1c3f6e2ba69c4c"


def store(asked):
    """Brings all of them, and notes what it was asked for."""

    async def fetch(digest):
        asked.append(digest)
        await trio.sleep(1)
        return SOURCES[DIGESTS.index(digest)]

    return fetch


async def test_those_who_want_a_program_at_once_wait_for_one_fetch(autojump_clock):
    asked, got = [], []
    programs = Programs(store(asked))

    async def get(digest):
        got.append(await programs.get(digest))

    async with trio.open_nursery() as nursery:
        for digest in (DIGESTS[0], DIGESTS[1], DIGESTS[0], DIGESTS[0]):
            nursery.start_soon(get, digest)
    assert sorted(got) == [SOURCES[0]] * 3 + [SOURCES[1]]
    assert sorted(asked) == sorted(DIGESTS[:2])
    assert programs.fetches == 2
    assert trio.current_time() < 2, "one waited for the fetch of another program"


async def fetched(programs, asked, numbers):
    """The numbers that had to be asked for, one after the other."""
    before = len(asked)
    for number in numbers:
        assert await programs.get(DIGESTS[number]) == SOURCES[number]
    return [DIGESTS.index(digest) for digest in asked[before:]]


async def test_those_used_last_are_kept_by_number(autojump_clock):
    asked = []
    programs = Programs(store(asked), most=3)
    assert await fetched(programs, asked, [0, 1, 2, 0, 3]) == [0, 1, 2, 3]
    assert await fetched(programs, asked, [0, 2, 3, 1]) == [1]


async def test_those_used_last_are_kept_by_size_and_always_the_newest(autojump_clock):
    asked = []
    programs = Programs(store(asked), most_bytes=2 * len(SOURCES[0]))
    assert await fetched(programs, asked, [0, 1, 0, 2, 0]) == [0, 1, 2]
    big = "x" * 10_000
    programs.keep(big)
    assert await programs.get(compute_program_digest(big)) == big
    assert await fetched(programs, asked, [0, 2, 0]) == [0, 2]


async def test_programs_that_were_sent_on_are_still_counted(autojump_clock):
    """Encoding a text that is not ASCII makes the text larger."""
    odd = [f"# é {number} {'x' * 1_000}" for number in range(20)]
    by_digest = {compute_program_digest(source): source for source in odd}
    asked = []

    async def fetch(digest):
        asked.append(digest)
        return by_digest[digest]

    programs = Programs(fetch, most_bytes=4_000)
    for digest in by_digest:
        msgspec.msgpack.encode(await programs.get(digest))
    asked.clear()
    for digest in reversed(by_digest):
        await programs.get(digest)
    assert len(asked) > len(odd) - 4


@pytest.mark.parametrize(("error", "kind"), [(RefusedError("gone"), "unknown"), (BusError("slow"), "infrastructure")])
async def test_a_program_that_does_not_come_is_a_fault_of_ours_and_asked_for_again(autojump_clock, error, kind):
    asked = []
    answers = iter([error])

    async def fetch(digest):
        for failed in answers:
            await trio.sleep(1)
            raise failed
        return await store(asked)(digest)

    programs, got = Programs(fetch), []

    async def get():
        got.append(await programs.get(DIGESTS[0]))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(get)
        nursery.start_soon(get)
    assert got == 2 * [Faulted(kind, str(error))]
    assert not got[0].environment_fault
    assert await programs.get(DIGESTS[0]) == SOURCES[0]
