"""New weights in a running engine, against one copy of the same bytes in memory.

    python -m tests.bench.swap [--rounds 9] [--parameters 1 100] [--running 8] [--out swap.json]

A real engine process serves `--running` long sequences, again and again. A round announces other weights, as the replay
service does, and waits for the engine's report that it samples from them (`in use`; their first token comes a decode
step later) and for the first request of a single token, one sent after the other, that they answered (`at a caller`).
The two sets of weights are published by the learner's code and change places. Interleaved with the rounds: one copy of
the same bytes between two buffers. `stall` is taken from inside an engine in this process: how much longer the running
sequences wait between two tokens where a swap lies between. Medians; sizes in millions of parameters, float32.
"""

import tempfile
import time
from itertools import cycle
from pathlib import Path
from statistics import median

import torch
import trio
from transformers import GenerationConfig, Qwen3Config, Qwen3ForCausalLM

from actors.engines.weights.swap import compare
from learner import weights as learner
from spade.codec import pack_ids
from spade.config import Config, compute_digest, load
from spade.policy import canary
from spade.policy.model_folder import NANO
from spade.protocol import Done, Generate, Generated, Pulse, Ready, Serving, Weights
from spade.transport import Client, Server, serve
from tests.bench.engine_peers import torch_engine
from tests.bench.harness import clocked, columns, command, conclude
from tests.peers import connected, supervised

TOKENS = 200  # of a running sequence
SHAPES = {1: (128, 3, 384), 10: (320, 8, 1_024), 100: (768, 11, 3_072), 850: (1_536, 24, 6_144)}
"""Millions of parameters to width, layers and width of the feed-forward part."""


def model(millions: int) -> Qwen3ForCausalLM:
    """A random model with the nano tokenizer's vocabulary; it hardly ever ends a sequence by itself."""
    width, layers, inner = SHAPES[millions]
    shape = Qwen3Config(
        vocab_size=8_192, hidden_size=width, intermediate_size=inner, num_hidden_layers=layers,
        num_attention_heads=width // 64, num_key_value_heads=max(width // 256, 1), head_dim=64,
        max_position_embeddings=512, tie_word_embeddings=True, eos_token_id=0,
    )  # fmt: skip
    made = Qwen3ForCausalLM(shape).eval()
    made.generation_config = GenerationConfig(eos_token_id=0, pad_token_id=0)
    return made


@torch.no_grad()
def publish_two(millions: int, root: Path) -> tuple[list[Weights], int]:
    """Two sets of weights of one model, all tensors different, and their bytes."""
    torch.manual_seed(0)
    made, published = model(millions), []
    for version in (1, 2):
        for parameter in made.parameters():
            parameter.add_(0.01 * torch.randn(parameter.shape))
        named, folder = learner.publish(made, "float32", NANO, root)
        published.append(Weights(version, version - 1, named, str(folder)))
    return published, (Path(published[0].path) / "model.safetensors").stat().st_size


