from hypothesis import given
from hypothesis import strategies as st

from spade import seeds

parts = st.lists(st.one_of(st.text(alphabet="abc019", max_size=4), st.integers(0, 10**6)), max_size=3)


def test_a_seed_is_the_same_for_ever():
    # Runs of years ago must replay: this number never changes.
    assert seeds.derive(b"secret", "instance", "e1", 3) == 10520884287183455


@given(st.binary(min_size=1, max_size=32), parts, parts)
def test_seeds_tell_their_parts_apart(secret, some, others):
    assert 0 <= seeds.derive(secret, "x", *some) < 2**63
    if [str(part) for part in some] != [str(part) for part in others]:
        assert seeds.derive(secret, "x", *some) != seeds.derive(secret, "x", *others)


def test_secrets_differ():
    assert seeds.draw_secret() != seeds.draw_secret()
