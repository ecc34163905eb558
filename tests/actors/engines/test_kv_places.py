"""Places of keys and values: entries that share beginnings, extents within one bound, groups that attend together."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from actors.engines.torch.buddy import SMALLEST, Extents, TokenExtent, compute_size
from actors.engines.torch.kv_memory import limit_kv_bytes
from actors.engines.torch.plan import TokenChunk, group_chunks
from actors.engines.torch.prefixes import Placement, Prefixes
from spade.processes.memory import count_machine_bytes


def test_places():
    prefixes = Prefixes(3, 64)

    def hold(entry, ids, step):
        prefixes.begin(Placement(entry, entry, 0), np.array(ids, dtype=np.int32))
        prefixes.write(np.full(len(ids), entry), np.arange(len(ids)), np.array(ids), step)

    ask = lambda ids, idle: prefixes.place(np.array(ids, dtype=np.int32), np.isin(range(3), idle))  # noqa: E731
    assert ask([1], [0, 1, 2]).tokens == 0
    long, short = list(range(20)), [9, 9, 9]
    hold(0, long, step=1)
    hold(1, short, step=2)
    assert ask([*long, 50], [0, 1, 2]) == Placement(0, 0, 20), "the continuation takes its entry over"
    assert ask([*long, 50], [1, 2]) == Placement(2, 0, 20), "a busy entry is copied from, into one never used"
    assert ask([*long[:12], 50], [0, 1]) == Placement(0, 0, 12), "the entry idle for longest"
    assert ask([*short, 1], [1, 2]) == Placement(1, 1, 3)
    assert ask([*short[:2], 1], [1, 2]) == Placement(2, 2, 0), "two tokens are not worth a copy"
    assert ask(long, [0]) == Placement(0, 0, 19), "the last token is computed again: its logits are needed"
    prefixes.forget()
    assert ask([*long, 50], [0, 1, 2]) == Placement(2, 2, 0, outdated=20)


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 1_024)), max_size=200))
def test_extents_never_overlap_and_come_together_again(orders):
    extents, taken = Extents(4_096, 1_024), []
    for take, number in orders:
        if take:
            extent = extents.take(compute_size(number))
            if extent is None:
                assert extents.free < 4_096
                continue
            assert extent.size >= max(number, SMALLEST)
            assert extent.start % extent.size == 0
            assert extent.start + extent.size <= 4_096
            assert all(extent.start >= o.start + o.size or o.start >= extent.start + extent.size for o in taken)
            taken.append(extent)
        elif taken:
            extents.give(taken.pop(number % len(taken)))
        assert extents.free + sum(extent.size for extent in taken) == 4_096
    for extent in taken:
        extents.give(extent)
    assert [extents.take(1_024) for _ in range(5)] == [
        *(TokenExtent(start, 1_024) for start in range(0, 4_096, 1_024)),
        None,
    ]


def chunk(entry, start, size):
    return TokenChunk(entry, TokenExtent(entry * 512, compute_size(start + size)), start, size)


@given(
    st.lists(st.tuples(st.integers(0, 200), st.integers(1, 60)), min_size=1, max_size=40),
    st.sampled_from([0, 2_048, 1 << 30]),
)
def test_groups_partition_the_chunks(sizes, spare):
    chunks = [chunk(entry, start, size) for entry, (start, size) in enumerate(sizes)]
    groups = group_chunks(chunks, spare)
    assert sorted(each for group in groups for each in group) == chunks
    for group in groups:
        assert [each.extent for each in group] == sorted(each.extent for each in group)
        assert len({each.extent.size for each in group}) == 1
        padded = len(group) * max(each.size for each in group) * max(each.end for each in group)
        assert padded <= sum(each.size * each.end for each in group) + spare
    if spare == 1 << 30:
        assert len(groups) == len({each.extent.size for each in chunks})


def test_like_goes_with_like():
    decoding = [chunk(entry, 140 + entry, 1) for entry in range(40)]
    prompts = [chunk(50, 0, 200), chunk(51, 0, 198)]
    assert [len(group) for group in group_chunks([*prompts, *decoding], 2_048)] == [40, 2]


def test_on_a_cpu_keys_and_values_leave_half_of_the_machines_memory():
    most = count_machine_bytes() // 2
    assert limit_kv_bytes(1 << 60, "cpu") == most < count_machine_bytes()
    assert limit_kv_bytes(1_000, "cpu") == 1_000
    assert limit_kv_bytes(1 << 60, "cuda") == 1 << 60
