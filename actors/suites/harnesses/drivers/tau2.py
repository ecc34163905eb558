"""τ²-bench as inspect-evals plays it: an agent and a simulated user, one task at a time.

Its domains are retail, airline and telecom.
"""

import os
import tempfile
from collections.abc import Callable, Mapping
from itertools import chain, zip_longest
from typing import Any

from inspect_ai import eval as evaluate
from inspect_ai.model import Model, get_model
from inspect_evals.tau2.tau2 import tau2_airline, tau2_retail, tau2_telecom

from .pipe import HarnessVerdict, Item, PlayOrder, serve_orders

DOMAINS: Mapping[str, Callable[..., Any]] = {"retail": tau2_retail, "airline": tau2_airline, "telecom": tau2_telecom}


def list_tasks() -> list[Item]:
    """Return all tasks. The domains alternate, so that the first tasks cover all of them."""
    listed = []
    for domain, task in DOMAINS.items():
        samples = task(shuffle=False).dataset
        listed.append([Item(f"{domain}/{at}", domain, _describe_sample(sample)) for at, sample in enumerate(samples)])
    return [item for item in chain.from_iterable(zip_longest(*listed)) if item is not None]


def play(order: PlayOrder) -> HarnessVerdict:
    """Play a task. The harness may hide a failed request, but the command that answers the request knows of it."""
    agent, user = _make_model("agent", order.url), _make_model("user", order.url)
    with tempfile.TemporaryDirectory() as folder:
        (log,) = evaluate(
            DOMAINS[order.item.category](shuffle=False),
            model=agent,
            model_roles={"user": user},
            sample_id=[order.item.content["id"]],
            log_dir=folder,
            display="none",
            max_retries=0,
            score=True,
        )
        return _read_verdict(log)


def _read_verdict(log: Any) -> HarnessVerdict:
    """Return the verdict of a log. The log's samples are read from its file.

    Raises RuntimeError if the harness failed.
    """
    if log.status != "success" or not log.samples:
        raise RuntimeError(f"inspect: {log.status}: {log.error.message if log.error else 'no sample'}")
    (sample,) = log.samples
    if sample.error is not None:
        raise RuntimeError(f"inspect: {sample.error.message}")
    (score,) = sample.scores.values()
    correct = score.value in ("C", 1, 1.0, True)
    return HarnessVerdict(correct, float(correct), str(score.explanation or ""))


def _describe_sample(sample: Any) -> dict[str, Any]:
    return {"id": sample.id, "input": str(sample.input), "metadata": sample.metadata}


def _make_model(name: str, url: str) -> Model:
    return get_model(f"openai-api/spade/{name}", base_url=url, api_key="none", memoize=False)


def main(_: str) -> None:
    """Serve the command's orders to list and play items."""
    os.environ["INSPECT_LOG_LEVEL"] = "warning"
    serve_orders(list_tasks(), play)
