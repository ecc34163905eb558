"""The equilibrium of the game between designer and agent, on one small enough to be enumerated, in exact arithmetic.

The hint tells the best action, and with it the agent takes that. Without it the agent has a policy over what it sees,
the same in every environment: a probability, in quarters, for each observation. Returns are dyadic, so that the regret
of the ledger is exact in floats.
"""

from fractions import Fraction
from itertools import product

import pytest

from replay.ledger.reward import compute_paired_regret, normalise_regret
from spade.config import Reward

# Of each environment the instances: an observation, and the returns of both actions.
GAME = {
    "the left lever": [("levers", (1.0, 0.0))],
    "the right lever": [("levers", (0.0, 1.0))],  # looks as the one before
    "parity": [("even", (1.0, -0.5)), ("odd", (0.0, 1.0))],
    "half a reward": [("odd", (0.25, 0.5)), ("even", (0.5, 0.5))],
    "nobody wins": [("levers", (0.0, 0.0)), ("even", (0.0, 0.0))],
}
SEEN = ("levers", "even", "odd")
QUARTERS = 4
POLICIES = [dict(zip(SEEN, shares, strict=True)) for shares in product(range(QUARTERS + 1), repeat=len(SEEN))]
"""For each observation the quarters in which the second action is taken."""
CONSISTENT = [name for name in GAME if name != "the right lever"]


def regret(name, policy):
    """By the ledger, over plays that come out in all ways that they may, each as often as it is likely."""
    pairs = []
    for seen, returns in GAME[name]:
        pairs += [(returns[quarter < policy[seen]], max(returns)) for quarter in range(QUARTERS)]
    return compute_paired_regret(pairs)


def value(name, policy):
    """The expected return without the hint."""
    values = [
        (Fraction(first) * (QUARTERS - policy[seen]) + Fraction(second) * policy[seen]) / QUARTERS
        for seen, (first, second) in GAME[name]
    ]
    return sum(values) / len(values)


def best(name):
    return sum(Fraction(max(returns)) for _, returns in GAME[name]) / len(GAME[name])


@pytest.mark.parametrize("name", GAME)
def test_regret_vanishes_exactly_where_the_agent_is_optimal_without_the_hint(name):
    optimal = 0
    for policy in POLICIES:
        found = regret(name, policy)
        assert Fraction(found.mean) == best(name) - value(name, policy)
        assert (found.mean == 0) == (value(name, policy) == best(name))
        assert found.mean >= 0
        assert (normalise_regret(found, Reward()) > 0) == (found.mean > 0)
        optimal += found.mean == 0
    assert 0 < optimal < len(POLICIES) or name == "nobody wins"


def test_a_designer_finds_nothing_to_gain_exactly_from_agents_that_are_optimal_everywhere():
    """The designer's best answer is the environment of most regret: none has any once the agent needs no hint."""
    gains = [max(regret(name, policy).mean for name in CONSISTENT) for policy in POLICIES]
    everywhere = [all(value(name, policy) == best(name) for name in CONSISTENT) for policy in POLICIES]
    assert [gain == 0 for gain in gains] == everywhere
    assert [policy for policy, at in zip(POLICIES, everywhere, strict=True) if at] == [
        {"levers": 0, "even": 0, "odd": QUARTERS}
    ]


def test_environments_that_look_alike_and_want_otherwise_leave_every_agent_a_regret():
    twins = ("the left lever", "the right lever")
    assert all(sum(regret(name, policy).mean for name in twins) == 1 for policy in POLICIES)
