"""The ablations at nano size, played for a few steps: a store lacks what is left out, and that of `nano` has it.

Ablations that do not touch each other's parts share a run.
"""

from replay.ledger.records import Environment
from spade.config import load
from tests.recipes.small_runs import documents, examples, hinted, list_changes, play, processes, trained_roles

MEMORY_STEPS = 4  # until windows have closed and a dozen later jobs were offered them


def closed(found) -> list[Environment]:
    return [environment for environment in found.environments.values() if environment.score is not None]


def test_nano_has_all_that_the_ablations_leave_out_and_the_later_stage_begins_with_its_policy(tmp_path):
    found = play(tmp_path, "nano", steps=MEMORY_STEPS)
    assert "" not in documents(found)
    assert examples(found)
    assert hinted(found)
    assert trained_roles(found) == {"agent", "designer"}
    assert len({job.skill for job in found.jobs.values()}) > 2
    assert any(environment.score.regret is not None for environment in closed(found))
    assert "designer-0" in processes(tmp_path / "nano")
    later = play(tmp_path, "nano-stage2", steps=1, words=("--from", "nano"))
    assert later.environments
    assert (tmp_path / "nano-stage2" / "origin.json").is_file()


def test_without_a_memory_no_job_is_offered_an_example_and_the_win_rate_needs_no_hinted_arm(tmp_path):
    found = play(tmp_path, "nano-win-rate", *list_changes("nano-no-memory"), steps=MEMORY_STEPS)
    assert found.memory  # it is kept for those who export it
    assert not examples(found)
    assert_paid_without_regret(found)


def test_two_skills_without_a_corpus_are_both_asked_for_and_learning_potential_needs_no_hinted_arm(tmp_path):
    changes = (*list_changes("nano-no-corpus"), *list_changes("nano-two-skills"))
    found = play(tmp_path, "nano-learning-potential", *changes, steps=3)
    assert documents(found) == {""}
    assert {job.skill for job in found.jobs.values()} == set(load("nano-two-skills").run.skills)
    assert_paid_without_regret(found)


def assert_paid_without_regret(found):
    assert hinted(found) == 0
    assert {environment.score.regret for environment in closed(found)} == {None}
    assert any(environment.score.reward for environment in closed(found))
    assert "designer" in trained_roles(found)


def test_without_training_of_designers_and_memory_both_are_left_out(tmp_path):
    found = play(tmp_path, "nano-no-designer-training-no-memory", steps=MEMORY_STEPS)
    assert closed(found)
    assert trained_roles(found) == {"agent"}
    assert not examples(found)
    assert hinted(found) == 0  # nobody would use the regret
    assert {environment.score.regret for environment in closed(found)} == {None}
