"""A small language model on one thread of a CPU: sampled tokens a second.

    python -m tests.bench.small_lm FOLDER [--rounds 3] [--dtypes float32 bfloat16] [--out small_lm.json]

FOLDER is a checkpoint, such as SmolLM2-135M-Instruct. Prompts have 120 tokens and answers 8 to 32, as in the recipe
`smol`; ends of turns are ignored. The peers, on the same requests in turns: Transformers' `generate` with the better of
two static batches, and vLLM (its CPU build) where it is installed. Rates are per second of CPU time; --out has the wall
clock too.
"""

import tempfile
from functools import partial
from pathlib import Path

import numpy as np

from tests.bench.engine_peers import Job, Request, count_vocabulary, endless, peers
from tests.bench.harness import command, conclude, in_turns, medians

PROMPT, SHORTEST, LONGEST, PLAYS = 120, 8, 32, 8
LOADS = {"groups of 8, 32 at once": (64, 32, PLAYS), "distinct, 32 at once": (64, 32, 1), "one request": (3, 1, 1)}
"""Requests in all, requests at once, and requests that share a prompt."""


def make_requests(count: int, group: int, vocabulary: int, seed: int) -> list[Request]:
    rng = np.random.default_rng(seed)
    prompts = [rng.integers(3, vocabulary, PROMPT).tolist() for _ in range(-(-count // group))]
    return [(prompts[index // group], int(rng.integers(SHORTEST, LONGEST + 1))) for index in range(count)]


def measure(job: Job, turn: int, *, load: tuple[int, int, int], vocabulary: int) -> dict[str, float]:
    count, at_once, group = load
    asked = make_requests(count, group, vocabulary, turn)  # other prompts each time: engines keep keys
    said, cpu_s, wall_s = job(asked, at_once)
    total = sum(map(len, said))
    assert total == sum(tokens for _, tokens in asked)
    return {"cpu": total / cpu_s, "wall": total / wall_s}


def main() -> None:
    parser = command(__doc__, rounds=3, dtypes=["float32", "bfloat16"], out=Path("small_lm.json"))
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    vocabulary = count_vocabulary(arguments.folder)
    figures: dict[str, dict[str, dict[str, float]]] = {}
    lines = []
    for dtype in arguments.dtypes:
        with (
            tempfile.TemporaryDirectory() as temporary,
            peers(endless(Path(temporary), arguments.folder), dtype) as jobs,
        ):
            for job in jobs.values():
                job(make_requests(2, 1, vocabulary, 1_000), 2)  # to warm up
            for name, load in LOADS.items():
                ways = {who: partial(measure, job, load=load, vocabulary=vocabulary) for who, job in jobs.items()}
                row = {who: medians(each) for who, each in in_turns(ways, arguments.rounds).items()}
                figures[f"{dtype}, {name}"] = row
                best = max(rate["cpu"] for who, rate in row.items() if who.startswith("generate"))
                ours = row["torch engine"]["cpu"]
                rates = "  ".join(f"{who} {rate['cpu']:.1f}" for who, rate in row.items())
                lines.append(f"{dtype:<9} {name:<24} {rates}  x{ours / best:.2f} generate")
    conclude(arguments.out, figures, "\n".join(lines))


if __name__ == "__main__":
    main()
