"""ACEBench's agent tasks as evalscope plays them, on given rows.

A row has `id`, `question`, `function`, `initial_config` and `involved_classes`. It also needs either `rubric` (with
`ground_truth` and `mile_stone`) or a row with its `id` in the file of the same name in `possible_answer/`.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evalscope.api.model import GenerateConfig, Model, get_model
from evalscope.benchmarks.acebench.checker import check_agent_end_state, milestone_accuracy
from evalscope.benchmarks.acebench.rollout import run_rollout
from evalscope.benchmarks.acebench.utils import category_of_record, decode_maybe_json
from evalscope.constants import EvalType

from .pipe import HarnessVerdict, Item, Json, PlayOrder, serve_orders

CATEGORIES = {"agent_multi_step": "multi_step", "agent_multi_turn": "multi_turn"}
_STEPS = 40


def list_items(folder: Path) -> list[Item]:
    """Return the agent tasks of a folder. Rows of other categories are left out."""
    found = []
    for file in sorted(folder.glob("*.json*")):
        answers = {row["id"]: row for row in _read_rows(folder / "possible_answer" / file.name)}
        for row in _read_rows(file):
            category = CATEGORIES.get(category_of_record(row))
            if category is not None:
                found.append(Item(str(row["id"]), category, _convert_task(row, answers.get(row["id"], {}))))
    return found


def play(order: PlayOrder) -> HarnessVerdict:
    """Play a task and check its final state."""
    task = order.item.content
    agent, user = _make_model("agent", order.url), _make_model("user", order.url)
    result = run_rollout(agent, task, _STEPS, user if order.item.category == "multi_turn" else None)
    correct = bool(check_agent_end_state(result.end_state, task["ground_truth"])["valid"])
    # Upstream does the same: a player who reaches the right end has passed every milestone.
    score = 1.0 if correct else float(milestone_accuracy(result.process, task["mile_stone"]))
    return HarnessVerdict(correct, score, json.dumps(result.process, default=str))


def _read_rows(file: Path) -> Iterator[Json]:
    """Yield the rows of a file, which has one JSON object per line."""
    if file.is_file():
        for text in file.read_text().splitlines():
            if text.strip():
                yield json.loads(text)


def _convert_task(row: Json, answer: Json) -> Json:
    """Convert a row to the form that the harness expects."""
    rubric: Any = decode_maybe_json(row.get("rubric"), {}) or answer
    decoded = {name: decode_maybe_json(row.get(name), []) for name in ("function", "involved_classes")}
    return {
        "id": row["id"],
        "test_category": category_of_record(row),
        "language": "en",
        "question": row.get("question", ""),
        "functions": decoded["function"],
        "involved_classes": decoded["involved_classes"],
        "initial_config": decode_maybe_json(row.get("initial_config"), {}),
        "ground_truth": rubric["ground_truth"],
        "mile_stone": rubric.get("mile_stone", []),
    }


def _make_model(name: str, url: str) -> Model:
    config = GenerateConfig(temperature=0.7, retries=0)
    return get_model(model=name, eval_type=EvalType.OPENAI_API, base_url=url, api_key="none", config=config)


def main(folder: str) -> None:
    """Serve the command's orders to list and play items."""
    serve_orders(list_items(Path(folder)), play)
