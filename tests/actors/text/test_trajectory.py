import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from actors.text.trajectory import TrajectoryBuilder, merge_runs
from spade.codec import pack_floats, pack_ids, unpack_floats, unpack_ids, unpack_mask
from spade.protocol import Generated
from spade.sequences import split_sequences

ids = st.lists(st.integers(0, 2**31 - 1), max_size=6)
spans = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), max_size=4)
moves = st.lists(st.one_of(ids, spans.filter(bool).map(tuple)), max_size=8)


def generated(runs) -> Generated:
    """A reply of as many tokens as `runs` say; token i has log-probability -i/8."""
    count = sum(count for _, count in runs)
    return Generated(
        pack_ids(list(range(100, 100 + count))), pack_floats([-i / 8 for i in range(count)]), tuple(runs), "stop"
    )


@given(moves)
def test_a_trajectory_holds_the_tokens_read_and_sampled_in_order(moves):
    builder = TrajectoryBuilder(0.6)
    expected_ids, mask, logprobs, versions = [], [], [], []
    for move in moves:
        if isinstance(move, list):
            builder.read(move)
            expected_ids += move
            mask += [0] * len(move)
        else:
            reply = generated(move)
            builder.sampled(reply)
            expected_ids += unpack_ids(reply.ids).tolist()
            mask += [1] * (len(reply.ids) // 4)
            logprobs += unpack_floats(reply.logprobs).tolist()
            versions += [version for version, count in move for _ in range(count)]
    trajectory = builder.trajectory()
    assert builder.ids == trajectory.ids == pack_ids(expected_ids)
    assert builder.tokens == trajectory.tokens == len(expected_ids)
    assert unpack_mask(trajectory).tolist() == mask
    np.testing.assert_array_equal(unpack_floats(trajectory.logprobs), np.asarray(logprobs, dtype=np.float32))
    assert [version for version, count in trajectory.versions for _ in range(count)] == versions
    assert trajectory.temperature == 0.6


turns = st.lists(st.tuples(st.floats(0, 1), st.integers(1, 4), spans.filter(bool)), min_size=1, max_size=8)


@given(turns)
def test_however_often_it_is_rewound_each_sampled_token_stands_once_behind_what_the_engine_saw(turns):
    """A turn: the share of the context that stays, tokens read, and runs sampled; token ids are all different."""
    builder, ids, context, seen, versions = TrajectoryBuilder(0.6), itertools.count(), [], [], []
    for share, read, runs in turns:
        kept = int(share * len(context))
        unread = list(itertools.islice(ids, read))
        builder.rewind(kept)
        builder.read(unread)
        context = [*context[:kept], *unread]
        assert builder.ids == pack_ids(context)
        assert builder.tokens == len(context)
        sampled = list(itertools.islice(ids, sum(count for _, count in runs)))
        builder.sampled(Generated(pack_ids(sampled), pack_floats([-float(id) for id in sampled]), tuple(runs), "stop"))
        for id in sampled:
            seen.append((list(context), id))
            context.append(id)
        versions += [version for version, count in runs for _ in range(count)]
    trajectory = builder.trajectory()
    found, sizes = [], []
    logprobs, runs = unpack_floats(trajectory.logprobs), np.repeat(*np.array(trajectory.versions).T)
    for one in split_sequences(trajectory):
        sizes.append(len(one.ids))
        assert logprobs[one.sampled].tolist() == [-float(id) for id in one.ids[one.trained]]
        found += [(one.ids[:at].tolist(), int(one.ids[at])) for at in one.trained]
    assert found == seen
    assert trajectory.contexts == tuple(sizes)
    assert trajectory.tokens == len(set(unpack_ids(trajectory.ids).tolist())), "every token is stored once"
    assert runs.tolist() == versions


@given(spans)
def test_merged_runs_are_the_shortest_that_say_the_same(runs):
    merged = merge_runs(runs)
    assert [v for v, n in merged for _ in range(n)] == [v for v, n in runs for _ in range(n)]
    assert all(one[0] != other[0] for one, other in itertools.pairwise(merged))


def test_a_version_that_goes_on_over_a_turn_is_one_run():
    builder = TrajectoryBuilder(1.0)
    builder.read([1, 2])
    builder.sampled(generated([(7, 2), (8, 1)]))
    builder.read([3])
    builder.sampled(generated([(8, 2)]))
    assert builder.trajectory().versions == ((7, 2), (8, 3))
