"""The folder of an evaluation: named by its rules, gone on with, and refused where it is damaged."""

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from spade.decoding import UnreadableError
from spade.errors import ConfigError, RunError
from spade.evaluations import (
    Rules,
    find_evaluations,
    list_differing,
    name_folder,
    open_folder,
    read_records,
    read_summary,
    refuse_other,
    summarise_records,
)
from spade.evaluations.rules import read_toml
from tests.spade.evaluations.samples import PROTOCOL, RECORDS, RULES, SCHEDULED
from tests.unreadable import unreadable


def evaluate(run, rules=RULES, most=None):
    by_key = {each.key: each for each in RECORDS}
    with open_folder(run, rules, SCHEDULED) as kept:
        for key in kept.missing[:most]:
            kept.add(by_key[key])
    return name_folder(run, rules)


def test_an_evaluation_in_parts_ends_as_one_at_once(tmp_path):
    whole, parts = evaluate(tmp_path / "one"), [evaluate(tmp_path / "two", most=5) for _ in range(3)][-1]
    assert read_summary(whole) == read_summary(parts) == summarise_records(RECORDS, SCHEDULED)
    assert (whole / "summary.json").read_bytes() == (parts / "summary.json").read_bytes()
    assert (whole / "protocol.toml").read_bytes() == (parts / "protocol.toml").read_bytes()
    assert whole.parent.name == "sums@paper"


def test_the_summary_is_written_where_the_evaluation_fails_too(tmp_path):
    def fail():
        with open_folder(tmp_path, RULES, SCHEDULED) as kept:
            kept.add(RECORDS[0])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert read_summary(name_folder(tmp_path, RULES)).played == 1
    assert len(list(read_records(name_folder(tmp_path, RULES) / "records.jsonl", SCHEDULED))) == 1


CHANGES = [
    {"policy": "ef" * 16},
    {"seed": 1},
    {"items_digest": "x"},
    {"libraries": {"reasoning-gym": "0.1.25"}},
    {"data": {"sums": "00"}},
    {"protocol": replace(PROTOCOL, samples=4)},
    {"protocol": replace(PROTOCOL, prompt="{problem}")},
]


@pytest.mark.parametrize("change", CHANGES)
def test_other_rules_have_another_folder(tmp_path, change):
    assert name_folder(tmp_path, replace(RULES, **change)) != name_folder(tmp_path, RULES)


def test_the_evaluations_of_a_run_are_found_by_their_suite(tmp_path):
    evaluate(tmp_path)
    evaluate(tmp_path, replace(RULES, suite="others"))
    assert [each.rules.suite for each in find_evaluations(tmp_path)] == ["others", "sums"]
    (one,) = find_evaluations(tmp_path, "sums")
    assert (one.folder, one.rules, one.summary.correct) == (name_folder(tmp_path, RULES), RULES, 6)
    assert find_evaluations(tmp_path / "nothing") == []


def test_evaluations_that_may_not_be_read_are_not_told_to_be_none(tmp_path):
    evaluate(tmp_path)
    shut = name_folder(tmp_path, RULES).parent
    with unreadable(shut), pytest.raises(RunError, match=rf"^{shut}: Permission denied$"):
        find_evaluations(tmp_path)


def test_two_policies_compare_and_two_protocols_do_not():
    refuse_other(RULES, replace(RULES, policy="ef" * 16))
    other = replace(RULES, seed=1, protocol=replace(PROTOCOL, samples=4))
    assert list_differing(RULES, other) == ["seed", "protocol.samples"]
    with pytest.raises(ConfigError, match=r"differ in seed, protocol.samples"):
        refuse_other(RULES, other)


@pytest.mark.parametrize(
    "data", [b"", b"digest = 1", b"\xff", b"x = " + b"[" * 5000, RULES.toml().replace(b"0.7", b"0.8")]
)
def test_damaged_rules_are_one_line(tmp_path, data):
    folder = evaluate(tmp_path)
    (folder / "protocol.toml").write_bytes(data)
    with pytest.raises(RunError, match=r"protocol.toml: ") as caught:
        evaluate(tmp_path)
    assert str(caught.value).isprintable()


def test_rules_of_another_evaluation_in_the_folder_are_refused(tmp_path):
    folder = evaluate(tmp_path)
    (folder / "protocol.toml").write_bytes(replace(RULES, seed=1).toml())
    with pytest.raises(RunError, match=r"belongs to another evaluation"):
        evaluate(tmp_path)


def test_figures_are_not_shown_under_the_rules_of_another_evaluation(tmp_path):
    """Each file is sound by itself, but the folder's name is the digest of other rules."""
    folder, other = evaluate(tmp_path), evaluate(tmp_path, replace(RULES, policy="ef" * 16))
    sound = (folder / "protocol.toml").read_bytes()
    (folder / "protocol.toml").write_bytes((other / "protocol.toml").read_bytes())
    with pytest.raises(RunError, match=rf"^{folder}/protocol.toml: .*to another evaluation"):
        find_evaluations(tmp_path)
    (folder / "protocol.toml").write_bytes(sound)
    assert len(find_evaluations(tmp_path)) == 2
    other.rename(other.with_name(f"{'0' * 16}-0"))
    with pytest.raises(RunError, match=r"0-0/protocol.toml: .*to another evaluation"):
        find_evaluations(tmp_path)


