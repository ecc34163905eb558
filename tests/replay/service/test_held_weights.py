"""Folders of weights that engines hold by receipts: which the learner may delete."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.service.held_weights import EngineWeights
from spade.errors import RefusedError
from spade.protocol import HoldWeights
from tests.peers import changed
from tests.replay.service.running import SETTINGS, joined, serving

QUICK = changed(SETTINGS, bus={"silence_s": 2.0})
DIGESTS = st.sampled_from("abcdef")
ENGINES = ("engine-0", "engine-1")
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(ENGINES), st.frozensets(DIGESTS, max_size=3)),
        st.tuples(st.just("learner"), st.frozensets(DIGESTS)),
    )
)


@given(EVENTS)
def test_nothing_is_deleted_that_an_engine_was_granted_and_holds(events):
    held = EngineWeights(0.0, 10.0)
    granted, deleted = {}, set()
    for who, digests in events:
        if who == "learner":
            deleted.update(held.retire(sorted(digests), ENGINES, 10.0))
        elif not held.hold(who, digests):
            granted[who] = digests
            assert not digests & deleted
        assert not deleted & frozenset().union(*granted.values())


def test_a_service_that_was_started_again_waits_for_the_receipts_of_all():
    held = EngineWeights(100.0, 10.0)
    assert held.retire(["a"], ENGINES, 109.0) == ()
    assert held.hold("engine-0", ["a"]) == ""
    assert held.retire(["a", "b"], ENGINES, 110.0) == ("b",)
    assert held.retire(["a"], ("engine-1",), 110.0) == ("a",), "engine-0 is gone"


def test_weights_that_are_published_once_more_may_be_held_again():
    held = EngineWeights(0.0, 0.0)
    assert held.retire(["a"], ENGINES, 1.0) == ("a",)
    assert held.hold("engine-0", ["a"]) == "a"
    held.published("a")
    assert held.hold("engine-0", ["a"]) == ""


async def test_the_service_answers_engines_and_the_learner(tmp_path):
    async with (
        serving(tmp_path, QUICK),
        joined(tmp_path, "engine", "engine-0", settings=QUICK) as engine,
        joined(tmp_path, "learner", settings=QUICK) as learner,
    ):
        assert await learner.retire(["a", "b"]) == (), "receipts may still come"
        await engine.client.call(HoldWeights(("a",)))
        while not (free := await learner.retire(["a", "b"])):
            await learner.client.wait_pulse()
        assert free == ("b",)
        with pytest.raises(RefusedError, match="weights b are retired; newer ones"):
            await engine.client.call(HoldWeights(("a", "b")))
        assert await learner.retire(["a"]) == ()
