"""An experiment's file: its runs in order, and what is refused."""

import re

import pytest

from spade.app.experiment.plan import Piece, read_experiment
from spade.config import list_differences
from spade.config.inheritance import list_recipes
from spade.errors import ConfigError
from tests.app.experiment.grids import TEXT, experiment

LATER = """
[arms.later]
recipe = "nano"
seeds = [7]
"""


def test_primary_runs_come_first_and_seed_by_seed_and_a_match_before_what_waits_for_it(tmp_path):
    pieces = experiment(tmp_path).pieces
    assert [str(piece) for piece in pieces] == ["full-0", "pool-0", "full-1", "pool-1", "no-memory-0"]


def test_primary_pairs_come_before_the_others_with_the_reference(tmp_path):
    assert experiment(tmp_path).pairs == [("full", "pool"), ("full", "no-memory")]


def test_a_primary_pair_that_ends_with_the_reference_is_not_compared_twice(tmp_path):
    found = experiment(tmp_path, TEXT.replace('["full", "pool"]', '["pool", "full"]'))
    assert found.pairs == [("pool", "full"), ("full", "no-memory")]


def test_a_digest_names_settings_seed_and_length_of_a_run_and_of_its_match(tmp_path):
    first, longer = experiment(tmp_path), experiment(tmp_path, TEXT.replace("steps = 12", "steps = 13"))
    other = experiment(tmp_path, TEXT.replace('"full"\nprimary', '"full"\nset = ["learner.lr=1e-4"]\nprimary'))
    pieces = first.pieces
    assert len({first.digest(piece) for piece in pieces}) == len(pieces)
    for piece in pieces:
        assert len({each.digest(piece) for each in (first, longer, other)}) == 3
    limits = experiment(tmp_path, TEXT.replace('"full"\nprimary', '"full"\nset = ["supervise.drain_s=9"]\nprimary'))
    assert limits.digest(pieces[0]) == first.digest(pieces[0])


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("steps = 12", "step = 12", "unknown field `step`"),
        ("steps = 12", "steps = 0", ">= 1"),
        ('"nano"\nref', '"nanno"\nref', "suite 'nanno': unknown suite"),
        ('"full", "pool"', '"full", "pol"', "'pol': unknown arm; the arms are full, pool, no-memory"),
        ("[0]", "[0, 0]", "arms.no-memory: a seed occurs twice"),
        ('matched = "full"', 'matched = "pool"', "arms.pool: `matched` names 'pool'"),
        ('matched = "full"', "", "needs `matched`"),
        ("seeds = [0, 1]\nmatched", "seeds = [0, 7]\nmatched", "lacks the seed 7"),
        ("pool = 8", "", "arms.pool: give `pool` to an arm"),
        ("nano-no-memory", "nano-no-memories", "grid.toml: arms.no-memory: no config 'nano-no-memories'"),
        ("nano-no-memory", r"nano\u0000", r"arms.no-memory: recipe 'nano\\x00': holds unprintable characters"),
        ('"full", "pool"', '"full", "full"', "primary: full is compared with itself"),
        ('["full", "pool"]', '["full", "pool"], ["pool", "full"]', "primary: a pair of arms occurs twice"),
        ('["full", "pool"]', '["pool", "later"]', "primary: pool and later have no seed in common"),
        ("nano-no-memory", "n" * 5_000, "grid.toml: arms.no-memory: "),
        ("seeds = [0]", 'seeds = [0]\nset = ["run.seed=3"]', "arms.no-memory: remove run.seed from `set`"),
        ("seeds = [0]", 'seeds = [0]\nset = ["learner.lrr=3"]', "arms.no-memory: nano-no-memory: unknown setting"),
        ('suite = "nano"', 'suite = "aime25"', "suite 'aime25': needs a data file"),
        ("[arms.no-memory]", '[arms."../x"]', "regex"),
        ("steps = 12", "steps = ", "is not TOML"),
    ],
)
def test_a_wrong_file_is_refused_in_one_line(tmp_path, before, after, said):
    assert before in TEXT
    with pytest.raises(ConfigError, match=re.escape(said)) as refused:
        experiment(tmp_path, TEXT.replace(before, after) + LATER)
    assert "\n" not in str(refused.value)


