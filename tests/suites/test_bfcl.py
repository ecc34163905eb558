"""BFCL through our gateway: the reference answers win all 800 entries, and saying nothing wins none."""

import ast
import json

import pytest

from tests.suites.harness_rig import Script, calls, packages, part, planned, records

CATEGORIES = ("base", "miss_func", "miss_param", "long_context")


@pytest.fixture(scope="module")
def whole():
    return planned("bfcl")


def rows(name):
    data = packages("bfcl") / "bfcl_eval" / "data"
    return [json.loads(line) for line in (data / name).read_text().splitlines()]


def parameters():
    """The names of each function's parameters, in their order."""
    docs = packages("bfcl") / "bfcl_eval" / "data" / "multi_turn_func_doc"
    return {
        each["name"]: list(each["parameters"]["properties"])
        for file in docs.glob("*.json")
        for each in map(json.loads, file.read_text().splitlines())
    }


def made(text, known):
    """The call that a reference answer writes as Python: its name and its arguments."""
    node = ast.parse(text.strip(), mode="eval").body
    names = known[node.func.id]
    arguments = {name: ast.literal_eval(value) for name, value in zip(names, node.args, strict=False)}
    return node.func.id, arguments | {each.arg: ast.literal_eval(each.value) for each in node.keywords}


def of(plan, category):
    return part(plan, [name for name, item in plan.items.items() if item.category == category])


def oracle(names):
    script, known = Script("bfcl"), parameters()
    for category in CATEGORIES:
        for row in rows(f"possible_answer/BFCL_v4_multi_turn_{category}.json"):
            if row["id"] in names:
                script.add(row["id"], [said for turn in row["ground_truth"] for said in turn_of(turn, known)])
    return script


def turn_of(turn, known):
    """All calls of a turn at once, then a word that ends it."""
    return [calls(*(made(text, known) for text in turn)), "Done."] if turn else ["I cannot do that yet."]


async def test_reference_answers_win_and_silence_does_not(tmp_path, whole):
    plan = part(whole, list(whole.items)[:8])
    assert {item.category for item in plan.items.values()} == set(CATEGORIES)
    found = await records(tmp_path, plan, oracle(plan.items))
    assert {key: (each.correct, each.detail) for key, each in found.items()} == dict.fromkeys(found, (True, ""))
    assert len(found) == 8
    (tmp_path / "silent").mkdir()
    silent = await records(tmp_path / "silent", plan, Script("bfcl", ""))
    assert not any(each.correct for each in silent.values())
    assert not any(each.error for each in silent.values())


async def test_calls_that_no_entry_offers_run_no_code_of_a_model(tmp_path, whole):
    """They are calls of an unknown function, or none: names of Python's, and arguments that are Python."""
    plan, script = part(whole, list(whole.items)[:4]), Script("bfcl")
    spoils = [
        calls(("__import__('os').system", {"command": "touch /tmp/spoiled"})),
        calls(("exec", {"x": "raise SystemExit(3)"}), ("ls", {"a=exec('raise SystemExit(3)'),b": 1})),
        "Done.",
    ]
    for item in plan.items:
        script.add(item, spoils * 8)
    found = await records(tmp_path, plan, script)
    assert [(each.correct, each.error) for each in found.values()] == [(False, None)] * 4


@pytest.mark.slow
@pytest.mark.parametrize("category", CATEGORIES)
async def test_all_200_reference_answers_of_a_category_win(tmp_path, whole, category):
    plan = of(whole, category)
    found = await records(tmp_path, plan, oracle(plan.items))
    assert [key for key, each in found.items() if not each.correct] == []
    assert len(found) == 200


@pytest.mark.slow
@pytest.mark.parametrize("category", CATEGORIES)
async def test_silence_wins_none_of_200(tmp_path, whole, category):
    found = await records(tmp_path, of(whole, category), Script("bfcl", ""))
    assert [key for key, each in found.items() if each.correct or each.error] == []
    assert len(found) == 200
