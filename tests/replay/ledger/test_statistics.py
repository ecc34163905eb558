"""Windows over the last plays, slots and candidates; histories and rates."""

import pytest

from replay.ledger.statistics import (
    CANDIDATES,
    HISTORY,
    History,
    Meter,
    PlayFigures,
    SlotFigures,
    Statistics,
)
from spade.protocol import Evaluation, Measures, Recent, SkillFigures, ToolUse


@pytest.fixture
def statistics():
    return Statistics(keep_plays=6, keep_slots=4)


def play(environment="e0", hinted=False, won=True, turns=2, sampled=10, skill="maze", variant="", tools=None):
    return PlayFigures(environment, hinted, won, turns, sampled, skill, variant, tools)


def test_nothing_is_measured_at_first(statistics):
    assert statistics.win_rate(hinted=False) == (None, None)
    assert statistics.regret() == (None, None)
    shares = (statistics.learnable_share(), statistics.validity(), statistics.zero_variance_share())
    means = (statistics.reward_levels(), statistics.response_tokens(hinted=False), statistics.designer_reward())
    measures = (statistics.program_lines(), statistics.hidden_variables(), statistics.revealing_share())
    assert shares == means == measures == (None,) * 3
    assert (statistics.turns(hinted=False), statistics.skills()) == (None, {})


def test_win_rates_are_over_the_last_plays_by_arm(statistics):
    for _ in range(6):
        statistics.add_play(play(won=False))
    for environment, hinted, won in (("e0", False, True), ("e1", False, False), ("e0", True, True), ("e0", True, True)):
        statistics.add_play(play(environment, hinted, won))
    assert len(statistics.plays) == 6
    assert statistics.win_rate(hinted=True) == (1.0, None)
    rate, error = statistics.win_rate(hinted=False)
    assert rate == 0.25  # two old losses, one won, one lost
    # e0: residuals sum to -0.5 - 0.25 + 0.75 = 0.25, e1: -0.25; sqrt(2 * (1/16 + 1/16)) / 4
    assert error == pytest.approx(0.125)


def test_a_failed_job_fills_a_slot_that_is_not_learnable(statistics):
    statistics.add_slot(SlotFigures(1.0, True, 0.5, 3))
    statistics.add_slot(SlotFigures(0.0, False))
    assert statistics.learnable_share() == 0.5
    assert statistics.designer_reward() == 0.5
    assert statistics.regret() == (0.5, None)
    assert statistics.reward_levels() == 3
    for _ in range(4):
        statistics.add_slot(SlotFigures(None, False))
    assert statistics.learnable_share() == 0.0
    assert statistics.designer_reward() is None


def test_tools_are_used_in_unhinted_plays_and_a_game_has_no_figures_of_them(statistics):
    statistics.add_play(play())
    statistics.add_play(play(hinted=True, tools=ToolUse(9, 9, 9, 9, 9, 9)))
    assert statistics.tools() == Recent()
    statistics.add_play(play(turns=3, tools=ToolUse(0, 0, 0, 4, 0, 0)))
    # Without a call there is no share of calls, and without an instruction done none of those.
    assert statistics.tools() == Recent(calls_per_turn=0.0, done_share=0.0)
    statistics.add_play(play(turns=2, tools=ToolUse(calls=6, refused=3, malformed=2, instructions=4, done=4, free=1)))
    figures = Recent(calls_per_turn=8 / 5, malformed_share=2 / 8, refused_share=3 / 8, done_share=0.5, free_share=0.25)
    assert statistics.tools() == figures


def test_response_length_is_a_turns(statistics):
    statistics.add_play(play(turns=1, sampled=10))
    statistics.add_play(play(turns=4, sampled=10))
    statistics.add_play(play(hinted=True, turns=1, sampled=1_000))
    statistics.add_play(play(turns=0, sampled=0))
    assert statistics.response_tokens(hinted=False) == 4.0
    assert statistics.response_tokens(hinted=True) == 1_000.0


def test_turns_are_an_episodes_of_each_arm(statistics):
    for turns, hinted in ((1, False), (4, False), (0, False), (3, True)):
        statistics.add_play(play(turns=turns, hinted=hinted))
    assert statistics.turns(hinted=False) == pytest.approx(5 / 3)
    assert statistics.turns(hinted=True) == 3.0


