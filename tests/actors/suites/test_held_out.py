"""The samples by which a run is measured while it trains."""

import os
from collections import Counter
from importlib import metadata

import msgspec
import pytest

from actors.suites import SUITES
from actors.suites.held_out import read_held_out
from spade.config import load
from spade.errors import ConfigError, RunError
from spade.protocol import Observed

ROOMY = ("engine.context_tokens=40000", "bus.max_message_bytes=1000000000")  # answers of the short protocols fit


def held_out(*overrides, seed=3):
    return read_held_out(load("nano", (f"run.seed={seed}", *overrides)))


def test_items_are_drawn_by_the_seed_of_the_run_and_come_again_when_all_have_come():
    short = "evaluation.suite=nano@short"
    few, all_twice = held_out(short, "evaluation.plays=10"), held_out(short, "evaluation.plays=72")
    assert few.samples == all_twice.samples[:10]
    assert all_twice.items == 36
    assert {number for _, number in all_twice.samples[:36]} == {0}
    assert [item for item, _ in all_twice.samples[36:]] == [item for item, _ in all_twice.samples[:36]]
    assert {number for _, number in all_twice.samples[36:]} == {1}
    other = held_out(short, "evaluation.plays=10", seed=4)
    assert {item.name for item, _ in few.samples} != {item.name for item, _ in other.samples}
    assert len({few.measure, all_twice.measure, other.measure}) == 3
    assert few.measure == held_out(short, "evaluation.plays=10", "play.group_size=4").measure


def test_no_number_of_plays_is_all_samples_of_the_protocol():
    assert len(held_out("evaluation.plays=0").samples) == 1_152


def test_programs_of_a_folder_are_played_in_turn_each_time_on_another_instance(tmp_path):
    for name in "ba":
        (tmp_path / f"{name}.py").write_text(f"class {name.upper()}Env: ...")
    folder = (f"evaluation.suite=folder:{tmp_path}",)
    found = held_out(*folder, "evaluation.plays=5")
    assert [item.name for item, _ in found.samples] == ["a/0", "b/0", "a/1", "b/1", "a/2"]
    assert len({item.seed for item, _ in found.samples}) == 5
    assert (found.suite, found.played_by) == ("", None)
    assert [item.name for item, _ in held_out(*folder, "evaluation.plays=0").samples] == ["a/0", "b/0"]
    assert found.measure != held_out(*folder, "evaluation.plays=5", "play.max_turns=9").measure


@pytest.mark.parametrize("name", [b"\xff.py", "\u202ea.py".encode(), b"a" * 120 + b".py"])
def test_a_program_whose_name_cannot_be_told_is_refused_in_one_line(tmp_path, name):
    (tmp_path / os.fsdecode(name)).write_text("class AEnv: ...")
    with pytest.raises(ConfigError, match="is not a valid name") as refused:
        held_out(f"evaluation.suite=folder:{tmp_path}")
    assert str(refused.value).isprintable()


def test_an_item_that_no_message_can_hold_is_refused(tmp_path):
    """Else each of its samples would be played again for ever."""
    (tmp_path / "a.jsonl").write_text('{"problem": "' + "x" * 1_100_000 + '", "answer": 1}')
    given = f"evaluation.suite=aime25:{tmp_path / 'a.jsonl'}@short"
    config = load("nano", (given, "engine.context_tokens=9_000"))
    small = msgspec.structs.replace(config, bus=msgspec.structs.replace(config.bus, max_message_bytes=2_000_000))
    with pytest.raises(RunError, match=r"item '1' has 1100.* over half of bus\.max_message_bytes"):
        read_held_out(small)


def test_few_samples_have_each_category_by_its_share():
    for plays in (12, 48, 190):
        counts = Counter(item.category for item, _ in held_out(f"evaluation.plays={plays}").samples)
        assert len(counts) == 6
        assert max(counts.values()) - min(counts.values()) <= 1


def test_a_run_may_be_measured_on_nothing():
    assert held_out("evaluation.suite=") is None


@pytest.mark.parametrize(
    ("suite", "said"),
    [
        ("gem", "suite gem: its turns of 8192 tokens do not fit engine.context_tokens = 768"),
        ("nano@release", "suite nano: has no protocol 'release'; it has paper, short"),
        ("gpqa-diamond:/none.csv", "suite gpqa-diamond: /none.csv cannot be read (No such file or"),
    ],
)
def test_what_cannot_be_played_is_refused_in_one_line(suite, said):
    room = () if suite == "gem" else ("engine.context_tokens=20000",)
    with pytest.raises((ConfigError, RunError)) as refused:
        held_out(f"evaluation.suite={suite}", *room)
    assert str(refused.value).startswith(f"evaluation.suite: {said}")
    assert len(str(refused.value).splitlines()) == 1


def test_a_missing_package_is_named_with_its_remedy(monkeypatch):
    def missing(_):
        raise metadata.PackageNotFoundError

    monkeypatch.setattr(metadata, "version", missing)
    assert SUITES["reasoning-gym-nano"].packages
    with pytest.raises(ConfigError, match=r"needs reasoning-gym 0.1.23: pip install -e '.\[suites\]' in the clone, or"):
        held_out("evaluation.suite=reasoning-gym-nano")


@pytest.mark.parametrize("number", [7, None])
def test_a_run_with_and_without_a_seed_is_measured_on_the_same_items_again(number):
    given = () if number is None else (f"run.seed={number}",)
    config = load("nano", (*given, "evaluation.plays=12"))
    assert read_held_out(config) == read_held_out(config)


def test_a_run_with_examples_shows_them_on_suites_whose_answers_are_in_a_box():
    examples = (("Question: 4 + 3 = ?", r"\boxed{7}"),)
    suite = SUITES["gem"]
    plain = suite.protocol("paper")
    shown = suite.with_examples(plain, examples)
    chat_format = suite.chat_formats(shown, None)()
    first = chat_format.open(Observed("Which?"), None).messages
    assert [(each.role, each.content) for each in first[:-1]] == [
        ("user", examples[0][0]),
        ("assistant", examples[0][1]),
    ]
    assert first[-1:] == suite.chat_formats(plain, None)().open(Observed("Which?"), None).messages
    gpqa = SUITES["gpqa-diamond"].protocol("short")
    assert SUITES["gpqa-diamond"].with_examples(gpqa, examples).examples == examples
    for name in ("livecodebench-v6", "nano", "nano-tools"):
        protocol = SUITES[name].protocol("short")
        assert SUITES[name].with_examples(protocol, examples) == protocol, name


def test_examples_are_part_of_the_measure(tmp_path):
    data = tmp_path / "aime.jsonl"
    data.write_text('{"problem": "1 + 1?", "answer": "2"}\n')
    given = (f"evaluation.suite=aime25:{data}@short", *ROOMY)
    plain, shown = held_out(*given), held_out(*given, "play.examples=[['4 + 3?', '7']]")
    assert shown.played_by[1].examples == (("4 + 3?", "7"),)
    assert plain.samples == shown.samples
    assert plain.measure != shown.measure
