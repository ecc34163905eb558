"""Every role gets rows, however much others ask and however long theirs take."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from actors.engines.service.role_shares import RoleShares


def begun(shares):
    """All that may begin now."""
    numbers = []
    while (number := shares.begin()) is not None:
        numbers.append(number)
    return numbers


def test_in_the_order_of_arrival_up_to_the_rows_but_the_last_eighth():
    shares = RoleShares(16)
    for number in range(30):
        shares.ask(number, "agent")
    assert begun(shares) == list(range(14))
    assert shares.waiting == {"agent": 16}
    shares.end(3)
    assert begun(shares) == [14]


def test_a_late_role_gets_free_rows_and_grows_to_half():
    shares = RoleShares(16)
    for number in range(100):
        shares.ask(number, "designer")
    designs = begun(shares)
    for number in range(100, 200):
        shares.ask(number, "agent")
    assert begun(shares) == [100, 101, 102, 103], "two rows kept, two that wait at the engine"
    for number in designs:
        shares.end(number)
        begun(shares)
    held = Counter("agent" if number >= 100 else "designer" for number in shares._begun)
    assert held == {"designer": 9, "agent": 9}


def test_short_turns_and_long_designs_get_equal_rows_both_ways():
    """Simulated: a design takes 100 steps, a turn 4; there are always more of both than rows."""
    shares, left, numbers, done = RoleShares(8), {}, iter(range(100_000)), Counter()
    roles, served = {}, Counter()
    for _ in range(1_000):
        for role in ("designer", "agent"):
            while shares.waiting.get(role, 0) < 20:
                number = next(numbers)
                roles[number] = role
                shares.ask(number, role)
        for number in begun(shares):
            left[number] = 100 if roles[number] == "designer" else 4
        for number in list(left)[:8]:
            left[number] -= 1
            served[roles[number]] += 1
            if left[number] == 0:
                del left[number]
                shares.end(number)
                done[roles[number]] += 1
    assert 0.35 < served["agent"] / served.total() < 0.65
    assert done["designer"] >= 30
    assert done["agent"] >= 700


def test_one_row_is_everybodys():
    shares = RoleShares(1)
    shares.ask(1, "designer")
    shares.ask(2, "agent")
    assert begun(shares) == [1]
    shares.end(1)
    assert begun(shares) == [2]


@given(st.lists(st.tuples(st.sampled_from(["ask", "end"]), st.sampled_from(["agent", "designer"]), st.integers(0, 99))))
def test_every_request_begins_once_or_ends_before(orders):
    shares, asked, over, started = RoleShares(4), [], set(), []
    for order, role, number in orders:
        if order == "ask":
            asked.append(len(asked))
            shares.ask(asked[-1], role)
        elif asked:
            over.add(asked[number % len(asked)])
            shares.end(asked[number % len(asked)])
        started += begun(shares)
        assert len(shares._begun) <= 4
    for number in asked:
        shares.end(number)
        started += [number for number in begun(shares) if number not in over]
    assert len(set(started)) == len(started)
    assert sum(shares.waiting.values()) == 0
