"""AIME, GPQA-Diamond and LiveCodeBench from made-up rows."""

import ast
import base64
import csv
import json
import pickle
import zlib
from random import Random

import pytest

from actors.suites import SUITES, livecodebench, resolve
from actors.suites.gpqa import _OPTIONS
from spade.errors import ConfigError, RunError


def lines(folder, *rows, name="rows.jsonl"):
    file = folder / name
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def items(suite, file, protocol="short"):
    return SUITES[suite].items(SUITES[suite].protocol(protocol), file)


def attributes(item):
    """The attributes of an item's program, and the class that it extends."""
    (one,) = ast.parse(item.program).body
    found = {each.targets[0].id: ast.literal_eval(each.value) for each in one.body}
    return one.bases[0].id, found


@pytest.mark.parametrize(
    ("row", "answer"),
    [
        ({"problem": "p", "answer": "204"}, "204"),
        ({"Problem": "p", "Answer": 25}, "25"),
        ({"question": "p", "answer": "070"}, "70"),
        ({"problem": "p", "answer": 7.0}, "7"),
        ({"problem": "p", "answer": "$336^\\circ$"}, "336"),
        ({"problem": "p", "solution": "So it is \\boxed{1}, no \\boxed{042}."}, "42"),
        ({"problem": "p", "answer": "0"}, "0"),
    ],
)
def test_a_row_of_aime_is_a_problem_and_a_number(tmp_path, row, answer):
    (item,) = items("aime25", lines(tmp_path, row))
    assert attributes(item) == ("MathAnswerEnv", {"question": "p", "answer": answer})


@pytest.mark.parametrize("answer", ["1000", "-1", "1/2", "", None, "x" * 999, 0.5, "\\boxed{a}", "٣"])
def test_an_answer_that_aime_cannot_have_is_one_line(tmp_path, answer):
    with pytest.raises(RunError, match=r"rows\.jsonl, line 2.*column"):
        items("aime25", lines(tmp_path, {"problem": "p", "answer": 1}, {"problem": "q", "answer": answer}))


@pytest.mark.parametrize("row", [{"question": "", "answer": 1}, {"question": "q", "solution": "I give up"}])
def test_an_error_names_the_column_that_the_row_has(tmp_path, row):
    with pytest.raises(RunError, match=rf"column '{'question' if row['question'] == '' else 'solution'}'"):
        items("aime25", lines(tmp_path, row))


def test_items_are_named_by_their_ids_and_else_by_their_lines(tmp_path):
    rows = [{"problem": "p", "answer": 1}, {"problem": "q", "answer": 1, "id": "II-2"}]
    assert [item.name for item in items("aime26", lines(tmp_path, *rows))] == ["1", "II-2"]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([("1", "p"), ("1", "q")], "has the same id as line 1: '1'"),
        ([("1", "p"), ("2", "p")], "has the same problem as line 1: 'p'"),
    ],
)
def test_a_problem_that_comes_twice_is_refused(tmp_path, rows, said):
    file = lines(tmp_path, *({"id": id, "problem": problem, "answer": 1} for id, problem in rows))
    with pytest.raises(RunError, match=f"line 2: {said}"):
        items("aime25", file)


def test_made_up_items_are_never_counted_as_the_suites(tmp_path):
    file = lines(tmp_path, {"problem": "p", "answer": 1})
    with pytest.raises(ConfigError, match=r"aime25: has 30 items, .* has 1; give the whole suite"):
        items("aime25", file, "paper")
    whole = lines(tmp_path, *({"problem": f"p{n}", "answer": n} for n in range(30)), name="whole.jsonl")
    assert len(items("aime25", whole, "paper")) == 30


def test_a_suite_without_its_data_says_what_to_give(tmp_path):
    with pytest.raises(ConfigError, match="columns problem and answer; give --data aime25=FILE"):
        items("aime25", None)
    with pytest.raises(ConfigError, match="has no item"):
        items("aime25", lines(tmp_path))
    with pytest.raises(ConfigError, match="makes its items itself"):
        items("nano", lines(tmp_path))
    with pytest.raises(RunError, match="cannot be read"):
        resolve(SUITES["aime25"], SUITES["aime25"].protocol("short"), "ab", 0, tmp_path / "none.jsonl")


def gpqa(folder, count=3):
    file = folder / "diamond.csv"
    with file.open("w", newline="") as opened:
        writer = csv.writer(opened)
        writer.writerow(["Record ID", "Question", *_OPTIONS, "High-level domain"])
        for n in range(count):
            writer.writerow([f"rec{n}", f"Which, {n}?\nSay.", "right", "wrong 1", "wrong 2", "wrong 3", "Physics"])
    return file


