import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from learner.batch import prepare
from spade import codec
from spade.protocol import Group, Trajectory
from tests.masks import pack_mask


@st.composite
def trajectories(draw):
    mask = [False, *draw(st.lists(st.booleans(), min_size=1, max_size=12)), True, *[False] * draw(st.integers(0, 3))]
    ids = draw(st.lists(st.integers(0, 99), min_size=len(mask), max_size=len(mask)))
    logprobs = [-1.0 - index for index, sampled in enumerate(mask) if sampled]
    packed = codec.pack_ids(ids), pack_mask(mask), codec.pack_floats(logprobs)
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


def read(micro, at):
    """The tokens of a packed row that its token `at` follows, and itself."""
    ends = np.cumsum(micro.lengths)
    segment = int(np.searchsorted(ends, at, side="right"))
    ids = micro.ids[ends[segment] - micro.lengths[segment] : at + 1].tolist()
    while (segment := micro.parents[segment]) >= 0:
        ids = micro.ids[ends[segment] - micro.lengths[segment] : ends[segment]].tolist() + ids
    return ids


def prepared(work):
    found = []
    for micro in work.micro:
        for index in range(len(micro.target)):
            before = read(micro, int(micro.at[index]))
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
    work = prepare(groups, limit, 32)
    for micro in work.micro:
        assert len(micro.ids) <= limit or len(micro.sequence.unique()) == 1
        assert sum(micro.lengths) == len(micro.ids)
        assert micro.positions.tolist() == [len(read(micro, at)) - 1 for at in range(len(micro.ids))]
        assert torch.equal(micro.sequence.unique(), torch.arange(int(micro.sequence.max()) + 1))
        ends = {int(end) - 1 for end in np.cumsum(micro.lengths)}
        leaves = ends - {int(np.cumsum(micro.lengths)[parent]) - 1 for parent in micro.parents if parent >= 0}
        assert leaves <= set(micro.at.tolist())  # nothing is read behind the last trained token
    assert work.computed_tokens <= work.read_tokens
    assert prepare(groups, limit, 32, share=False).read_tokens == work.read_tokens


def play(*ids, prompt=1):
    sampled = len(ids) - prompt
    return Trajectory(
        codec.pack_ids(list(ids)), (prompt, sampled), codec.pack_floats([-0.5] * sampled), ((1, sampled),), 1.0
    )


def test_a_prompt_is_computed_once_and_so_is_an_answer_that_two_plays_begin_with():
    prompt = range(100, 130)
    answers = (1, 2, 3, 0), (1, 2, 4, 5), (6, 7, 8), (1, 2, 3, 0)
    members = tuple(play(*prompt, *answer, prompt=30) for answer in answers)
    groups = [Group("g", "agent", (0.0, 0.5, 1.0, 1.0), members)]
    work = prepare(groups, 1_000, 32)
    (micro,) = work.micro
    assert micro.ids.tolist() == [*prompt, 1, 2, 3, 4, 6, 7]
    assert (micro.lengths, micro.parents) == ((30, 2, 1, 1, 2), (-1, 0, 1, 1, 0))
    assert micro.positions.tolist() == [*range(33), 32, 30, 31]
    assert micro.target.tolist() == [1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 4, 5, 6, 7, 8]
    assert micro.at.tolist() == [29, 30, 31, 32, 29, 30, 31, 32, 29, 30, 31, 33, 29, 34, 35]
    assert (work.computed_tokens, work.read_tokens, work.trained_tokens) == (36, 33 + 33 + 32 + 33, 15)
    apart = prepare(groups, 1_000, 32, share=False)
    assert apart.computed_tokens == apart.read_tokens == work.read_tokens
    assert apart.micro[0].parents == (-1, -1, -1, -1)


def test_a_short_beginning_is_not_worth_a_segment():
    members = [play(*range(15), answer, 0) for answer in (20, 21)]
    (micro,) = prepare([Group("g", "agent", (0.0, 1.0), tuple(members))], 100, 32).micro
    assert micro.parents == (-1, -1)


def test_groups_stay_whole_if_that_costs_no_further_micro_batch():
    groups = [
        Group(str(g), "agent", (0.0, 1.0), tuple(play(g, *range(100, 140), member, 0, prompt=41) for member in (1, 2)))
        for g in range(4)
    ]
    work = prepare(groups, 105, 32)  # two groups have 86 tokens, and a third one's first play does not fit
    assert [micro.lengths for micro in work.micro] == [(41, 1, 1, 41, 1, 1)] * 2
    assert work.computed_tokens == 4 * 43


def test_ranks_get_even_micro_batches():
    members = [play(*range(7 * start, 7 * start + 50)) for start in range(9)]
    groups = [Group(str(at), "agent", (0.5,), (member,)) for at, member in enumerate(members)]
    assert [len(micro.ids) for micro in prepare(groups, 400, 32).micro] == [49, 392]
    assert [len(micro.ids) for micro in prepare(groups, 400, 32, ranks=2).micro] == [196, 245]
    assert [len(micro.ids) for micro in prepare(groups, 400, 32, ranks=3).micro] == [147] * 3


def test_a_batch_without_a_trained_token_is_a_broken_invariant():
    read = Trajectory(codec.pack_ids([1, 2]), (2,), b"", (), 1.0)
    with pytest.raises(ValueError, match="without a trained token"):
        prepare([Group("g", "agent", (0.0,), (read,))], 10, 32)
    unprompted = Trajectory(codec.pack_ids([1, 2]), (0, 1, 1), codec.pack_floats([0.0]), ((1, 1),), 1.0)
    with pytest.raises(ValueError, match="no prompt"):
        prepare([Group("g", "agent", (0.0,), (unprompted,))], 10, 32)


def test_advantages_reach_their_tokens():
    ids, logprobs = codec.pack_ids([5, 6, 7]), codec.pack_floats([-1.0, -1.0])
    member = Trajectory(ids, (1, 2), logprobs, ((1, 2),), 1.0)
    micro = prepare([Group("g", "agent", (0.0, 1.0), (member, member))], 100, 32).micro[0]
    assert np.allclose(micro.advantage.tolist(), [-1, -1, 1, 1])
