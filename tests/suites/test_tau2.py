"""τ²-bench through our gateway: a scripted agent and user that do what a task of retail wants win it."""

import json

import pytest

from tests.suites.harness_rig import Script, calls, packages, part, planned, records


@pytest.fixture(scope="module")
def whole():
    return planned("tau2")


def oracle(names):
    """The actions of each task one by one, then what it wants to be told; the user says it and is content."""
    script = Script("tau2")
    domains = packages("tau2") / "inspect_evals" / "tau2" / "data" / "domains" / "retail"
    base = set(json.loads((domains / "split_tasks.json").read_text())["base"])
    tasks = [task for task in json.loads((domains / "tasks.json").read_text()) if str(task["id"]) in base]
    for number, task in enumerate(tasks):
        wanted = task["evaluation_criteria"]
        agent = [calls((each["name"], each["arguments"])) for each in wanted["actions"]]
        told = "It is done. " + " ".join(wanted.get("communicate_info") or [])
        script.add(f"retail/{number}", [*agent, told], ["Please do what I need.", "###STOP###"])
    return script


def retail(count):
    return [f"retail/{number}" for number in range(count)]


async def won(folder, plan):
    found = await records(folder, plan, oracle(plan.items))
    assert {key: (each.correct, each.error, each.detail) for key, each in found.items()} == {
        (name, 0): (True, None, "") for name in plan.items
    }


async def test_a_task_is_won_by_its_actions_and_by_nothing_else(tmp_path, whole):
    plan = part(whole, retail(1))
    await won(tmp_path, plan)
    (tmp_path / "idle").mkdir()
    idle = Script("tau2")
    idle.add("retail/0", ["I am sorry."], ["Please do what I need.", "###STOP###"])
    found = await records(tmp_path / "idle", plan, idle)
    assert [(each.correct, each.error) for each in found.values()] == [(False, None)]


@pytest.mark.slow
async def test_five_tasks_of_retail_are_won(tmp_path, whole):
    await won(tmp_path, part(whole, retail(5)))
