"""A program to find a hidden number, its plays, and an agent that plays it."""

import functools

from actors.roles import agent
from spade import protocol
from spade.codec import compute_program_digest
from tests.actors.small_services import acting

HIGHER = """\
class HigherEnv:
    def __init__(self, max_turns=4):
        self.left = max_turns
        self.hidden = 0

    def reset(self, seed):
        self.hidden = 2 + seed % 2
        return "Find it. Actions: 1..3", {}

    def step(self, action):
        self.left -= 1
        if action == str(self.hidden):
            return "Found.", 1.0, True, False, {}
        if action == "crash":
            raise ValueError("no such thing")
        if action == "long":
            return "x" * 2000, 0.25, False, False, {}
        if not self.left:
            return "Lost.", 0.5, True, False, {}
        return "No. Actions: 1..3", 0.5, False, False, {}
"""
HIDDEN_TWO, HIDDEN_THREE = 10, 11


def leases(count, hinted=False, seed=HIDDEN_THREE, source=HIGHER, reads="inside", single_turn=False):
    program, hint = compute_program_digest(source), "It is not one." if hinted else None
    return [
        protocol.PlayLease(f"p{i}", 0, "e1", program, hint, seed, 1000 + i, reads, single_turn) for i in range(count)
    ]


def counting():
    """Says 1, 2, 3 … turn by turn."""
    return lambda text: f"say \\boxed{{{text.count('assistant')}}}"


playing = functools.partial(acting, agent, "agent")
