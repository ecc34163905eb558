"""The rival method at nano size: ten seeds are varied and never played, and copies are turned away."""

from tests.recipes.small_runs import examples, hinted, play, spade


def test_designs_vary_ten_seeds_and_programs_too_alike_are_rejected(tmp_path):
    spade(tmp_path, "pool", "make", "nano", "--count", "10")
    found = play(tmp_path, "nano-evoenv", "design.novelty_bound=0.9", steps=6)
    seeds = {name for name in examples(found) if name.startswith("SEED:")}
    assert len(seeds) > 4
    assert seeds <= found.sources
    assert not any(name.startswith("SEED:") for name in found.environments)
    assert hinted(found) == 0
    assert any(reject.stage == "novelty" for reject in found.rejects.values())
    compared = [environment.measures.similarity for environment in found.environments.values()]
    assert all(similarity is not None and similarity <= 0.9 for similarity in compared)
    paid = [environment.score.reward for environment in found.environments.values() if environment.score is not None]
    assert any(reward for reward in paid)
