"""What the kinds of reward pay for programs that skilled players of the nano worlds play."""

from tests.bench.rewards import pay_programs


def test_of_the_world_with_tools_the_papers_reward_pays_most_for_what_luck_decides_and_finding_does_not():
    """Players who know all that can be known: the rule if it is printed, and what the turns let them find out."""
    found = pay_programs("tools", (1.0, 1.0), 120)
    luck, learnable = found["withheld, no spare"], found["withheld, some spare"]
    assert luck["pays regret"] > learnable["pays regret"] + 0.2
    assert luck["pays finding"] < learnable["pays finding"] + 0.05
    assert found["printed"]["pays finding"] < 0.1
