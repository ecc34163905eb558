"""Measure one GPU: sampling, training and new weights, each beside a peer or a limit of the same machine.

    python -m tests.bench.gpu [--small] [--parts limits sampling learner swap] [--out gpu.json]

The models are random, in the shapes of Qwen3-0.6B and Qwen3-1.7B, in bfloat16. `--small` takes a model of 30 million
parameters and few tokens, so that all of it runs on a CPU in two minutes.

limits    a product of two large matrices, a copy within the device, and a copy from the host
sampling  tokens a second of the torch engine, and of Transformers' continuous batching on the same requests
learner   a step of the torch back-end: tokens a second, the share of the measured product (MFU), and peak memory
swap      publication of weights by the learner, and the engine's change to them, beside a copy from the host
"""

import gc
import itertools
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import numpy as np
import torch

from learner import weights as learner_weights
from learner.backends.torch import TorchBackend
from spade.config import Config, load
from spade.policy.manifest import PARAMETERS
from spade.policy.model import load as load_model
from spade.policy.model import pick_device
from spade.protocol import Batch, Weights
from tests.bench.engine_peers import sample_all, torch_engine
from tests.bench.harness import command, conclude
from tests.gpu.shapes import SHAPES, count_flops, make_batch, write_model
from tests.peers import changed

Figures = dict[str, dict[str, float]]

PLAYS = 8
"""Plays of a group."""
LENGTH, LEAST_PROMPT = 2_048, 8
"""Tokens of a play that is trained, and of its prompt, too short to be shared: all read tokens are computed."""
KEPT_TOKENS = 8_192
"""A step of more tokens computes activations again."""


class Sizes(msgspec.Struct, frozen=True):
    """The amount of work that is measured."""

    models: tuple[str, ...]
    sampled: tuple[tuple[int, int], ...]
    """Requests at once, and tokens of each prompt."""
    new: int
    """Tokens sampled for each request."""
    trained: tuple[int, ...]
    """Tokens of a step."""
    length: int
    side: int
    """Of a square matrix."""
    rounds: int


LARGE = Sizes(
    ("0.6B", "1.7B"), ((1, 896), (64, 896), (256, 896), (1_024, 384), (1, 8_064), (64, 8_064)), 128,
    (2_048, 8_192, 32_768, 65_536), LENGTH, 8_192, 3,
)  # fmt: skip
SMALL = Sizes(("30M",), ((1, 96), (16, 96)), 16, (1_024,), 256, 512, 2)


def wait(device: torch.device) -> None:
    """Wait until the device has done what was asked of it."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def time_s(device: torch.device, job: Callable[[], Any], rounds: int) -> float:
    """Return the median seconds of `job`, after one that does not count."""
    taken = []
    for _ in range(rounds + 1):
        wait(device)
        began = time.perf_counter()
        job()
        wait(device)
        taken.append(time.perf_counter() - began)
    return median(taken[1:])


@contextmanager
def peak(device: torch.device) -> Iterator[dict[str, float]]:
    """Give the peak of the block's memory on the device, in GiB, at its end."""
    found: dict[str, float] = {}
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
    yield found
    if device.type == "cuda":
        found["peak GiB"] = torch.cuda.max_memory_allocated(device) / 2**30


# ---------------------------------------------------------------- what the machine can do


def measure_limits(device: torch.device, sizes: Sizes) -> Figures:
    side, dtype = sizes.side, torch.bfloat16
    left, right = (torch.randn(side, side, device=device, dtype=dtype) for _ in range(2))
    product_s = time_s(device, lambda: [left @ right for _ in range(10)], sizes.rounds) / 10
    source, target = (torch.randn(side * side * 4, device=device) for _ in range(2))
    copy_s = time_s(device, lambda: target.copy_(source), sizes.rounds)
    host = torch.randn(side * side * 4, pin_memory=device.type == "cuda")
    from_host_s = time_s(device, lambda: target.copy_(host, non_blocking=True), sizes.rounds)
    return {
        "limits": {
            "product TFLOP/s": 2 * side**3 / product_s / 1e12,
            "copy GB/s, read and written": 8 * source.numel() / copy_s / 1e9,
            "from the host GB/s": 4 * host.numel() / from_host_s / 1e9,
        }
    }


# ---------------------------------------------------------------- sampling


