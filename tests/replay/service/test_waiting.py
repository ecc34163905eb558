"""Requests that wait, without a bus."""

import pytest

from replay.service.waiting import PATIENCE, WaitingRequests
from spade import protocol
from spade.transport import IncomingRequest

HELLO = protocol.Hello(protocol.PROTOCOL_VERSION, "", "agent", "agent-0", 1)
WINDOW = 3
MOST = PATIENCE * WINDOW


def asked(peer=b"a", number=1, message=None):
    return IncomingRequest(peer, HELLO, number, message or protocol.LeasePlays(1, 10.0))


def nothing(incoming, now):
    return None


def tried(waiting, answer=nothing, peers=(b"a", b"b"), now=0.0):
    return waiting.try_again(answer, lambda: "weights", peers, now)


def test_they_are_tried_in_the_order_they_came_until_they_are_answered():
    waiting, seen = WaitingRequests(WINDOW), []
    for each in (asked(b"a", 2), asked(b"b", 1), asked(b"a", 1)):
        assert waiting.keep(each, 0.0) is None

    def answer(incoming, now):
        seen.append((incoming.peer, incoming.id, now))
        return protocol.Done() if incoming.peer == b"b" else None

    assert tried(waiting, answer, now=1.0) == [(asked(b"b", 1), protocol.Done())]
    assert seen == [(b"a", 2, 1.0), (b"b", 1, 1.0), (b"a", 1, 1.0)]
    assert [incoming.id for incoming, _ in tried(waiting, lambda *_: protocol.Done())] == [2, 1]
    assert tried(waiting, lambda *_: protocol.Done()) == []


@pytest.mark.parametrize(("request_", "answer"), [
    (protocol.LeasePlays(1, 5.0), protocol.Plays()),
    (protocol.LeaseDesigns(1, 5.0), protocol.Designs()),
    (protocol.TakeBatch(1, 5.0), protocol.NotYet("weights")),
])  # fmt: skip
def test_a_waiting_request_past_its_time_is_told_that_there_is_nothing(request_, answer):
    waiting = WaitingRequests(WINDOW)
    assert waiting.deadline() == float("inf")
    waiting.keep(asked(message=request_), 2.0)
    assert waiting.deadline() == 7.0
    assert tried(waiting, now=6.9) == []
    assert tried(waiting, now=7.0) == [(asked(message=request_), answer)]
    assert waiting.deadline() == float("inf")


def test_a_peer_may_have_so_many_and_takes_no_place_of_another():
    waiting = WaitingRequests(WINDOW)
    assert [waiting.keep(asked(number=number), 0.0) for number in range(MOST)] == [None] * MOST
    assert waiting.keep(asked(number=MOST), 0.0) == protocol.Refused("6 of your requests wait already")
    assert waiting.keep(asked(b"b"), 0.0) is None
    tried(waiting, lambda incoming, now: protocol.Done() if incoming.id == 2 else None)
    assert waiting.keep(asked(number=MOST), 0.0) is None
    assert waiting.keep(asked(number=MOST + 1), 0.0) is not None


def test_those_of_a_peer_that_is_gone_are_not_tried_and_leave_their_places():
    waiting = WaitingRequests(WINDOW)
    for number in range(MOST):
        waiting.keep(asked(number=number), 0.0)
    waiting.keep(asked(b"b"), 0.0)
    assert [incoming.peer for incoming, _ in tried(waiting, lambda *_: protocol.Done(), peers=(b"b",))] == [b"b"]
    assert waiting.deadline() == float("inf")
    assert [waiting.keep(asked(number=number), 0.0) for number in range(MOST)] == [None] * MOST


def test_one_that_is_sent_again_waits_once_and_as_long_as_it_says_now():
    waiting = WaitingRequests(WINDOW)
    for now in (0.0, 4.0):
        waiting.keep(asked(number=0), now)
    assert waiting.deadline() == 14.0
    assert [waiting.keep(asked(number=number), 4.0) for number in range(1, MOST)] == [None] * (MOST - 1)
    assert len(tried(waiting, lambda *_: protocol.Done())) == MOST
