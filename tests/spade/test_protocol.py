from typing import get_args

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spade import codec
from spade.decoding import UnreadableError
from spade.protocol import (
    AnyRequest,
    Batch,
    EndedPlay,
    Generated,
    GetStatus,
    Group,
    Hello,
    NotYet,
    Response,
    Status,
    SubmitPlays,
    TakeBatch,
    Trajectory,
    Wait,
    reply_type,
)
from spade.sequences import split_sequences
from tests.masks import pack_mask

tokens = st.lists(
    st.tuples(st.integers(0, 2**31 - 1), st.booleans(), st.floats(-50, 0, width=32)), min_size=1, max_size=50
).filter(lambda rows: any(sampled for _, sampled, _ in rows))


def trajectory(rows):
    sampled = sum(mask for _, mask, _ in rows)
    return Trajectory(
        ids=codec.pack_ids([token for token, _, _ in rows]),
        spans=pack_mask([mask for _, mask, _ in rows]),
        logprobs=codec.pack_floats([logprob for _, mask, logprob in rows if mask]),
        versions=((3, sampled),),
        temperature=0.6,
    )


@given(tokens)
def test_a_trajectory_survives_the_wire(rows):
    message = SubmitPlays((EndedPlay("p", 1, "terminated", 1.0, (0.0, 1.0), 0.5, trajectory(rows)),))
    decoded = codec.decode_request(codec.encode(message))
    assert decoded == message
    assert codec.unpack_ids(decoded.plays[0].trajectory.ids).tolist() == [token for token, _, _ in rows]
    assert codec.unpack_mask(decoded.plays[0].trajectory).tolist() == [int(mask) for _, mask, _ in rows]
    np.testing.assert_array_equal(
        codec.unpack_floats(decoded.plays[0].trajectory.logprobs),
        np.array([lp for _, mask, lp in rows if mask], dtype=np.float32),
    )


def test_four_bytes_for_a_token_and_four_where_it_was_sampled():
    turns = ([(5, False, 0.0)] * 30 + [(5, True, -1.0)] * 34) * 32
    assert len(codec.encode(trajectory(turns))) <= 4 * 64 * 32 + 4 * 34 * 32 + 128


@pytest.mark.parametrize("change", [
    {"ids": b"\0" * 3},
    {"spans": (0, 3)},
    {"spans": (0, 1, 1)},
    {"spans": (-2, 2, 2)},
    {"logprobs": b""},
    {"versions": ((3, 1),)},
    {"versions": ((3, 3), (4, -1))},
    {"versions": ((3, 2), (4, 0))},
    {"temperature": 0.0},
    {"temperature": float("nan")},
])  # fmt: skip
def test_a_trajectory_that_does_not_add_up_never_exists(change):
    good = trajectory([(1, True, -1.0), (2, True, -2.0)])
    fields = {**msgspec.structs.asdict(good), **change}
    with pytest.raises(ValueError, match="trajectory"):
        Trajectory(**fields)


@pytest.mark.parametrize(("rewinds", "contexts"), [
    ((), (9,)),
    (((4, 2),), (4, 7)),
    (((4, 3), (6, 1), (7, 1), (8, 0)), (4, 5, 2, 2, 1)),
])  # fmt: skip
def test_a_rewind_cuts_the_context_back_to_what_it_keeps(rewinds, contexts):
    whole = msgspec.structs.replace(trajectory([(1, False, 0.0)] + [(2, True, -1.0)] * 8), rewinds=rewinds)
    assert whole.contexts == contexts
    assert [len(one.ids) for one in split_sequences(whole)] == list(contexts)


@pytest.mark.parametrize("rewinds", [
    ((0, 0),),
    ((9, 1),),
    ((-1, 0),),
    ((4, -1),),
    ((4, 4),),
    ((4, 5),),
    ((4, 2), (4, 1)),
    ((4, 2), (3, 1)),
    ((4, 1), (6, 3)),
    ((2**63, 1),),
    ((4, 2**64 - 1),),
])  # fmt: skip
def test_a_rewind_that_cuts_nothing_never_exists(rewinds):
    good = trajectory([(1, True, -1.0)] * 9)
    with pytest.raises(ValueError, match="the rewind at token"):
        msgspec.structs.replace(good, rewinds=rewinds)


def test_a_trajectory_stored_before_there_were_rewinds_has_none():
    whole = trajectory([(1, False, 0.0), (2, True, -1.0)])
    old = msgspec.msgpack.encode(msgspec.msgpack.decode(codec.encode(whole))[:-1])
    assert msgspec.msgpack.decode(old, type=Trajectory) == whole


def test_lengths_are_checked_where_a_message_is_decoded():
    good = codec.encode(SubmitPlays((EndedPlay("p", 1, "terminated", 1.0, (), 0.5, trajectory([(1, True, -1.0)])),)))
    tree = msgspec.msgpack.decode(good)
    tree[1][0][7][2] = [0, 2]
    with pytest.raises(UnreadableError):
        codec.decode_request(msgspec.msgpack.encode(tree))


def test_groups_and_generations_add_up():
    with pytest.raises(ValueError, match="rewards"):
        Group("g", "agent", (1.0,), ())
    with pytest.raises(ValueError, match="differ"):
        Generated(codec.pack_ids([1, 2]), codec.pack_floats([0.0, 0.0]), ((1, 1),), "stop")


@given(st.binary(max_size=200))
def test_nonsense_is_a_decode_error_and_nothing_else(data):
    try:
        codec.decode_request(data)
    except UnreadableError:
        return
    # What decodes must be one of ours, whole.
    assert codec.decode_request(codec.encode(codec.decode_request(data)))


def test_unknown_messages_are_refused():
    class Stranger(msgspec.Struct, array_like=True, tag=True):
        x: int

    with pytest.raises(UnreadableError):
        codec.decode_request(msgspec.msgpack.encode(Stranger(1)))
    assert codec.decode_request(codec.encode(Hello(1, "d", "agent", "a", 3))).role == "agent"


def test_structs_are_named_however_deep():
    waits = (Wait("replay", "plays"),)
    assert codec.convert_to_named({"of": {"agent": waits}, "none": [], "numbers": (1, 2.5)}) == {
        "of": {"agent": [{"holder": "replay", "what": "plays", "count": 1, "for_s": 0.0, "who": "", "why": ""}]},
        "none": [],
        "numbers": (1, 2.5),
    }


@pytest.mark.parametrize("kind", get_args(AnyRequest))
def test_every_request_names_a_reply_that_a_client_can_read(kind):
    reply = reply_type(kind)
    assert {*(get_args(reply) or [reply])} <= {*get_args(Response)}


def test_a_union_of_replies_keeps_its_alternatives():
    assert reply_type(TakeBatch) == Batch | NotYet
    assert reply_type(GetStatus) is Status
