import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from learner.batch import prepare
from spade import codec
from spade.protocol import Group, Trajectory


@st.composite
def trajectories(draw):
    mask = [False, *draw(st.lists(st.booleans(), min_size=1, max_size=12)), True, *[False] * draw(st.integers(0, 3))]
    ids = draw(st.lists(st.integers(0, 99), min_size=len(mask), max_size=len(mask)))
    logprobs = [-1.0 - index for index, sampled in enumerate(mask) if sampled]
    packed = codec.pack_ids(ids), codec.pack_mask(mask), codec.pack_floats(logprobs)
    rewinds, context, begin = [], 0, 0
    for at in sorted(draw(st.sets(st.integers(2, len(mask) - 1), max_size=3))):
        kept = draw(st.integers(1, context + at - begin - 1))
        rewinds.append((at, kept))
        context, begin = kept, at
    return Trajectory(*packed, ((1, sum(mask)),), draw(st.sampled_from([0.6, 1.0])), rewinds=tuple(rewinds))


@st.composite
def batches(draw):
    groups = []
    for index in range(draw(st.integers(1, 5))):
        members = draw(st.lists(trajectories(), min_size=1, max_size=5))
        role = draw(st.sampled_from(["agent", "designer"]))
        rewards = draw(st.lists(st.floats(0, 1), min_size=len(members), max_size=len(members)))
        groups.append(Group(str(index), role, tuple(rewards), tuple(members), 0.5))
    return groups


def expected(groups):
    """Every sampled token with what precedes it, told apart by nothing but plain loops."""
    found = []
    for group in groups:
        for member in group.trajectories:
            ids, mask = codec.unpack_ids(member.ids).tolist(), codec.unpack_mask(member).tolist()
            rewinds, context = dict(member.rewinds), []
            for at in range(len(ids)):
                context = context[: rewinds.get(at, len(context))]
                if mask[at]:
                    found.append(
                        (tuple(context), ids[at], -1.0 - at, member.temperature, group.role == "designer", sum(mask))
                    )
                context.append(ids[at])
    return sorted(found)


def prepared(work):
    found = []
    for micro in work.micro:
        for index in range(len(micro.target)):
            start = sum(micro.lengths[: micro.sequence[index]])
            before = micro.ids[start : micro.at[index] + 1].tolist()
            temperature = round(micro.temperature[index].item(), 6)
            token = micro.target[index].item(), micro.behaviour[index].item(), temperature, micro.designer[index].item()
            found.append((tuple(before), *token, micro.whole[index].item()))
    return sorted(found)


@given(batches(), st.integers(1, 60))
def test_every_sampled_token_is_trained_once_with_what_precedes_it(groups, limit):
    work = prepare(groups, limit, 32)
    assert prepared(work) == expected(groups)
    assert work.trained_tokens == len(expected(groups))
    assert work.agent_sequences + work.designer_sequences == sum(len(group.trajectories) for group in groups)


@given(batches())
def test_the_designer_weight_is_on_the_designers_tokens_alone(groups):
    work = prepare(groups, 40, 3.0)
    for micro in work.micro:
        assert (micro.weight[~micro.designer] == 1).all()
        assert torch.allclose(micro.weight[micro.designer], torch.tensor(work.designer_weight))


@given(batches(), st.integers(1, 60))
def test_whole_sequences_are_packed_within_the_limit_without_padding(groups, limit):
    for micro in prepare(groups, limit, 32).micro:
        assert len(micro.ids) <= limit or len(micro.lengths) == 1
        assert sum(micro.lengths) == len(micro.ids)
        assert micro.positions.tolist() == [at for length in micro.lengths for at in range(length)]
        ends = torch.tensor(micro.lengths).cumsum(0)
        assert torch.equal(torch.searchsorted(ends, micro.at, right=True), micro.sequence)
        assert torch.equal(micro.sequence.unique(), torch.arange(len(micro.lengths)))
        assert torch.isin(ends - 1, micro.at).all()  # nothing is read behind the last trained token


def test_micro_batches_are_full():
    def group(id, length):
        tokens = codec.pack_ids([1] * length), (1, length - 1), codec.pack_floats([0.0] * (length - 1))
        return Group(id, "agent", (0.0, 1.0), (Trajectory(*tokens, ((1, length - 1),), 1.0),) * 2)

    work = prepare([group("short", 5), group("long", 101), group("middle", 51)], 250, 32)
    assert [micro.lengths for micro in work.micro] == [(100, 100, 50), (50, 4, 4)]


def test_a_batch_without_a_trained_token_is_a_broken_invariant():
    read = Trajectory(codec.pack_ids([1, 2]), (2,), b"", (), 1.0)
    with pytest.raises(ValueError, match="without one trained token"):
        prepare([Group("g", "agent", (0.0,), (read,))], 10, 32)
    unprompted = Trajectory(codec.pack_ids([1, 2]), (0, 1, 1), codec.pack_floats([0.0]), ((1, 1),), 1.0)
    with pytest.raises(ValueError, match="no prompt"):
        prepare([Group("g", "agent", (0.0,), (unprompted,))], 10, 32)


def test_advantages_reach_their_tokens():
    ids, logprobs = codec.pack_ids([5, 6, 7]), codec.pack_floats([-1.0, -1.0])
    member = Trajectory(ids, (1, 2), logprobs, ((1, 2),), 1.0)
    micro = prepare([Group("g", "agent", (0.0, 1.0), (member, member))], 100, 32).micro[0]
    assert np.allclose(micro.advantage.tolist(), [-1, -1, 1, 1])