class Copy:
    """One copy of so many bytes in memory, from one buffer to another."""

    def __init__(self, size: int) -> None:
        self._from, self._to = torch.randn(size // 4), torch.zeros(size // 4)

    def ms(self) -> float:
        began = time.perf_counter()
        self._to.copy_(self._from)
        return 1e3 * (time.perf_counter() - began)


# ---------------------------------------------------------------- a real engine process


class Load:
    """Sequences that are always running; what came of them."""

    def __init__(self, engine: Client) -> None:
        self._engine = engine
        self.ended = self.lost = self.mixed = 0

    async def keep_running(self, seed: int) -> None:
        while True:
            seed += 1_000
            answer = await self._engine.call(Generate(pack_ids([5, 6, 7]), TOKENS, 1.0, seed))
            whole = isinstance(answer, Generated) and (answer.finish == "stop" or len(answer.ids) == 4 * TOKENS)
            self.ended += 1
            self.lost += not whole
            self.mixed += isinstance(answer, Generated) and len(answer.versions) > 1


class Reports:
    """The little that an engine asks of a replay service: when it said that it serves which version."""

    def __init__(self) -> None:
        self._at: dict[int, float] = {}
        self._told = trio.Event()

    async def when(self, version: int) -> float:
        """When it said so; it may do so after the first token has been here."""
        while version not in self._at:
            await self._told.wait()
        return self._at[version]

    async def take(self, server: Server) -> None:
        while True:
            incoming = await server.receive()
            if isinstance(incoming.message, Serving):
                self._at[incoming.message.version] = time.perf_counter()
                told, self._told = self._told, trio.Event()
                told.set()
                await server.reply(incoming, Done())


async def swap(engine: Client, replay: Server, reports: Reports, weights: Weights) -> tuple[float, float]:
    """Announce; ms until the engine samples from the new weights, and until one of their tokens is here."""
    began = time.perf_counter()
    for peer in list(replay.peers):
        await replay.push(peer, weights)
    while True:
        answer = await engine.call(Generate(pack_ids([5, 6, 7]), 1, 1.0, 1))
        if isinstance(answer, Generated) and answer.versions[0][0] == weights.version:
            came = time.perf_counter()
            return 1e3 * (await reports.when(weights.version) - began), 1e3 * (came - began)


async def over_the_bus(
    config: Config, root: Path, published: list[Weights], copy: Copy, rounds: int, running: int
) -> dict[str, float]:
    newest = published[0]
    said, swaps, copies, probes = Reports(), [], [], []
    async with (
        serve(
            f"ipc://{root}/replay", digest=compute_digest(config), bus=config.bus, ready=lambda _: Ready((), newest),
            pulse=lambda: Pulse((), newest),
        ) as replay,
        trio.open_nursery() as nursery,
    ):  # fmt: skip
        nursery.start_soon(said.take, replay)
        async with (
            supervised(root, config, "engine"),
            connected(f"ipc://{root}/engine", config, "agent") as engine,
            trio.open_nursery() as callers,
        ):
            load = Load(engine)
            for seed in range(running):
                callers.start_soon(load.keep_running, seed)
            for version, weights in zip(range(3, 3 + rounds), cycle(reversed(published)), strict=False):
                with clocked(probes):
                    await engine.call(Generate(pack_ids([5, 6, 7]), 1, 1.0, 1))
                newest = Weights(version, version - 1, weights.digest, weights.path)
                swaps.append(await swap(engine, replay, said, newest))
                copies.append(copy.ms())
            while load.ended < running:  # those that saw a swap have all come back
                await engine.call(Generate(pack_ids([5, 6, 7]), 1, 1.0, 1))
            callers.cancel_scope.cancel()
        nursery.cancel_scope.cancel()
    copied = median(copies)
    return {
        "in_use_ms": median(used for used, _ in swaps), "caller_ms": median(back for _, back in swaps),
        "probe_ms": median(probes), "copy_ms": copied, "target_ms": 3 * copied + 20,
        "sequences": load.ended, "lost": load.lost, "over_a_swap": load.mixed,
    }  # fmt: skip


# ---------------------------------------------------------------- inside an engine


def inside(published: list[Weights], rounds: int, running: int) -> dict[str, float]:
    """Waits of running sequences between two tokens, ms: without a swap, and with one, by its parts."""
    engine = torch_engine(published[0], running, context=512)
    steps, loads, canaries, stalls = [], [], [], []
    for version, weights in zip(range(3, 3 + rounds), cycle(reversed(published)), strict=False):
        while engine.active < running:
            engine.submit(engine.sampled, Generate(pack_ids([5, 6, 7]), TOKENS, 1.0, engine.sampled))
            engine.step()
        for _ in range(5):
            with clocked(steps):
                engine.step()
        with clocked(stalls):
            with clocked(loads):
                engine.load_weights(Weights(version, 0, weights.digest, weights.path))
            with clocked(canaries):
                expected = canary.read(Path(weights.path))
                compare(engine, weights, expected, 1e-3)
            engine.step()
    return {
        "step_ms": median(steps), "load_ms": median(loads), "canary_ms": median(canaries),
        "stall_ms": median(stalls) - median(steps),
    }  # fmt: skip


def table(results: dict[str, dict[str, float]]) -> str:
    rows = {
        "in use": "in_use_ms", "first token": "first_token_ms", "target: 3 copies + 20 ms": "target_ms",
        "one copy": "copy_ms", "at a caller": "caller_ms", "a request without a swap": "probe_ms",
        "stall": "stall_ms", "of it, mapping and copying": "load_ms",
        "of it, the canary": "canary_ms", "a decode step": "step_ms",
    }  # fmt: skip
    counts = {row.replace("_", " "): (row, "") for row in ("sequences", "over_a_swap", "lost")}
    return columns(results, {label: (key, ".1f") for label, key in rows.items()} | counts, wide=12)


def main() -> None:
    parser = command(__doc__, rounds=9, running=8, out=None)
    parser.add_argument("--parameters", type=int, nargs="+", default=[1, 100], choices=SHAPES)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    results = {}
    for millions in arguments.parameters:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            published, size = publish_two(millions, root / "weights")
            config = load("nano", (
                f"engine.rows={4 * (arguments.running + 1)}", "engine.context_tokens=512", "design.max_tokens=256",
                f"model.path={NANO}", "engine.request_deadline_s=600", "bus.call_deadline_s=600",
            ))  # fmt: skip
            rounds, running = arguments.rounds, arguments.running
            found = trio.run(over_the_bus, config, root, published, Copy(size), rounds, running)
            found |= inside(published, rounds, running)
            results[f"{size / 1e6:.0f} MB"] = found | {"first_token_ms": found["in_use_ms"] + found["step_ms"]}
    conclude(arguments.out, results, table(results))


if __name__ == "__main__":
    main()
