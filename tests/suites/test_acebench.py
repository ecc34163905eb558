"""ACEBench through our gateway, on made-up rows: the state in which a task ends is what counts."""

import json

import pytest

from tests.suites.harness_rig import Script, planned, records

FUNCTION = {
    "name": "turn_on_wifi",
    "description": "Turn the wifi on.",
    "parameters": {"type": "object", "properties": {}},
}
OFF = {"wifi": False, "logged_in": True}
ON = {"wifi": True, "logged_in": True}


def row(name, **other):
    state = {"BaseApi": OFF}
    return {
        "id": name, "question": "Turn on my wifi.", "function": [FUNCTION], "initial_config": state,
        "involved_classes": ["BaseApi"], **other,
    }  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    (folder / "possible_answer").mkdir()
    truth = {"ground_truth": [{"BaseApi": ON}], "mile_stone": ["[turn_on_wifi()]"]}
    (folder / "data_agent_multi_step.json").write_text(
        "\n".join(json.dumps(row(f"agent_multi_step_{number}", rubric=json.dumps(truth))) for number in range(2))
    )
    (folder / "data_agent_multi_turn.json").write_text(json.dumps(row("agent_multi_turn_0")))
    (folder / "possible_answer" / "data_agent_multi_turn.json").write_text(
        json.dumps({"id": "agent_multi_turn_0", **truth})
    )
    return planned("acebench", folder), folder


async def test_the_right_end_wins(tmp_path, whole):
    plan, data = whole
    script = Script("acebench", "finish conversation")
    right = ["[turn_on_wifi()]", "finish conversation", "finish conversation"]
    script.add("agent_multi_step_0", right)
    script.add("agent_multi_step_1", ["[turn_off_wifi()]", "finish conversation", "finish conversation"])
    script.add("agent_multi_turn_0", right, ["Please turn on my wifi.", "finish conversation"])
    found = await records(tmp_path, plan, script, data=data)
    assert {name: (each.correct, each.error) for (name, _), each in found.items()} == {
        "agent_multi_step_0": (True, None), "agent_multi_step_1": (False, None), "agent_multi_turn_0": (True, None),
    }  # fmt: skip