EXPERIMENTS = list_recipes()["nano"].parent / "experiments"


def test_the_shipped_experiment_has_every_arm_and_six_seeds_or_twelve_where_it_asks():
    found = read_experiment(EXPERIMENTS / "nano.toml")
    asked = {name for pair in found.primary for name in pair}
    assert asked == {"full", "fixed-pool", "no-designer-training"}
    assert {name for name, arm in found.arms.items() if len(arm.seeds) in (6, 12)} == asked
    neither = "no-designer-training-no-memory"
    assert set(found.arms) - asked == {neither, "no-memory", "no-corpus", "learning-potential", "win-rate"}
    assert {name for name, arm in found.arms.items() if arm.matched} == {*asked - {"full"}, neither}
    assert len(found.pieces) == 40
    assert Piece("full", 0) == found.pieces[0]


@pytest.mark.parametrize(
    ("name", "primary"),
    [
        ("nano-tools", (("finding", "full"), ("full", "fixed-pool"))),
        ("nano-tools-luck", (("full", "fixed-pool"),)),
    ],
)
def test_the_shipped_experiments_of_tools_compare_three_seeds_with_a_fixed_pool(name, primary):
    found = read_experiment(EXPERIMENTS / f"{name}.toml")
    assert found.primary == primary
    asked = {arm for pair in primary for arm in pair}
    assert {arm for arm, of in found.arms.items() if of.seeds == (0, 1, 2)} == asked
    assert {found.config(piece).run.domain for piece in found.pieces} == {"tools"}


def test_runs_that_should_collapse_differ_from_the_first_experiment_by_one_setting_each():
    first, found = (read_experiment(EXPERIMENTS / f"{name}.toml") for name in ("nano", "nano-collapse"))
    paper = first.config(Piece("full", 6))
    apart = {arm: list(list_differences(paper, found.config(Piece(arm, 6)))) for arm in found.arms}
    assert apart == {"fast": ["learner.lr"], "heavy-designs": ["learner.designer_weight_max"]}


@pytest.mark.parametrize("world", ["nano", "nano-tools"])
def test_rewards_are_compared_in_arms_that_differ_in_the_kind_of_reward_alone(world):
    found = read_experiment(EXPERIMENTS / f"{world}-rewards.toml")
    paper = found.config(Piece("full", 6))
    for arm, kind in (("progress", "progress"), ("finding", "finding"), ("learning-potential", "learning_potential")):
        assert list(list_differences(paper, found.config(Piece(arm, 6)))) == ["reward.kind"]
        assert found.config(Piece(arm, 6)).reward.kind == kind
    assert {arm.matched for name, arm in found.arms.items() if name != "full"} == {"full"}


@pytest.mark.parametrize(
    ("names", "arm"),
    [
        (("nano", "nano-rewards"), "full"),
        (("nano-tools-luck", "nano-tools-rewards"), "full"),
        (("nano-tools-luck", "nano-tools-rewards"), "fixed-pool"),
    ],
)
def test_arms_of_one_name_in_two_experiments_of_a_world_have_the_same_settings(names, arm):
    one, other = (read_experiment(EXPERIMENTS / f"{name}.toml") for name in names)
    assert one.config(Piece(arm, 6)) == other.config(Piece(arm, 6))


def test_the_runs_of_full_in_games_count_for_the_comparison_of_rewards_too():
    one, other = (read_experiment(EXPERIMENTS / f"{name}.toml") for name in ("nano", "nano-rewards"))
    assert one.digest(Piece("full", 6)) == other.digest(Piece("full", 6))