def test_a_damaged_summary_is_one_line_and_is_made_anew(tmp_path):
    folder = evaluate(tmp_path)
    (folder / "summary.json").write_bytes(b'{"scheduled": 1')
    with pytest.raises(RunError, match=r"summary.json: .*; delete it, .* `spade eval`"):
        read_summary(folder)
    evaluate(tmp_path)
    assert read_summary(folder) == summarise_records(RECORDS, SCHEDULED)


def test_figures_that_are_not_those_of_the_records_are_refused(tmp_path):
    folder = evaluate(tmp_path)
    summary, records = folder / "summary.json", folder / "records.jsonl"
    sound, lines = summary.read_text(), records.read_bytes()
    for edited in (
        sound.replace('"played": 12', '"played": 11'),
        re.sub('"mean": 0.[0-9]+', '"mean": 0.9', sound, count=1),
    ):
        assert edited != sound
        summary.write_text(edited)
        with pytest.raises(RunError, match=r"summary.json: .* figures of records.jsonl"):
            read_summary(folder)
    summary.write_text(sound)
    records.write_bytes(lines.replace(b'"correct":false', b'"correct":true ', 1))
    with pytest.raises(RunError, match=r"summary.json: .* figures of records.jsonl"):
        read_summary(folder)
    records.write_bytes(lines + lines.splitlines(keepends=True)[0])  # a command has gone on meanwhile
    assert read_summary(folder).played == 12
    records.unlink()
    with pytest.raises(RunError, match=r"records.jsonl: is missing"):
        read_summary(folder)
    evaluate(tmp_path)
    assert read_summary(folder) == summarise_records(RECORDS, SCHEDULED)


def test_a_summary_without_a_digest_is_made_anew_from_its_records(tmp_path):
    """An older version wrote no digest, and whoever changes the figures can delete it."""
    folder = evaluate(tmp_path)
    sound = summarise_records(RECORDS, SCHEDULED)
    (folder / "summary.json").write_bytes(msgspec.json.encode(replace(sound, means=dict.fromkeys(sound.means, 1.0))))
    with pytest.raises(RunError, match=r"summary.json: has no digest.*; delete it, .* `spade eval` makes it anew"):
        read_summary(folder)
    evaluate(tmp_path)
    assert read_summary(folder) == sound


def test_a_summary_of_an_older_version_whose_records_are_gone_is_read(tmp_path):
    folder = evaluate(tmp_path)
    (folder / "summary.json").write_bytes(msgspec.json.encode(summarise_records(RECORDS, SCHEDULED)))
    (folder / "records.jsonl").unlink()
    assert read_summary(folder) == summarise_records(RECORDS, SCHEDULED)


def test_records_of_another_seed_are_refused_and_stay(tmp_path):
    file = evaluate(tmp_path) / "records.jsonl"
    other = replace(RULES, seed=1)
    with open_folder(tmp_path, other, SCHEDULED):
        pass
    copied = name_folder(tmp_path, other) / "records.jsonl"
    copied.write_bytes(file.read_bytes())
    with pytest.raises(RunError, match=r"records.jsonl: the seed of sample 0 of 'a' belongs to another evaluation"):
        evaluate(tmp_path, other)
    assert copied.read_bytes() == file.read_bytes()
    assert read_summary(name_folder(tmp_path, other)).played == 0


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / "evaluations").write_text("in the way")
    with pytest.raises(RunError, match=r"evaluation cannot be kept"):
        evaluate(tmp_path)


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(text, text, st.integers(1, 9), st.integers(0, 2**63 - 1), st.dictionaries(text, text, max_size=3))
def test_rules_are_read_back_as_they_were(before, after, samples, seed, libraries):
    if "{problem}" in before + after:
        return
    protocol = replace(PROTOCOL, prompt=before + "{problem}" + after, samples=samples)
    rules = replace(RULES, protocol=protocol, seed=seed, libraries=libraries)
    assert read_toml(rules.toml()) == rules


def test_a_whole_temperature_is_read_back_too():
    rules = replace(RULES, protocol=replace(PROTOCOL, sampling=replace(PROTOCOL.sampling, temperature=1)))
    assert read_toml(rules.toml()) == rules


def test_rules_without_examples_have_the_digest_that_they_had_before_there_were_any():
    assert RULES.digest == "5e6370622bd2497291e0f745535926d1"
    shown = replace(RULES, protocol=replace(PROTOCOL, examples=(("1 + 1?", "\\boxed{2}"),)))
    assert shown.digest != RULES.digest
    assert read_toml(shown.toml()) == shown
    assert list_differing(RULES, shown) == ["protocol.examples"]


def test_a_problem_stands_in_its_prompt_whatever_it_says():
    assert PROTOCOL.ask("f{x} {problem} \\") == "f{x} {problem} \\\nAnswer in \\boxed{}."


@pytest.mark.parametrize("prompt", ["", "{problem}{problem}"])
def test_a_prompt_without_its_place_is_refused(prompt):
    with pytest.raises(UnreadableError):
        read_toml(RULES.toml().replace(b"{problem}", prompt.encode()))
    with pytest.raises(ValueError, match=r"once"):
        replace(PROTOCOL, prompt=prompt)


def test_rules_are_checked_by_their_types():
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({**msgspec.to_builtins(RULES), "items": 0}, Rules)
