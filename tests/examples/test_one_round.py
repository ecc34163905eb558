"""The round on one page: it runs to a new policy, prints the same figures each time, and stays one page."""

import re
import runpy
import sys
from pathlib import Path

import pytest

from spade.policy.model import compute_parameters_digest
from spade.policy.model_folder import NANO

PAGE = Path(__file__).parents[2] / "examples" / "one_round.py"
SETTINGS = ("play.group_size=4", "sandbox.load_s=60.0", "sandbox.step_s=60.0")  # a busy machine rejects no program
LINE = re.compile(r"^(?:design|learner|  )[^;\n]*", re.MULTILINE)
"""A line up to the policy's digest. The order in which plays end decides the rows of a sample, and so its rounding."""
SCORED = re.compile(r"  win rate (\S+), and (\S+) with the hint '.+'\n  regret (\S+) ± (\S+): its designer earns (\S+)")
LEARNED = re.compile(r"learner: (\d+) tokens, gradient (\S+); new policy: ([0-9a-f]{32})\n")


@pytest.fixture
def start(capsys, monkeypatch):
    """Return a function that runs the page and returns the text that it prints."""

    def run():
        monkeypatch.setattr(sys, "argv", [str(PAGE), *SETTINGS])
        runpy.run_path(str(PAGE), run_name="__main__")
        return capsys.readouterr().out

    return run


def test_a_round_scores_programs_and_makes_a_new_policy_the_same_each_time(start):
    printed = start()
    scored = [tuple(map(float, each)) for each in SCORED.findall(printed)]
    assert scored
    assert printed.count(", admitted") == len(scored)
    for win_rate, hinted, regret, error, reward in scored:
        assert {win_rate * 4, hinted * 4} <= set(range(5))
        assert abs(regret) <= 2
        assert error >= 0
        assert 0 <= reward <= 1
    [(tokens, gradient, digest)] = LEARNED.findall(printed)
    assert int(tokens) > 0
    assert float(gradient) > 0
    assert digest != compute_parameters_digest(NANO)
    assert LINE.findall(start()) == LINE.findall(printed)


def test_it_is_one_page():
    assert len(PAGE.read_text().splitlines()) <= 100
