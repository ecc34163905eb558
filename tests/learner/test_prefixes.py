import itertools

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from learner import prefixes


@st.composite
def families(draw):
    """Sequences of which many begin like an earlier one: ordered, and what each shares with its predecessor."""
    found = [np.array([1, 2], np.int32)]
    for _ in range(draw(st.integers(0, 7))):
        parent = draw(st.sampled_from(found))
        kept = draw(st.integers(0, len(parent)))
        more = draw(st.lists(st.integers(0, 2), min_size=0 if kept else 1, max_size=8))
        found.append(np.array([*parent[:kept], *more], np.int32))
    ordered = [found[index] for index in prefixes.sort_lexicographic(found)]
    least, prefixes.LEAST = prefixes.LEAST, draw(st.sampled_from([1, 2, 4]))
    try:
        return ordered, prefixes.count_shared(ordered)
    finally:
        prefixes.LEAST = least


@given(families())
def test_a_layout_holds_every_sequence_and_what_its_tokens_follow(family):
    sequences, shared = family
    layout = prefixes.join_layout(sequences, shared)
    for ids, places in zip(sequences, layout.places, strict=True):
        assert layout.ids[places].tolist() == ids.tolist()
        assert layout.positions[places].tolist() == list(range(len(ids)))
    begins = np.cumsum([0, *layout.lengths])
    assert begins[-1] == len(layout.ids) == len(sequences[0]) + sum(map(len, sequences[1:])) - shared[1:].sum()
    assert min(layout.lengths) > 0
    for segment, parent in enumerate(layout.parents):
        assert parent < segment
        before = layout.positions[begins[parent + 1] - 1] if parent >= 0 else -1
        assert layout.positions[begins[segment]] == before + 1
        assert np.array_equal(
            np.diff(layout.positions[begins[segment] : begins[segment + 1]]), [1] * (layout.lengths[segment] - 1)
        )
    for places in layout.places:  # the segments of a sequence are a chain, each of them whole but the last
        chain = [int(np.searchsorted(begins, place, side="right")) - 1 for place in places]
        path = [segment for segment, _ in itertools.groupby(chain)]
        assert [layout.parents[segment] for segment in path] == [-1, *path[:-1]]


@given(families())
def test_no_order_shares_more(family):
    sequences, _ = family
    shared = prefixes.count_shared(sequences)
    for index, ids in enumerate(sequences):
        most = max(
            (
                length
                for other in sequences[:index]
                for length in range(min(len(ids), len(other)) + 1)
                if ids[:length].tolist() == other[:length].tolist()
            ),
            default=0,
        )
        assert shared[index] == (most if most >= prefixes.LEAST else 0)


def counted(lengths, shared, part):
    taken = shared[part][1:]
    return int(lengths[part].sum() - (taken - taken // prefixes.JOINED).sum())


def cuts(count):
    """Every way to cut so many sequences into runs."""
    for inner in itertools.chain.from_iterable(itertools.combinations(range(1, count), n) for n in range(count)):
        yield [slice(a, b) for a, b in itertools.pairwise((0, *inner, count))]


@given(families(), st.integers(1, 30))
@example(([np.arange(9, dtype=np.int32)], np.zeros(1, np.int64)), 3)
def test_a_cut_has_the_fewest_runs_and_of_these_the_fewest_tokens(family, limit):
    sequences, shared = family
    lengths = np.array([len(ids) for ids in sequences])

    def fits(part):
        return counted(lengths, shared, part) <= limit or part.stop - part.start == 1

    def cost(parts):
        return len(parts), sum(counted(lengths, shared, part) for part in parts)

    found = prefixes.cut(lengths, shared, limit)
    assert all(map(fits, found))
    assert cost(found) == min(cost(parts) for parts in cuts(len(sequences)) if all(map(fits, parts)))


@given(families(), st.integers(1, 30), st.integers(2, 4))
def test_the_even_limit_is_the_smallest_that_needs_no_further_round(family, limit, ranks):
    sequences, shared = family
    lengths = np.array([len(ids) for ids in sequences])

    def rounds(limit):
        return -(-len(prefixes.cut(lengths, shared, limit)) // ranks)

    found = prefixes.find_even_limit(lengths, shared, limit, ranks)
    assert rounds(found) == rounds(limit)
    assert found <= limit
    assert found == 1 or rounds(found - 1) > rounds(limit)


@pytest.mark.parametrize("ids", [[0, 1 << 30], [255, 256, 65_536]])
def test_the_order_is_one_of_numbers_and_not_of_their_bytes(ids):
    sequences = [np.array([each], "<i4") for each in reversed(ids)]
    assert prefixes.sort_lexicographic(sequences) == list(reversed(range(len(ids))))
