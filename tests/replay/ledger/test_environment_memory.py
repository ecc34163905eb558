"""The examples of earlier designs that designers are shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.ledger.environment_memory import NEWEST_BYTES, EnvironmentMemory
from replay.ledger.records import MemoryEntry
from spade.pools import PoolProgram
from spade.protocol import MemorySeed, Similarity


def remembered(number, win_rate, regret=0.1, skill="optimization", hinted=None, reward=None):
    return MemoryEntry(number, f"e{number:06d}", skill, f"source {number}", regret, win_rate, hinted, reward)


def test_the_oldest_falls_out():
    memory = EnvironmentMemory(3)
    fallen = [record.number for number in range(5) for record in memory.add(remembered(number, 0.5))]
    assert fallen == [0, 1]
    assert len(memory) == 3


def test_a_smaller_capacity_after_a_resume_drops_the_oldest():
    memory = EnvironmentMemory(2, [remembered(number, 0.5) for number in range(4)])
    assert [record.number for record in memory.add(remembered(4, 0.5))] == [0, 1, 2]


def test_seeds_are_of_the_skill_within_the_band_and_among_the_ten_of_highest_regret():
    memory = EnvironmentMemory(200, [remembered(n, 0.5, regret=n / 100) for n in range(30)])
    memory.add(remembered(30, 0.5, regret=0.9, skill="causal inference"))
    memory.add(remembered(31, 0.86, regret=0.9))
    memory.add(remembered(32, 0.14, regret=0.9))
    memory.add(remembered(33, 0.5, regret=None))
    shown = {seed.environment for draw in range(200) for seed in memory.seeds("optimization", 2, draw)}
    assert shown == {f"e{number:06d}" for number in range(20, 30)}
    assert all(len(memory.seeds("optimization", 2, draw)) == 2 for draw in range(10))


def test_the_newest_come_first_whatever_their_skill_and_as_many_as_have_room():
    memory = EnvironmentMemory(200, [remembered(n, 0.5, skill=f"skill {n}") for n in range(40)])
    assert [each.environment for each in memory.newest()] == [f"e{number:06d}" for number in range(39, 7, -1)]
    memory.add(MemoryEntry(40, "e000040", "optimization", "x" * NEWEST_BYTES, 0.1, 0.5, None))
    assert [each.environment for each in memory.newest()] == ["e000040"]


def begun(*skills, share=0.0):
    memory = EnvironmentMemory(200, seed_share=share)
    memory.begin_with([PoolProgram(f"p{n}", f"seed {n}", skill=skill) for n, skill in enumerate(skills)])
    return memory


def varied(memory, skill="optimization", draws=400):
    return [memory.seeds(skill, 1, draw)[0].environment for draw in range(draws)]


def test_a_run_with_seeds_varies_those_of_the_skill_until_its_memory_has_a_fit_environment():
    memory = begun("optimization", None, "causal inference")
    assert set(varied(memory)) == {"SEED:p0", "SEED:p1"}
    memory.add(remembered(0, 0.95))
    assert set(varied(memory)) == {"SEED:p0", "SEED:p1"}
    memory.add(remembered(1, 0.5))
    assert set(varied(memory)) == {"e000001"}
    assert set(varied(memory, "spatial reasoning")) == {"SEED:p1"}


def test_a_skill_without_a_seed_varies_any_of_them():
    assert set(varied(begun("optimization", "causal inference"), "spatial reasoning")) == {"SEED:p0", "SEED:p1"}


def test_seeds_keep_their_share_beside_fit_environments():
    memory = begun("optimization", share=0.2)
    memory.add(remembered(0, 0.5))
    drawn = varied(memory, draws=2_000)
    assert drawn.count("SEED:p0") / len(drawn) == pytest.approx(0.2, abs=0.03)
    assert set(drawn) == {"SEED:p0", "e000000"}


def test_a_seed_has_no_figures_and_new_programs_are_compared_with_it_last():
    memory = begun("optimization")
    assert memory.seeds("optimization", 2, 0) == (MemorySeed("SEED:p0", "seed 0", None, None),)
    memory.add(remembered(0, 0.5))
    assert [each.environment for each in memory.newest()] == ["e000000", "SEED:p0"]


def test_an_environment_whose_hint_did_not_help_is_no_seed():
    memory = EnvironmentMemory(5, [remembered(0, 0.5, regret=0.0), remembered(1, 0.5, regret=-0.1), remembered(2, 0.5)])
    assert [seed.environment for seed in memory.seeds("optimization", 5, 0)] == ["e000002"]


def test_seeds_are_those_of_highest_reward_where_no_regret_is_measured():
    memory = EnvironmentMemory(200, [remembered(n, 0.5, regret=None, reward=n / 100) for n in range(12)])
    memory.add(remembered(12, 0.5, regret=None))
    drawn = [memory.seeds("optimization", 2, draw, by_regret=False) for draw in range(200)]
    assert {seed.environment for seeds in drawn for seed in seeds} == {f"e{number:06d}" for number in range(2, 12)}
    assert all(seed.regret is None for seeds in drawn for seed in seeds)
    assert memory.seeds("optimization", 2, 0) == ()


def test_seeds_of_highest_reward_show_their_regret_too():
    memory = EnvironmentMemory(5, [remembered(0, 0.5, regret=0.0, reward=0.6), remembered(1, 0.5, regret=0.9)])
    (seed,) = memory.seeds("optimization", 2, 0, by_regret=False)
    assert (seed.environment, seed.regret) == ("e000000", 0.0)


def test_a_seed_carries_the_whole_program_and_its_figures():
    memory = EnvironmentMemory(5, [remembered(7, 0.4, regret=0.3)])
    (seed,) = memory.seeds("optimization", 2, draw=0)
    assert (seed.source, seed.regret, seed.win_rate, seed.reason) == ("source 7", 0.3, 0.4, "")


def test_a_high_regret_is_no_fault():
    """Seldom won without its hint, often with it: what regret looks for."""
    memory = EnvironmentMemory(5, [remembered(0, 0.03, regret=0.15, hinted=0.2), remembered(1, 0.95, regret=0.3)])
    assert all(memory.avoid("optimization", 0.15, draw) is None for draw in range(10))
    memory.add(remembered(2, 0.03, regret=0.14, hinted=0.17))
    memory.add(remembered(3, 0.03, regret=None))
    shown = {memory.avoid("optimization", 0.15, draw).environment for draw in range(50)}
    assert shown == {"e000002", "e000003"}


def test_an_example_to_avoid_says_why():
    easy = EnvironmentMemory(5, [remembered(0, 0.97, hinted=1.0), remembered(1, 0.5)]).avoid("optimization", 0.15, 0)
    hard = EnvironmentMemory(5, [remembered(0, 0.03, hinted=0.0)]).avoid("optimization", 0.15, 0)
    needs_hint = EnvironmentMemory(5, [remembered(0, 0.03, hinted=0.2)]).avoid("optimization", 0.15, 0)
    assert easy.reason == "too easy: 97% of the plays without a hint won"
    assert hard.reason == "too hard: 3% of the plays without a hint won, and the hint did not help"
    assert needs_hint.reason == "too hard without its hint: 3% of the plays without a hint won, 20% with it"
    assert EnvironmentMemory(5, [remembered(0, 0.03)]).avoid("optimization", 0.15, 0).reason == (
        "too hard: 3% of the plays won"
    )
    assert EnvironmentMemory(5, [remembered(0, 0.5)]).avoid("optimization", 0.15, 0) is None
    assert EnvironmentMemory(5, [remembered(0, 0.97)]).avoid("causal inference", 0.15, 0) is None


def test_what_a_run_measured_while_it_played_hints_is_not_shown_where_it_plays_none():
    """A resume may end hinted plays, and an import brings another run's memory."""
    memory = EnvironmentMemory(5, [remembered(0, 0.5, regret=0.3, reward=0.6), remembered(1, 0.03, hinted=0.9)])
    (seed,) = memory.seeds("optimization", 2, 0, by_regret=False, hinted=False)
    assert seed.regret is None
    assert memory.avoid("optimization", 0.15, 0, hinted=False).reason == "too hard: 3% of the plays won"
    wanted = EnvironmentMemory(5, [remembered(0, 0.03, regret=0.9)])
    assert wanted.avoid("optimization", 0.15, 0) is None
    assert wanted.avoid("optimization", 0.15, 0, hinted=False).regret is None


