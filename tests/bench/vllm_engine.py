"""The vLLM engine's CPU build beside the torch engine on the nano model: tokens a second, and what new weights cost.

    .venv-vllm/bin/python -m tests.bench.vllm_engine [--rounds 3] [--swaps 9] [--out vllm.json]

Both engines live in one process, one thread of arithmetic each, and take turns: in a round each answers the same
requests; number at once after number. Then they take turns at swaps between two sets of weights with sequences in
flight; beside each, one copy of the same bytes in memory. Wall clock, medians; `lost` is sequences never answered.
"""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import numpy as np
import torch
from transformers import AutoModelForCausalLM

from actors.engines.base import Engine
from actors.engines.foreign.vllm import VllmEngine
from spade.codec import pack_ids
from spade.config import Engine as Settings
from spade.policy.model import compute_parameters_digest, save
from spade.policy.model_folder import NANO
from spade.protocol import Generate, Weights
from tests.bench.engine_peers import CONTEXT, VOCABULARY, torch_engine
from tests.bench.harness import clocked, command, conclude, in_turns
from tests.bench.swap import Copy

AT_ONCE = (1, 16, 64, 256)
IN_FLIGHT = 32
TOKENS = 64


def requests(count: int, tokens: int, seed: int) -> list[Generate]:
    rng = np.random.default_rng(seed)
    prompts = [rng.integers(3, VOCABULARY, int(rng.integers(32, 160))).tolist() for _ in range(count)]
    return [Generate(pack_ids(prompt), tokens, 1.0, index) for index, prompt in enumerate(prompts)]


@contextmanager
def engines(weights: Weights) -> Iterator[dict[str, Engine]]:
    settings = Settings(rows=max(AT_ONCE), context_tokens=CONTEXT, threads=1, kv_bytes=1 << 28, device="cpu")
    vllm = VllmEngine(weights, settings, "float32")
    try:
        yield {"torch": torch_engine(weights, settings.rows), "vllm": vllm}
    finally:
        vllm.close()


def tokens_per_s(engine: Engine, asked: list[Generate]) -> float:
    before, began = engine.sampled, time.perf_counter()
    for index, request in enumerate(asked):
        engine.submit(index, request)
    while engine.busy:
        engine.step()
    return (engine.sampled - before) / (time.perf_counter() - began)


def swap_ms(engine: Engine, weights: Weights, seed: int) -> tuple[float, int]:
    """The time of `load_weights` while sequences are in flight, and the number of these that are lost."""
    asked, answered, took = requests(IN_FLIGHT, 200, seed), 0, []
    for index, request in enumerate(asked):
        engine.submit(index, request)
    while engine.busy:
        answered += len(engine.step())
        if answered and not took:
            with clocked(took):
                engine.load_weights(weights)
    return took[0], len(asked) - answered


def other_weights(folder: Path) -> Path:
    model = AutoModelForCausalLM.from_pretrained(NANO)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.01 * torch.randn_like(parameter)
    save(model, NANO, folder)
    return folder


def measure(rounds: int, swaps: int, folder: Path) -> dict[str, object]:
    places = (NANO, other_weights(folder))
    digests = [compute_parameters_digest(place) for place in places]
    size = (NANO / "model.safetensors").stat().st_size
    taken: dict[str, list[float]] = {"torch": [], "vllm": []}
    copies, lost = [], 0
    with engines(Weights(1, 0, digests[0], str(NANO))) as pair:
        rates = {}
        for count in AT_ONCE:
            jobs = {
                name: lambda turn, engine=engine, count=count: tokens_per_s(engine, requests(count, TOKENS, turn))
                for name, engine in pair.items()
            }
            rates[count] = {name: median(found) for name, found in in_turns(jobs, rounds).items()}
        for turn in range(1, swaps + 1):
            copies.append(Copy(size).ms())
            for name, engine in pair.items():
                weights = Weights(1 + turn, turn, digests[turn % 2], str(places[turn % 2]))
                ms, gone = swap_ms(engine, weights, turn)
                taken[name].append(ms)
                lost += gone
    return {
        "tokens_per_s": {name: {count: row[name] for count, row in rates.items()} for name in taken},
        "swap_ms": {name: median(found) for name, found in taken.items()},
        "copy_ms": median(copies),
        "swaps": swaps,
        "lost": lost,
    }


def main() -> None:
    arguments = command(__doc__, rounds=3, swaps=9, out=None).parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        found = measure(arguments.rounds, arguments.swaps, Path(folder))
    rates = found["tokens_per_s"]
    lines = [
        f"{count:>4} at once: torch {rates['torch'][count]:7.0f} tokens/s, vLLM {rates['vllm'][count]:7.0f}"
        for count in AT_ONCE
    ]
    times = "; ".join(f"{name} {ms:.1f} ms" for name, ms in found["swap_ms"].items())
    lines.append(f"swap: {times}; one copy {found['copy_ms']:.2f} ms")
    lines.append(f"{found['lost']} sequences lost in {found['swaps']} swaps of each")
    conclude(arguments.out, found, "\n".join(lines))


if __name__ == "__main__":
    main()