def test_each_skill_has_its_share_of_the_same_windows(statistics):
    for skill, hinted, won in (
        ("maze", False, True), ("maze", False, True),  # fall out of the window of six
        ("maze", False, True), ("maze", False, False), ("maze", True, True),
        ("lamps", False, False), ("lamps", True, True), ("lamps", True, False),
    ):  # fmt: skip
        statistics.add_play(play(skill=skill, hinted=hinted, won=won))
    for skill, learnable, regret in (
        ("maze", False, 9.0),
        ("maze", True, 0.5),
        ("maze", False, None),
        ("tides", True, 0.25),
    ):
        statistics.add_slot(SlotFigures(0.0, learnable, regret, skill=skill))
    statistics.add_slot(SlotFigures(0.0, False, skill="maze"))  # a failed job; the first slot falls out
    assert statistics.skills() == {
        "lamps": SkillFigures(0.0, 0.5, None, None),
        "maze": SkillFigures(0.5, 1.0, 0.5, 1 / 3),
        "tides": SkillFigures(None, None, 0.25, 1.0),
    }


def test_each_variant_has_its_share_of_the_same_windows_and_none_is_no_variant(statistics):
    for variant, won in (("execute", True), ("execute", False), ("irrelevant", False), ("", True)):
        statistics.add_play(play(skill="maze", variant=variant, won=won))
    statistics.add_slot(SlotFigures(0.0, True, 0.5, skill="maze", variant="execute"))
    statistics.add_slot(SlotFigures(0.0, False, skill="maze"))
    assert statistics.variants() == {
        "execute": SkillFigures(0.5, None, 0.5, 1.0),
        "irrelevant": SkillFigures(0.0, None, None, None),
    }
    assert set(statistics.skills()) == {"maze"}


def test_slots_and_plays_of_an_older_run_have_no_skill(statistics):
    statistics.add_play(play(skill=""))
    statistics.add_slot(SlotFigures(0.0, True))
    assert statistics.skills() == {}


def test_measures_of_programs_are_means_over_the_slots_that_have_them(statistics):
    for measures in (
        Measures(9, 9, True),
        Measures(10, 1, True),
        Measures(21, None, False),
        Measures(11, 2),
        Measures(),
    ):
        statistics.add_slot(SlotFigures(0.0, True, measures=measures))
    assert statistics.program_lines() == 14.0
    assert statistics.hidden_variables() == 1.5
    assert statistics.revealing_share() == 0.5


def test_the_similarity_is_the_mean_over_the_slots_that_have_one(statistics):
    for similarity in (0.25, None, 0.75):
        statistics.add_slot(SlotFigures(0.0, True, measures=Measures(similarity=similarity)))
    assert statistics.similarity() == 0.5


def test_windows_are_bounded(statistics):
    for _ in range(300):
        statistics.add_candidate(valid=False, shown=3)
        statistics.add_chunk(variance=False)
    for _ in range(CANDIDATES // 2):
        statistics.add_candidate(valid=True, shown=0)
    assert (len(statistics.candidates), len(statistics.variances)) == (CANDIDATES, 4)
    assert statistics.validity() == 0.5
    assert (len(statistics.examples), statistics.examples_shown()) == (CANDIDATES, 1.5)


def test_history_has_a_point_a_step_once_something_is_measured(statistics):
    history = History()
    history.add(statistics)
    assert (history.regret, history.win_rates) == ([], [])
    statistics.add_slot(SlotFigures(1.0, True, 0.5, 3))
    for hinted in (False, True):
        statistics.add_play(play(hinted=hinted))
    for _ in range(HISTORY + 5):
        history.add(statistics)
    assert (len(history.regret), len(history.win_rates)) == (HISTORY, HISTORY)
    assert (history.regret[-1], history.win_rates[-1]) == ((0.5, 0.0), (1.0, 1.0))


def test_rates_are_over_the_last_minute_or_since_the_start():
    meter = Meter(100.0)
    assert meter.rate(100.0) == 0.0
    for second in range(10):
        meter.add(100.5 + second, 3.0)
    assert meter.rate(110.0) == pytest.approx(3.0)
    assert meter.rate(150.0) == pytest.approx(30 / 50)
    assert meter.rate(300.0) == 0.0


def test_the_first_evaluation_is_kept_and_the_last_not_taken_twice():
    history = History()
    made = [Evaluation(step, 1, 1, 8, 0, 0.5, 0.2, 9.0) for step in range(HISTORY + 5)]
    assert all(history.add_evaluation(one) for one in made)
    assert not history.add_evaluation(made[-1])
    assert history.evaluations == [made[0], *made[-HISTORY + 1 :]]
