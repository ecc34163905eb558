from hypothesis import given
from hypothesis import strategies as st

from actors.engines.weights.missing import ALL, MissingParts

CUTS = st.lists(st.integers(0, 200), unique=True, max_size=12).map(sorted)
SPANS = CUTS.map(lambda cuts: [(start, end) for start, end in zip(cuts[::2], cuts[1::2], strict=False)])
BEGIN = st.floats(0, 1, exclude_max=True)


@given(SPANS, st.integers(1, 50), BEGIN, st.data())
def test_the_parts_are_the_spans_and_bytes_are_there_once_their_parts_are(spans, most, begin, data):
    missing = MissingParts(spans, most, begin)
    lacking = {byte for start, end in spans for byte in range(start, end)}
    taken = 0
    while missing.left:
        among = data.draw(st.one_of(st.just(ALL), st.integers(1, 1 << 201)))
        number = data.draw(st.sampled_from((missing.take_unheld, missing.take_held)))(among)
        if number is None:
            continue
        assert among >> number & 1
        if data.draw(st.integers(0, 3)) == 0:
            missing.give_back(number)
            continue
        for start, end in missing.spans(number):
            assert 0 < end - start <= most
            assert set(range(start, end)) <= lacking
        offset, count = data.draw(st.integers(0, 200)), data.draw(st.integers(1, 60))
        if missing.has(offset, count):
            assert not lacking & set(range(offset, offset + count))
        missing.put(number)
        lacking -= {byte for start, end in missing.spans(number) for byte in range(start, end)}
        taken += len(missing.spans(number))
    assert not lacking
    assert not missing.lacking
    assert missing.take_unheld(ALL) is missing.take_held(ALL) is None
    assert missing.has(0, 200)
    assert taken <= sum(2 + (end - start) // most for start, end in spans)


def test_what_is_asked_about_may_be_of_any_size():
    missing = MissingParts([(0, 100)], 10, 0.0)
    assert missing.has(1 << 63, 1 << 63)
    assert not missing.has(0, 1 << 63)


@given(st.integers(2, 8), st.integers(8, 64))
def test_hosts_that_all_know_of_each_other_take_each_part_from_the_learner_once(hosts, parts):
    """In turns, and told at once of what the others have."""
    missing = [MissingParts([(0, parts)], 1, host / hosts) for host in range(hosts)]
    held = [0] * hosts
    for turn in range(parts):
        host = turn % hosts
        number = missing[host].take_unheld(~sum(held))
        assert number is not None
        assert not sum(held) >> number & 1
        held[host] |= 1 << number
    assert sum(held) == (1 << parts) - 1
