"""Pacing: the amount of work that may start."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.ledger.pacing import Allowance, PacingFigures, compute_allowance
from tests.replay.replay_world import config

# 12 slots of groups of 8, batches of 96, lag bound 4
NANO = config("learner.batch_sequences=96", "learner.agent_lag=4")
IDLE = PacingFigures(newest=0, outstanding=0, oldest=0, active=12, designing=0)


def load(**fields):
    return msgspec.structs.replace(IDLE, **fields)


def synchronous(outstanding=0, newest=0):
    settings = config("learner.batch_sequences=96", "learner.agent_lag=0")
    return compute_allowance(load(outstanding=outstanding, newest=newest), settings).chunks


def test_nothing_starts_before_the_first_weights():
    assert compute_allowance(load(newest=None, active=0), NANO) == Allowance(0, 0)


@pytest.mark.parametrize(("newest", "outstanding", "oldest", "active", "designing", "chunks", "designs"), [
    # 12 slots of groups of 8, batches of 96, lag bound 4: at most 96 + 12 * 8 = 192 outstanding.
    (0, 0, 0, 0, 0, 24, 12),
    (0, 96, 0, 12, 0, 12, 0),
    (0, 191, 0, 12, 0, 1, 0),
    (0, 192, 0, 12, 0, 0, 0),
    (0, 10_000, 0, 12, 0, 0, 0),
    (1, 0, 0, 12, 0, 24, 0),  # the learner trains
    (0, 0, 0, 6, 5, 24, 1),
    (0, 0, 0, 11, 1, 24, 0),
    (0, 0, 0, 20, 1, 24, 0),  # more than the slots, after a resume with fewer of them
    (0, 0, 4, 6, 6, 12, 0),  # what is in flight since four versions ago has one batch left: the next
    (0, 90, 4, 6, 6, 1, 0),
    (0, 95, 4, 6, 6, 1, 0),
    (0, 96, 3, 6, 6, 12, 0),
    (0, 96, 4, 6, 6, 0, 0),
    (1, 0, 5, 0, 12, 0, 0),  # and none, which pacing never let happen; but it refuses to add to it
    (7, 0, 3, 0, 12, 0, 0),  # a learner that replays the steps since its checkpoint: newer weights come first
])  # fmt: skip
def test_the_table(newest, outstanding, oldest, active, designing, chunks, designs):
    asked = PacingFigures(newest, outstanding, oldest, active, designing)
    assert compute_allowance(asked, NANO) == Allowance(chunks, designs)


def test_lag_zero_is_synchronous():
    assert synchronous() == 12
    assert synchronous(outstanding=95) == 1
    assert synchronous(outstanding=96) == 0
    # While the learner trains, what started now would be of yesterday's policy.
    assert synchronous(newest=1) == 0


@given(
    training=st.integers(0, 2),
    lag=st.integers(0, 8),
    age=st.integers(0, 8),
    outstanding=st.integers(0, 2_000),
    batch=st.integers(8, 400),
)
def test_outstanding_work_fits_into_the_batches_within_the_bound(training, lag, age, outstanding, batch):
    settings = config(f"learner.batch_sequences={batch}", f"learner.agent_lag={lag}")
    chunks = compute_allowance(load(newest=training, oldest=age, outstanding=outstanding), settings).chunks
    if chunks:
        batches = lag - max(age, training) + 1
        assert outstanding + (chunks - 1) * settings.play.group_size < batches * batch


@given(lag=st.integers(0, 8), batch=st.integers(8, 400))
def test_an_empty_loop_never_locks(lag, batch):
    settings = config(f"learner.batch_sequences={batch}", f"learner.agent_lag={lag}")
    assert compute_allowance(load(), settings).chunks * settings.play.group_size >= batch


def test_impossible_loads_are_refused_at_once():
    with pytest.raises(ValueError, match="must not be negative"):
        load(oldest=-1)
