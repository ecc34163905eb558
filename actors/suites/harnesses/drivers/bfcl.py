"""Run the multi-turn part of BFCL v4, one entry at a time, with BFCL's own handler of OpenAI's API and its own checker.

The handler runs `eval()` on the model's calls. We pass on only calls of the entry's own functions, with JSON values as
arguments and identifiers as names. Any other call becomes a call of an unknown function, or cannot be decoded.
"""

import copy
import json
import os
import tempfile
from itertools import chain, zip_longest
from typing import Any

os.environ["BFCL_PROJECT_ROOT"] = tempfile.mkdtemp()  # the harness makes folders there as soon as it is imported

from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker import multi_turn_checker
from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_utils import is_empty_execute_response
from bfcl_eval.model_handler.api_inference.openai_completion import OpenAICompletionsHandler
from bfcl_eval.utils import load_dataset_entry, load_ground_truth_entry

from .pipe import HarnessVerdict, Item, PlayOrder, serve_orders

CATEGORIES = ("base", "miss_func", "miss_param", "long_context")


class BfclHandler(OpenAICompletionsHandler):  # type: ignore[misc]
    """The harness's handler, made safe: it never evaluates a model's text. `known` names the entry's functions."""

    def __init__(self, mark: str, known: frozenset[str]) -> None:
        # The harness keeps state in global variables, named after `mark` and the entry. So each play needs a new mark.
        super().__init__(mark, 0.0, mark, True)
        self._known = known

    def generate_with_backoff(self, **fields: Any) -> Any:
        """Ask as the agent. Never retries, because the command decides on retries."""
        return super().generate_with_backoff(**{**fields, "model": "agent"})

    def decode_execute(self, result: Any, has_tool_call_tag: bool) -> Any:
        """Return the calls as text.

        Raises ValueError for a message without calls, or with malformed calls.
        """
        if not isinstance(result, list):
            raise ValueError("a message without calls")
        return super().decode_execute([self._safe(call) for call in result], has_tool_call_tag)

    def _safe(self, call: dict[str, str]) -> dict[str, str]:
        ((name, arguments),) = call.items()
        values = json.loads(arguments)
        if not isinstance(values, dict) or not all(key.isidentifier() for key in values):
            raise ValueError("arguments that are not a JSON object with identifiers as names")
        return {name if name in self._known else "unknown_function": json.dumps(values)}


def list_entries() -> list[Item]:
    """Return all entries with their answers. The categories alternate, so that the first entries cover all of them."""
    listed = []
    for category in CATEGORIES:
        name = f"multi_turn_{category}"
        answers = {each["id"]: each["ground_truth"] for each in load_ground_truth_entry(name)}
        listed.append([Item(e["id"], category, (e, answers[e["id"]])) for e in load_dataset_entry(name)])
    return [item for item in chain.from_iterable(zip_longest(*listed)) if item is not None]


def play(order: PlayOrder) -> HarnessVerdict:
    """Play an entry and check it as the harness's own runner does."""
    os.environ["OPENAI_BASE_URL"], os.environ["OPENAI_API_KEY"] = order.url, "none"
    entry, truth = copy.deepcopy(order.item.content)
    handler = BfclHandler(order.mark, _list_functions(entry))
    handler.client = handler.client.with_options(max_retries=0, timeout=None)
    turns, _ = handler.inference(copy.deepcopy(entry), False, True)
    answer = json.dumps(turns)
    if not isinstance(turns, list) or len(turns) != len(truth):
        return HarnessVerdict(False, 0.0, answer)  # the play was stopped after too many steps
    decoded = [[calls for calls in (_decode_step(handler, step) for step in turn) if calls] for turn in turns]
    category = f"multi_turn_{order.item.category}"
    found = multi_turn_checker(decoded, truth, entry, category, order.mark)
    return HarnessVerdict(bool(found["valid"]), float(found["valid"]), answer)


def _list_functions(entry: dict[str, Any]) -> frozenset[str]:
    """Return the names of the entry's functions, including functions that are held back at first."""
    held = [each for turn in entry.get("missed_function", {}).values() for each in turn]
    named = [*entry["function"], *held]
    return frozenset(each["name"] for each in named if isinstance(each, dict))


def _decode_step(handler: BfclHandler, step: Any) -> list[str]:
    try:
        calls: list[str] = handler.decode_execute(step, has_tool_call_tag=False)
    except Exception:  # as in the harness: unreadable text is not a call
        return []
    return [] if is_empty_execute_response(calls) else calls


def main(_: str) -> None:
    """Serve the command's orders to list and play items."""
    serve_orders(list_entries(), play)