def shown(random):
    options = ["right", "wrong 1", "wrong 2", "wrong 3"]
    random.shuffle(options)
    return options


def test_options_are_shuffled_by_a_generator_of_each_row(tmp_path):
    for n, item in enumerate(items("gpqa-diamond", gpqa(tmp_path))):
        base, found = attributes(item)
        options = shown(Random(42 + n))
        said = "\n".join(f"{letter}. {option}" for letter, option in zip("ABCD", options, strict=True))
        assert (base, item.name, item.category) == ("ChoiceEnv", f"rec{n}", "Physics")
        assert found["question"] == f"Which, {n}?\nSay.\n\n{said}"
        assert found["answer"] == "ABCD"[options.index("right")]


def test_the_release_shuffles_by_one_generator_over_the_rows(tmp_path):
    random = Random(42)
    found = items("gpqa-diamond", gpqa(tmp_path, 198), "release")
    assert [attributes(item)[1]["answer"] for item in found] == [
        "ABCD"[shown(random).index("right")] for _ in range(198)
    ]


def test_a_question_without_an_option_is_one_line(tmp_path):
    file = gpqa(tmp_path)
    file.write_text(file.read_text().replace("wrong 2", "", 1))
    with pytest.raises(RunError, match=r"diamond\.csv, line 2, column 'Incorrect Answer 2': is empty"):
        items("gpqa-diamond", file)


class Trap:
    """Unpickling it would show."""

    def __reduce__(self):
        return pytest.fail, ("unpickled outside of the walls",)


CASES = [{"input": "1\n", "output": "2\n", "testtype": "stdin"}]
PACKED = base64.b64encode(zlib.compress(pickle.dumps(Trap()))).decode()
PROBLEM = {
    "question_id": "abc301_a",
    "question_content": "Add one.",
    "starter_code": "",
    "public_test_cases": json.dumps(CASES),
    "private_test_cases": PACKED,
    "metadata": "{}",
    "difficulty": "easy",
}


def test_a_problem_carries_its_private_tests_unread(tmp_path):
    (item,) = items("livecodebench-v6", lines(tmp_path, PROBLEM))
    base, found = attributes(item)
    assert (base, item.name, item.category) == ("CodeTestsEnv", "abc301_a", "easy")
    assert (json.loads(found["tests"]), found["hidden"], found["function"]) == (CASES, PACKED, "")
    assert found["question"] == "Add one."


@pytest.mark.parametrize(
    ("difficulty", "category"),
    [("\u202e" * 99, "\\u202e" * 16 + "\\u20"), (7, ""), (" hard ", "hard")],
    ids=["unprintable", "no text", "spaces"],
)
def test_blank_private_tests_are_none_and_a_category_is_a_short_line(tmp_path, difficulty, category):
    changed = {"private_test_cases": " \n", "difficulty": difficulty}
    (item,) = items("livecodebench-v6", lines(tmp_path, PROBLEM | changed))
    assert attributes(item)[1]["hidden"] == "[]"
    assert item.category == category


def test_a_problem_of_a_method_has_its_name_and_its_starter_code(tmp_path):
    changed = {
        "starter_code": "class Solution:\n",
        "metadata": '{"func_name": "add", "x": 1}',
        "private_test_cases": "[]",
    }
    (item,) = items("livecodebench-v6", lines(tmp_path, PROBLEM | changed))
    _, found = attributes(item)
    assert (found["function"], found["hidden"]) == ("add", "[]")
    assert "```python\nclass Solution:\n" in found["question"]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"public_test_cases": "[{}]"}, "column 'public_test_cases': Object missing required field `input`"),
        ({"public_test_cases": "nonsense"}, "column 'public_test_cases': JSON is malformed"),
        ({"public_test_cases": None}, "column 'public_test_cases': Expected `array`"),
        ({"public_test_cases": [], "private_test_cases": ""}, "has no test"),
        ({"private_test_cases": "import os"}, "column 'private_test_cases': is neither a list of tests nor base64"),
        ({"private_test_cases": [1]}, "must be text"),
        ({"metadata": '{"func_name": "f(); import os"}'}, "column 'metadata': "),
        ({"question_content": ""}, "column 'question_content': is empty"),
        ({"question_id": None}, "has no column 'question_id'"),
        ({"private_test_cases": "A" * 1000}, "its tests are over 1000 characters"),
    ],
)
def test_a_damaged_problem_is_one_line(tmp_path, monkeypatch, changed, said):
    monkeypatch.setattr(livecodebench, "MOST_TESTS", 1000)
    with pytest.raises(RunError) as caught:
        items("livecodebench-v6", lines(tmp_path, PROBLEM | changed))
    assert "rows.jsonl, line 1" in str(caught.value)
    assert said in str(caught.value)