def make_requests(count: int, prompt: int, vocabulary: int) -> list[list[int]]:
    """Return prompts, of which `PLAYS` each are equal, as the plays of a group are."""
    rng = np.random.default_rng(count)
    drawn = [rng.integers(3, vocabulary, prompt).tolist() for _ in range(-(-count // PLAYS))]
    return [drawn[index // PLAYS] for index in range(count)]


class Ours:
    """The torch engine. It ends no turn."""

    def __init__(self, folder: Path, rows: int, context: int, device: torch.device, kv_bytes: int) -> None:
        self.engine = torch_engine(Weights(1, 0, "", str(folder)), rows, context, kv_bytes, "bfloat16", str(device))

    def sample(self, prompts: list[list[int]], new: int) -> int:
        """Return the number of sampled tokens."""
        return sum(map(len, sample_all(self.engine, [(ids, new) for ids in prompts])))


class Theirs:
    """Transformers' continuous batching."""

    def __init__(self, folder: Path, device: torch.device) -> None:
        from transformers import AutoModelForCausalLM, GenerationConfig

        self._model: Any = AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.bfloat16, attn_implementation="sdpa"
        ).to(device)
        self._config = GenerationConfig

    def sample(self, prompts: list[list[int]], new: int) -> int:
        """Return the number of sampled tokens."""
        config = self._config(max_new_tokens=new, do_sample=True, top_k=0, eos_token_id=-1, pad_token_id=0)
        # Else each call prepares its batches and graphs anew, which takes longer than the sampling.
        answers = self._model.generate_batch(prompts, generation_config=config, persistent_manager=True)
        return sum(len(answer.generated_tokens) for answer in answers.values())


def count_kv_bytes(device: torch.device) -> int:
    """Return the bytes for an engine's keys and values: 60 % of what is free on a GPU."""
    return int(0.6 * torch.cuda.mem_get_info(device)[0]) if device.type == "cuda" else 1 << 28


def measure_rate(device: torch.device, sampler: Ours | Theirs, rounds: list[list[list[int]]], new: int) -> float:
    """Return the tokens a second of the fastest round. Prompts are computed and tokens sampled within that time."""
    rates = []
    for prompts in rounds:
        wait(device)
        began = time.perf_counter()
        count = sampler.sample(prompts, new)
        rates.append(count / (time.perf_counter() - began))
    return max(rates)


def measure_sampling(device: torch.device, sizes: Sizes, folders: dict[str, Path]) -> Figures:
    figures: Figures = {}
    name = sizes.models[0]
    vocabulary = SHAPES[name].vocabulary
    for count, prompt in sizes.sampled:
        asked = make_requests(count, prompt, vocabulary)
        # Other prompts each time: the engine keeps the keys of earlier ones.
        rounds = [[[(token + turn) % vocabulary for token in ids] for ids in asked] for turn in range(sizes.rounds)]
        row: dict[str, float] = {}
        with peak(device) as memory:
            ours = Ours(folders[name], count, prompt + sizes.new, device, count_kv_bytes(device))
            ours.sample(asked[:PLAYS], 4)
            row["tokens/s"] = measure_rate(device, ours, rounds, sizes.new)
            del ours
        if device.type == "cuda":  # it does not run on a CPU
            with peak(device):
                theirs = Theirs(folders[name], device)
                theirs.sample(asked, 4)
                row["Transformers tokens/s"] = measure_rate(device, theirs, rounds, sizes.new)
                del theirs
            row["times Transformers"] = row["tokens/s"] / row["Transformers tokens/s"]
        figures[f"{name}, {count} at once, prompts of {prompt}"] = row | memory
        print(f"{name}, {count} at once, prompts of {prompt}: {row}", flush=True)
    return figures


# ---------------------------------------------------------------- training


def settings_of(folder: Path, tokens: int, checkpointing: bool) -> Config:
    return changed(
        load("nano"), model={"path": str(folder), "dtype": "bfloat16"},
        learner={"microbatch_tokens": tokens, "activation_checkpointing": checkpointing, "lr": 1e-6},
    )  # fmt: skip


def measure_step(device: torch.device, folder: Path, batch: Batch, tokens: int, rounds: int) -> float:
    """Return the median seconds of a step over `batch` as one micro-batch."""
    model = load_model(folder, dtype="float32", device=device).requires_grad_(True)
    backend = TorchBackend(model, settings_of(folder, tokens, checkpointing=tokens > KEPT_TOKENS))
    return time_s(device, lambda: backend.train(msgspec.structs.replace(batch, step=backend.step + 1)), rounds)


def measure_learner(device: torch.device, sizes: Sizes, folders: dict[str, Path], product: float) -> Figures:
    figures: Figures = {}
    for name in sizes.models:
        shape = SHAPES[name]
        for tokens in sizes.trained:
            batch = make_batch(tokens, sizes.length, shape.vocabulary, LEAST_PROMPT)
            label = f"{name}, {tokens} tokens"
            try:
                with peak(device) as memory:
                    taken = measure_step(device, folders[name], batch, tokens, sizes.rounds)
            except torch.OutOfMemoryError as error:
                print(f"{label}: {str(error).splitlines()[0]}")
                continue
            flops = count_flops(shape, tokens, sizes.length, tokens - LEAST_PROMPT * (tokens // sizes.length))
            figures[label] = {
                "tokens/s": tokens / taken, "s": taken, "TFLOP/s": flops / taken / 1e12,
                "MFU %": 100 * flops / taken / 1e12 / product, **memory,
            }  # fmt: skip
            print(f"{label}: {figures[label]}", flush=True)
    return figures


# ---------------------------------------------------------------- new weights


@torch.no_grad()
def publish_two(device: torch.device, folder: Path, root: Path) -> tuple[list[Weights], float]:
    """Publish two sets of weights, as the learner does. Return them, and the seconds of the faster publication."""
    model = load_model(folder, dtype="float32", device=device)
    published, taken = [], []
    for version in (1, 2):
        for parameter in model.parameters():
            parameter.mul_(1.001)
        wait(device)
        began = time.perf_counter()
        digest, written = learner_weights.publish(model, "bfloat16", folder, root)
        taken.append(time.perf_counter() - began)
        published.append(Weights(version, version - 1, digest, str(written)))
    return published, min(taken)


def measure_one_swap(device: torch.device, folder: Path, root: Path, rounds: int) -> dict[str, float]:
    published, publish_s = publish_two(device, folder, root)
    engine = Ours(folder, 8, 256, device, 1 << 30).engine
    turn = itertools.cycle(published)
    swap_s = time_s(device, lambda: engine.load_weights(next(turn)), rounds)
    size = (Path(published[0].path) / PARAMETERS).stat().st_size
    host, target = torch.empty(size, dtype=torch.uint8), torch.empty(size, dtype=torch.uint8, device=device)
    copy_s = time_s(device, lambda: target.copy_(host), rounds)
    return {"GB": size / 1e9, "publication s": publish_s, "swap s": swap_s, "copy from the host s": copy_s}


def measure_swap(device: torch.device, sizes: Sizes, folders: dict[str, Path], root: Path) -> Figures:
    return {
        f"{name}, new weights": measure_one_swap(device, folders[name], root, sizes.rounds) for name in sizes.models
    }


def main() -> None:
    parser = command(__doc__, parts=["limits", "sampling", "learner", "swap"], out=Path("gpu.json"))
    parser.add_argument("--small", action="store_true")
    arguments = parser.parse_args()
    sizes, device = SMALL if arguments.small else LARGE, pick_device("auto")
    figures: Figures = measure_limits(device, sizes)
    with tempfile.TemporaryDirectory() as temporary:
        folders = {name: Path(temporary) / name for name in sizes.models}
        for name, folder in folders.items():
            folder.mkdir()
            write_model(SHAPES[name], folder)
        if "swap" in arguments.parts:
            figures |= measure_swap(device, sizes, folders, Path(temporary))
        if "learner" in arguments.parts:
            figures |= measure_learner(device, sizes, folders, figures["limits"]["product TFLOP/s"])
        if "sampling" in arguments.parts:
            figures |= measure_sampling(device, sizes, folders)
    lines = [
        "  ".join([f"{name:<40}", *(f"{key} {value:.4g}" for key, value in row.items())])
        for name, row in figures.items()
    ]
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    conclude(arguments.out, {"device": name, "torch": torch.__version__, **figures}, "\n".join([name, *lines]))


if __name__ == "__main__":
    main()
