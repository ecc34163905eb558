"""The torch engine on the nano model: tokens a second, and many turns.

    python -m tests.bench.engine [--rounds 3] [--out engine.json]

The peers, interleaved with ours on the same requests and one thread each: Transformers' `generate` with the better of
two static batches, and vLLM (its CPU build) where it is installed. Requests have uneven lengths (log-normal); ends of
turns are ignored. Rates are per second of CPU time, so that a busy machine is no figure; --out has the wall clock too.
"""

import tempfile
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from tests.bench.engine_peers import VOCABULARY, Job, Request, endless, peers
from tests.bench.harness import command, conclude, in_turns, medians

AT_ONCE = {1: 6, 16: 48, 64: 128, 256: 384}
"""Requests at once to how many in all."""
EPISODES, TURNS, OPENING, SEEN, SAID = 16, 8, 100, 24, 24
"""Episodes at once, their turns; tokens of the first prompt, of an observation, of a turn."""


def requests(count: int) -> list[Request]:
    rng = np.random.default_rng(count)
    lengths = np.clip(rng.lognormal(np.log(32), 1.0, count), 4, 256).astype(int)
    return [(rng.integers(3, VOCABULARY, rng.integers(32, 160)).tolist(), int(length)) for length in lengths]


def uneven(jobs: dict[str, Job], at_once: int, rounds: int) -> dict[str, dict[str, float]]:
    """Sampled tokens a second."""
    asked = requests(AT_ONCE[at_once])
    total = sum(tokens for _, tokens in asked)

    def rates(job: Job, _: int) -> dict[str, float]:
        said, cpu_s, wall_s = job(asked, at_once)
        assert [len(ids) for ids in said] == [tokens for _, tokens in asked]
        return {"cpu": total / cpu_s, "wall": total / wall_s}

    taken = in_turns({name: partial(rates, job) for name, job in jobs.items()}, rounds)
    return {name: medians(each) for name, each in taken.items()}


def conversations(jobs: dict[str, Job], rounds: int) -> dict[str, list[float]]:
    """Milliseconds of CPU time for each token sampled, turn by turn; a batch of one length needs no quarters."""

    def turns(job: Job, index: int) -> list[float]:
        rng = np.random.default_rng(index)
        contexts = [rng.integers(3, VOCABULARY, OPENING).tolist() for _ in range(EPISODES)]
        spent = []
        for _ in range(TURNS):
            said, cpu_s, _ = job([(context, SAID) for context in contexts], EPISODES)
            spent.append(1000 * cpu_s / (EPISODES * SAID))
            for context, ids in zip(contexts, said, strict=True):
                context += ids + rng.integers(3, VOCABULARY, SEEN).tolist()
        return spent

    taken = in_turns({name: partial(turns, job) for name, job in jobs.items() if "quarter" not in name}, rounds)
    return {name: [median(turn) for turn in zip(*spent, strict=True)] for name, spent in taken.items()}


def table(figures: dict[str, Any]) -> str:
    lines = []
    for at_once, row in figures["uneven lengths, tokens/s"].items():
        ours = row["torch engine"]["cpu"]
        best = max(rate["cpu"] for name, rate in row.items() if name.startswith("generate"))
        vllm = f"{row['vLLM']['cpu']:7.0f}  x{ours / row['vLLM']['cpu']:.1f}" if "vLLM" in row else "not installed"
        lines.append(
            f"{at_once:>4} at once: {ours:7.0f} tokens/s; generate {best:7.0f}  x{ours / best:.1f}; vLLM {vllm}"
        )
    for name, turns in figures["eight turns, ms/token"].items():
        lines.append(" ".join([f"{name:<24}", *(f"{ms:6.2f}" for ms in turns), "ms/token, turn by turn"]))
    return "\n".join(lines)


def main() -> None:
    parser = command(__doc__, rounds=3, out=Path("engine.json"))
    parser.add_argument("--at-once", type=int, nargs="*", default=list(AT_ONCE), choices=list(AT_ONCE))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary, peers(endless(Path(temporary))) as jobs:
        for job in jobs.values():
            job(requests(4), 4)  # to warm up
        figures = {
            "uneven lengths, tokens/s": {n: uneven(jobs, n, arguments.rounds) for n in arguments.at_once},
            "eight turns, ms/token": conversations(jobs, arguments.rounds),
        }
    conclude(arguments.out, figures, table(figures))


if __name__ == "__main__":
    main()
