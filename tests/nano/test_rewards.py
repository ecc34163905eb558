"""Compare the kinds of reward on programs that skilled players of the nano worlds play."""

from tests.bench.rewards import pay_programs


def test_for_what_luck_decides_finding_pays_less_than_half_of_what_the_papers_reward_pays_more():
    """The players know all that can be known: the rule if it is printed, and what the turns let them find out."""
    found = pay_programs("tools", (1.0, 1.0), 90)
    luck, learnable = found["withheld, no spare"], found["withheld, some spare"]
    paper, finding = (luck[f"pays {kind}"] - learnable[f"pays {kind}"] for kind in ("regret", "finding"))
    assert paper > 0.3
    assert finding < paper / 2
    assert {found["printed"][f"pays {kind}"] for kind in ("regret", "finding")} == {0.0}
