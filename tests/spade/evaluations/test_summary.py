"""Summaries: errors are wrong answers, and too many that are not the policy's leave no headline."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spade.errors import ConfigError
from spade.estimates import ItemTally, compute_share
from spade.evaluations import (
    ERRORS,
    NO_PROMPT,
    SampleSchedule,
    Summary,
    compare_summaries,
    refuse_other_prompts,
    summarise_records,
)
from tests.spade.evaluations.samples import RECORDS, RULES, SCHEDULED, record

HUNDRED = SampleSchedule({f"i{number}": "all" for number in range(100)}, 1)


def hundred(*errors, correct=True):
    """A hundred samples, of which the first end in these errors."""
    return [
        record(item, error=errors[n], correct=False) if n < len(errors) else record(item, correct=correct)
        for n, item in enumerate(HUNDRED.items)
    ]


def test_a_summary_has_its_headline_and_its_categories():
    found = summarise_records(RECORDS, SCHEDULED)
    assert found.headline == compute_share([ItemTally(3, 1), ItemTally(3, 2), ItemTally(3, 1), ItemTally(3, 2)])
    assert found.categories["algebra"] == compute_share([ItemTally(3, 1), ItemTally(3, 2)])
    assert list(found.categories) == ["algebra", "logic"]
    assert (found.played, found.scheduled, found.correct, found.errors, found.why) == (12, 12, 6, {}, "")
    assert (found.read, found.sampled) == (12 * 12, 12 * 7)


def test_an_error_is_a_wrong_answer_of_the_same_denominator():
    found = summarise_records(hundred("environment"), HUNDRED)
    assert found.headline.mean == pytest.approx(0.99)
    assert found.errors == {"environment": 1}


def test_over_one_percent_of_errors_that_are_not_the_policys_leave_no_headline():
    found = summarise_records(hundred("environment", "timeout"), HUNDRED)
    assert found.headline is None
    assert found.why == "2 of 100 samples ended in errors that are not the policy's (environment 1, timeout 1)"


def test_prompts_that_do_not_fit_are_the_policys_wrong_answers():
    assert summarise_records(hundred(*["unfit"] * 50), HUNDRED).headline.mean == pytest.approx(0.5)
    nothing = summarise_records(hundred(*["unfit"] * 100), HUNDRED)
    assert (nothing.headline, nothing.why) == (None, "no prompt fits the model's context")


def test_a_part_of_the_samples_has_no_headline():
    found = summarise_records(RECORDS[:-1], SCHEDULED)
    assert (found.headline, found.why) == (None, "1 of 12 samples are not played yet")
    assert set(found.means) == {"a", "b", "c"}


def test_nothing_played_is_a_summary_too():
    found = summarise_records([], SCHEDULED)
    assert (found.headline, found.categories, found.means) == (None, {}, {})


@given(st.lists(st.sampled_from([None, *ERRORS]), min_size=12, max_size=12), st.randoms())
def test_the_order_of_the_records_does_not_matter(errors, random):
    records = [record(*key, error=error) for key, error in zip(SCHEDULED, errors, strict=True)]
    shuffled = random.sample(records, len(records))
    assert summarise_records(shuffled, SCHEDULED) == summarise_records(records, SCHEDULED)


@given(st.floats(0, 1e9))
def test_time_does_not_matter(seconds):
    slow = [msgspec.structs.replace(each, seconds=seconds) for each in RECORDS]
    assert summarise_records(slow, SCHEDULED) == summarise_records(RECORDS, SCHEDULED)


def test_two_summaries_compare_over_the_items_that_both_have_whole():
    now = summarise_records([record(item, sample, correct=True) for item, sample in SCHEDULED], SCHEDULED)
    found = compare_summaries(now, summarise_records(RECORDS[:-1], SCHEDULED))
    assert (found.items, found.up, found.down) == (3, 3, 0)
    assert found.mean == pytest.approx((2 / 3 + 1 / 3 + 2 / 3) / 3)


def test_an_item_that_asked_other_questions_is_not_paired():
    now = summarise_records(RECORDS, SCHEDULED)
    changed = {"b", "d"}
    others = [msgspec.structs.replace(each, prompt="1e" * 16) if each.item in changed else each for each in RECORDS]
    with pytest.raises(ConfigError, match=r"^suite sums: 2 of 4 items have other prompts .*\(b, d\); move the folder"):
        refuse_other_prompts(RULES, now, summarise_records(others, SCHEDULED))
    refuse_other_prompts(RULES, now, now)
    users = msgspec.structs.replace(RULES, conditions={"user": "self"})
    refuse_other_prompts(users, now, summarise_records(others, SCHEDULED))


def test_one_sample_with_another_prompt_is_enough_and_a_sample_without_a_prompt_is_none():
    last = len(RECORDS) - 1
    now = summarise_records(RECORDS, SCHEDULED)
    one = [*RECORDS[:last], msgspec.structs.replace(RECORDS[last], prompt="1e" * 16)]
    with pytest.raises(ConfigError, match=r"1 of 4 items .*\(d\)"):
        refuse_other_prompts(RULES, summarise_records(one, SCHEDULED), now)
    failed = [*RECORDS[:last], record(*RECORDS[last].key, prompt=NO_PROMPT, error="ungeneratable")]
    refuse_other_prompts(RULES, now, summarise_records(failed, SCHEDULED))


def test_a_summary_of_an_older_version_is_read():
    old = msgspec.to_builtins(summarise_records(RECORDS, SCHEDULED))
    del old["members"], old["prompts"]
    read = msgspec.convert(old, Summary)
    refuse_other_prompts(RULES, read, summarise_records(RECORDS, SCHEDULED))
    assert read.members == {}


def test_a_summary_is_read_back_as_it_was():
    found = summarise_records(RECORDS, SCHEDULED)
    assert msgspec.json.decode(msgspec.json.encode(found), type=Summary) == found
