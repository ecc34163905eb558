"""The vLLM engine's CPU build beside the torch engine on the nano model: tokens a second, and what new weights cost.

    .venv-vllm/bin/python -m tests.bench.vllm_engine [--rounds 3] [--swaps 9] [--out vllm.json]

Both engines live in one process, one thread of arithmetic each, and take turns: in a round each answers the same
requests at each number at once. Then they take turns at swaps between two sets of weights with sequences in flight;
beside each, one copy of the same bytes in memory. Wall clock, medians; `lost` is sequences that were never answered.
"""

import argparse
import json
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
from actors.engines.torch.engine import TorchEngine
from spade.checkpoints import NANO
from spade.codec import pack_ids
from spade.config import Engine as Settings
from spade.policy.model import parameters_digest, save
from spade.protocol import Generate, Weights

AT_ONCE = (1, 16, 64, 256)
IN_FLIGHT = 32
CONTEXT, TOKENS, VOCABULARY = 768, 64, 1_536


def requests(count: int, tokens: int, seed: int) -> list[Generate]:
    rng = np.random.default_rng(seed)
    prompts = [rng.integers(3, VOCABULARY, int(rng.integers(32, 160))).tolist() for _ in range(count)]
    return [Generate(pack_ids(prompt), tokens, 1.0, index) for index, prompt in enumerate(prompts)]


@contextmanager
def engines(weights: Weights) -> Iterator[dict[str, Engine]]:
    settings = Settings(rows=max(AT_ONCE), context_tokens=CONTEXT, threads=1, kv_bytes=1 << 28, device="cpu")
    ours = TorchEngine(weights, settings, "float32")
    vllm = VllmEngine(weights, settings, "float32")
    try:
        yield {"torch": ours, "vllm": vllm}
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
    """How long `load_weights` takes while sequences are in flight, and how many of these are lost."""
    asked, answered, took = requests(IN_FLIGHT, 200, seed), 0, 0.0
    for index, request in enumerate(asked):
        engine.submit(index, request)
    while engine.busy:
        answered += len(engine.step())
        if answered and not took:
            began = time.perf_counter()
            engine.load_weights(weights)
            took = 1e3 * (time.perf_counter() - began)
    return took, len(asked) - answered


def copy_ms(size: int) -> float:
    source, target = torch.ones(size // 4), torch.zeros(size // 4)
    began = time.perf_counter()
    target.copy_(source)
    return 1e3 * (time.perf_counter() - began)


def other_weights(folder: Path) -> Path:
    model = AutoModelForCausalLM.from_pretrained(NANO)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.01 * torch.randn_like(parameter)
    save(model, NANO, folder)
    return folder


def measure(rounds: int, swaps: int, folder: Path) -> dict[str, object]:
    places = (NANO, other_weights(folder))
    digests = [parameters_digest(place) for place in places]
    size = (NANO / "model.safetensors").stat().st_size
    with engines(Weights(1, 0, digests[0], str(NANO))) as pair:
        rates: dict[str, dict[int, list[float]]] = {name: {count: [] for count in AT_ONCE} for name in pair}
        for turn in range(rounds):
            for count in AT_ONCE:
                asked = requests(count, TOKENS, turn)
                for name, engine in pair.items():
                    rates[name][count].append(tokens_per_s(engine, asked))
        took: dict[str, list[float]] = {name: [] for name in pair}
        copies, lost = [], 0
        for turn in range(1, swaps + 1):
            copies.append(copy_ms(size))
            for name, engine in pair.items():
                weights = Weights(1 + turn, turn, digests[turn % 2], str(places[turn % 2]))
                ms, gone = swap_ms(engine, weights, turn)
                took[name].append(ms)
                lost += gone
    return {
        "tokens_per_s": {name: {n: median(found) for n, found in by.items()} for name, by in rates.items()},
        "swap_ms": {name: median(found) for name, found in took.items()},
        "copy_ms": median(copies),
        "swaps": swaps,
        "lost": lost,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--swaps", type=int, default=9)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        found = measure(arguments.rounds, arguments.swaps, Path(folder))
    if arguments.out:
        arguments.out.write_text(json.dumps(found, indent=1))
    rates = found["tokens_per_s"]
    for count in AT_ONCE:
        print(f"{count:>4} at once: torch {rates['torch'][count]:7.0f} tokens/s, vLLM {rates['vllm'][count]:7.0f}")
    times = "; ".join(f"{name} {ms:.1f} ms" for name, ms in found["swap_ms"].items())
    print(f"swap: {times}; one copy {found['copy_ms']:.2f} ms")
    print(f"{found['lost']} sequences lost in {found['swaps']} swaps of each")


if __name__ == "__main__":
    main()