@given(st.lists(st.floats(0, 1), max_size=40), st.integers(1, 5), st.integers(0, 2**63 - 1))
def test_the_draw_is_repeatable_and_without_repetition(rates, count, draw):
    memory = EnvironmentMemory(20, [])
    for number, rate in enumerate(rates):
        memory.add(remembered(number, rate))
    seeds = memory.seeds("optimization", count, draw)
    assert seeds == memory.seeds("optimization", count, draw)
    assert len({seed.environment for seed in seeds}) == len(seeds) <= count
    assert all(0.15 <= seed.win_rate <= 0.85 for seed in seeds)


def test_a_program_is_compared_with_the_newest_programs_as_they_are_now():
    memory = EnvironmentMemory(2)
    program = "def f(a, b): return a + b"
    assert memory.similarity(program) == Similarity()
    for number, source in enumerate((program, "x y z", "p q r s t u")):
        memory.add(MemoryEntry(number, f"e{number:06d}", "optimization", source, 0.1, 0.5, None))
        if number < 2:
            assert memory.similarity(program) == Similarity(1.0, "e000000")
    assert memory.similarity(program) == Similarity(0.0, "e000002"), "the first has left the memory"
    long = "x y z" + " " * NEWEST_BYTES + "b c d"
    assert memory.similarity(long) == Similarity(1.0, "e000001"), "only its beginning is compared"
