"""Suites of tool use that an external program drives: BFCL, τ²-bench, ACEBench.

A harness is installed in a virtual environment of its own (`environment.py`). In a sandboxed process (`worker.py`), our
driver imports and runs it (`drivers/`).
"""

from collections.abc import Mapping

from actors.suites.harnesses.harness import Harness
from spade.config import ProtocolName
from spade.evaluations import Protocol, Sampling


def _make_protocols(temperature: float, samples: int, turns: int) -> Mapping[ProtocolName, Protocol]:
    """Make the protocols `paper` and `short`. The numbers are our own choice. The harness itself writes the prompts."""
    sampling = Sampling(temperature=temperature, max_tokens=2_048)
    numbers: Mapping[ProtocolName, int] = {"paper": samples, "short": 1}
    return {
        name: Protocol(name=name, prompt="{problem}", sampling=sampling, samples=n, grading="harness", turns=turns)
        for name, n in numbers.items()
    }


BFCL = Harness.of("bfcl", "bfcl-eval", _make_protocols(0.0, 1, 20))
TAU2 = Harness.of("tau2", "inspect-evals", _make_protocols(0.0, 4, 20), users=True)
ACEBENCH = Harness.of(
    "acebench",
    "evalscope",
    _make_protocols(0.7, 1, 20),
    tools=False,  # its calls are text
    users=True,
    columns="a folder with the rows of its English agent tasks",
    size=50,
)

HARNESSES: Mapping[str, Harness] = {harness.name: harness for harness in (BFCL, TAU2, ACEBENCH)}

__all__ = ["HARNESSES", "Harness"]
