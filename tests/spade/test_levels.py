"""Windows of levels: RLVE's rule against a plain one, closed levels, and the text of a program at a level."""

import math
import random
from collections import Counter
from contextlib import contextmanager

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spade.codec import compute_program_digest
from spade.config import Pool
from spade.pools import Entry, Levels, LevelWindow, PoolList, is_entry, set_level
from spade.pools.levels import FAILURES

SOURCE = "class SortingEnv(RlveEnv):\n    problem = 'Sorting'\n    level = 0\n"
RULE = Pool(window_plays=8, window_rate=0.75)
POOL = PoolList((Entry("graded", "a", levels=True), Entry("plain", "b")))
streams = st.lists(st.tuples(st.integers(0, 2**32), st.booleans() | st.just(True)), max_size=300)


def levels_of(rule=RULE, windows=()):
    kept = {}
    return Levels(rule, POOL, lambda window: kept.update({window.name: window}), windows), kept


@contextmanager
def bounded(width, most):
    """Windows of at most so many levels, up to the highest one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("spade.pools.levels.WINDOW_WIDTH", width)
        patch.setattr("spade.pools.levels.HIGHEST", most)
        yield


@pytest.fixture(autouse=True, scope="module")
def _small_windows():
    with bounded(3, 5):
        yield


class Plain:
    """RLVE's rule for one name as its paper tells it, play by play."""

    def __init__(self, rule, width, most):
        self.rule, self.width, self.most, self.low, self.high, self.results = rule, width, most, 0, 0, []

    def count(self, level, won):
        if level != self.high:
            return
        self.results.append(won)
        if len(self.results) == self.rule.window_plays:
            if sum(self.results) / len(self.results) >= self.rule.window_rate and self.high < self.most:
                self.high += 1
                while self.high - self.low >= self.width:
                    self.low += 1
            self.results = []


@given(streams, st.integers(1, 12), st.floats(0.05, 1), st.integers(1, 5), st.integers(0, 6))
def test_a_window_moves_as_the_plain_rule_says(stream, plays, rate, width, most):
    rule = Pool(window_plays=plays, window_rate=rate)
    with bounded(width, most):
        levels, plain = levels_of(rule)[0], Plain(rule, width, most)
        for key, won in stream:
            level = levels.windows["graded"].drawn(key)
            assert plain.low <= level <= plain.high
            levels.count("graded", level, won)
            plain.count(level, won)
            window = levels.windows["graded"]
            assert (window.low, window.high, window.plays, window.wins) == (
                plain.low, plain.high, len(plain.results), sum(plain.results),
            )  # fmt: skip


class Rlve:
    """RLVE's rule for one name as its authors play it: groups in steps, judged when a step has ended.

    No lowest level is kept, and nothing is judged within a step (arXiv:2511.07317).
    """

    def __init__(self, groups, group, rate, width):
        self.needed, self.rate, self.width = groups * group, rate, width
        self.highest, self.of_highest = 0, []

    def levels(self):
        return [level for level in range(self.highest + 1) if self.highest - level < self.width]

    def step(self, level, results):
        if level == self.highest:
            self.of_highest += results
        if len(self.of_highest) >= self.needed:
            mean = sum(self.of_highest) / len(self.of_highest)
            self.highest, self.of_highest = self.highest + (mean >= self.rate), []


def test_ten_thousand_learners_who_play_step_by_step_rise_exactly_as_under_rlves_rule():
    """A learner wins a play by a logistic curve of skill over level, and gains skill by each play."""
    ends = Counter()
    for seed in range(10_000):
        draw = random.Random(seed)
        groups, group = draw.randint(1, 4), draw.randint(1, 4)
        rate, width = draw.uniform(0.3, 1.0), draw.randint(1, 5)
        skill, gain = draw.uniform(-1.0, 3.0), draw.uniform(0.0, 0.2)
        with bounded(width, 1_000):
            ours = levels_of(Pool(window_plays=groups * group, window_rate=rate))[0]
            theirs = Rlve(groups, group, rate, width)
            for _ in range(24):
                level = ours.windows["graded"].drawn(draw.getrandbits(32))
                results = [draw.random() < 1 / (1 + math.exp(level - skill)) for _ in range(group)]
                for won in results:
                    ours.count("graded", level, won)
                theirs.step(level, results)
                skill += gain * group
                window = ours.windows["graded"]
                assert list(range(window.low, window.high + 1)) == theirs.levels(), seed
        ends[theirs.highest] += 1
    assert ends[0] > 100
    assert max(ends) > 12


@given(streams)
def test_a_window_that_is_kept_and_read_again_after_each_play_goes_on_as_before(stream):
    undisturbed, (killed, kept) = levels_of()[0], levels_of()
    for key, won in stream:
        for levels in undisturbed, killed:
            level = levels.windows["graded"].drawn(key)
            if key % 5:
                levels.count("graded", level, won)
            else:
                levels.fail("graded", level)
        read = msgspec.msgpack.decode(msgspec.msgpack.encode(list(kept.values())), type=list[LevelWindow])
        killed, kept = levels_of(windows=read)
        kept.update({window.name: window for window in read})
        assert killed.windows == undisturbed.windows


def test_plays_of_another_level_than_the_highest_do_not_count():
    levels, _ = levels_of()
    for _ in range(8):
        levels.count("graded", 0, True)
    assert (levels.windows["graded"].low, levels.windows["graded"].high) == (0, 1)
    for _ in range(80):
        levels.count("graded", 0, True)
    assert (levels.windows["graded"].high, levels.windows["graded"].plays) == (1, 0)


def test_each_level_of_a_window_is_drawn_as_often_as_any_other():
    window = LevelWindow("graded", low=2, high=5)
    drawn = [window.drawn(key) for key in range(400)]
    assert [drawn.count(level) for level in range(2, 6)] == [100] * 4


def test_five_failed_slots_in_a_row_close_a_level_and_those_above_it():
    levels, _ = levels_of(windows=(LevelWindow("graded", low=1, high=3, plays=4, wins=4),))
    for _ in range(FAILURES - 1):
        assert levels.fail("graded", 3)
    levels.count("graded", 3, False)  # it made an instance after all
    for _ in range(FAILURES - 1):
        assert levels.fail("graded", 3)
    assert levels.capped == {}
    assert levels.fail("graded", 3)
    assert levels.capped == {"graded": 2}
    assert levels.windows["graded"] == LevelWindow("graded", 1, 2, cap=2, failures=((3, FAILURES),))
    for _ in range(80):
        levels.count("graded", 2, True)
    assert levels.windows["graded"].high == 2


def test_a_name_whose_first_level_is_closed_has_none_left():
    levels, _ = levels_of()
    assert [levels.fail("plain", 0) for _ in range(FAILURES)] == [True] * (FAILURES - 1) + [False]


def test_a_name_without_levels_never_rises():
    levels, _ = levels_of()
    for _ in range(80):
        levels.count("plain", 0, True)
    assert (levels.windows["plain"].low, levels.windows["plain"].high) == (0, 0)


@given(st.integers(0, 30), st.integers(0, 30))
def test_a_program_at_a_level_is_its_entrys_at_that_level_alone(level, other):
    entry = Entry("Sorting", compute_program_digest(SOURCE), levels=True)
    source = set_level(SOURCE, level)
    assert set_level(source, 0) == SOURCE
    assert is_entry(source, entry, level)
    assert is_entry(source, entry, other) == (level == other)
    assert not is_entry(source + "    pays = 'score'\n", entry, level)
    assert is_entry(source, msgspec.structs.replace(entry, levels=False), level) == (level == 0)
