from hypothesis import given
from hypothesis import strategies as st

from actors.engines.weights.missing import MissingParts

CUTS = st.lists(st.integers(0, 200), unique=True, max_size=12).map(sorted)
SPANS = CUTS.map(lambda cuts: [(start, end) for start, end in zip(cuts[::2], cuts[1::2], strict=False)])


@given(SPANS, st.integers(1, 50), st.floats(0, 1, exclude_max=True), st.data())
def test_the_parts_are_the_spans_and_bytes_are_there_once_their_parts_are(spans, most, begin, data):
    missing = MissingParts(spans, most, begin)
    lacking = {byte for start, end in spans for byte in range(start, end)}
    taken = 0
    while (part := missing.take()) is not None:
        start, end = part
        assert 0 < end - start <= most
        assert set(range(start, end)) <= lacking
        offset, count = data.draw(st.integers(0, 200)), data.draw(st.integers(1, 60))
        if missing.has(offset, count):
            assert not lacking & set(range(offset, offset + count))
        missing.put(start)
        lacking -= set(range(start, end))
        taken += 1
    assert not lacking
    assert missing.has(0, 200)
    assert taken <= sum(2 + (end - start) // most for start, end in spans)
