"""The arms of a page: which runs are shown as one mean."""

from pathlib import Path

from spade.app.report.arms import Arm, compare_settings, group_arms, parse_asked, run_names
from spade.config import load

BASE, OTHER = load("nano"), load("nano", ("design.memory_seeds=0",))
LONGER = load("nano", ("limits.steps=9", "supervise.restarts=3", "run.seed=7"))


def test_runs_of_the_same_settings_are_an_arm_whatever_their_limits_and_seeds():
    names = ["base-0", "base-1", "other-0", "base-2"]
    assert group_arms(names, [""] * 4, [BASE, LONGER, OTHER, BASE]) == [Arm("base", (0, 1, 3)), Arm("other-0", (2,))]


def test_a_given_name_wins_over_settings():
    given = ["a", "a", "", "b"]
    assert group_arms(list("wxyz"), given, [BASE, OTHER, BASE, BASE]) == [
        Arm("a", (0, 1)),
        Arm("y", (2,)),
        Arm("b", (3,)),
    ]


def test_runs_whose_settings_cannot_be_read_stand_alone():
    assert group_arms(["x", "y"], ["", ""], [None, None]) == [Arm("x", (0,)), Arm("y", (1,))]


def test_an_arm_of_unlike_names_is_named_by_its_first_run_and_equal_names_are_numbered():
    [found] = group_arms(["x", "y"], ["", ""], [BASE, BASE])
    assert found.name == "2 runs with the settings of x"
    assert [each.name for each in group_arms(["r-0", "r-1", "r-2", "r-3"], [""] * 4, [BASE, BASE, OTHER, OTHER])] == [
        "r 1",
        "r 2",
    ]


def test_the_settings_that_differ_have_a_value_for_each_arm():
    assert compare_settings({"a": BASE, "b": OTHER, "c": LONGER}) == {"design.memory_seeds": [1, 0, 1]}
    assert compare_settings({"a": BASE}) == {}


def test_runs_are_told_apart_by_the_folders_above_them():
    paths = [Path("/a/one/nano"), Path("/a/two/nano"), Path("/b/other")]
    assert run_names(paths) == ["one/nano", "two/nano", "other"]
    assert run_names([Path("/")]) == ["/"]


def test_an_equals_sign_names_an_arm_unless_the_word_is_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert parse_asked("base=runs/a") == ("base", Path("runs/a"))
    assert parse_asked("runs/a") == ("", Path("runs/a"))
    Path("lr=3").mkdir()
    assert parse_asked("lr=3") == ("", Path("lr=3"))
    assert parse_asked("=x") == ("", Path("=x"))


def test_no_two_arms_have_one_name():
    long = "x" * 200
    for names in ([f"{long}1", f"{long}2"], ["c", "c 2", "c"], ["c 1", "c", "c", "c 2"]):
        found = group_arms(names, names[:2] + [f"{name} " for name in names[2:]], [BASE] * len(names))
        assert len({arm.name for arm in found}) == len(found)
