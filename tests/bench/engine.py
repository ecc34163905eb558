"""The torch engine on the nano model: tokens a second, many turns, and what the process around it costs.

    python -m tests.bench.engine [--rounds 3] [--out engine.json]

The peers, interleaved with ours on the same requests and one thread each: Transformers' `generate` with the better of
two static batches, and vLLM (its CPU build) where it is installed. Requests have uneven lengths (log-normal); ends of
turns are ignored. Rates are per second of CPU time, so that a busy machine is no figure; --out has the wall clock too.
"""

import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import numpy as np
import trio

from actors.engines.torch import TorchEngine
from spade.checkpoints import NANO
from spade.codec import pack_ids, unpack_ids
from spade.config import Config, digest, dump, load
from spade.process import Launch
from spade.protocol import PROTOCOL_VERSION, Generate, Generated, Hello, Pulse, Ready, Weights
from spade.supervise import supervise
from spade.transport import connect, serve

AT_ONCE = {1: 6, 16: 64, 64: 160, 256: 512}
"""Requests at once to how many in all."""
EPISODES, TURNS, OPENING, SEEN, SAID = 16, 8, 100, 24, 24
"""Episodes at once, their turns; tokens of the first prompt, of an observation, of a turn."""
CONTEXT, VOCABULARY = 768, 1_536

Request = tuple[list[int], int]  # prompt, tokens to sample


def requests(count: int) -> list[Request]:
    rng = np.random.default_rng(count)
    lengths = np.clip(rng.lognormal(np.log(48), 1.0, count), 4, 384).astype(int)
    return [(rng.integers(3, VOCABULARY, rng.integers(32, 160)).tolist(), int(length)) for length in lengths]


def endless(folder: Path) -> str:
    """The nano checkpoint, its turns ended by a token that there is not."""
    shutil.copytree(NANO, folder, dirs_exist_ok=True)
    for name, change in (("generation_config.json", {"eos_token_id": VOCABULARY}), ("tokenizer_config.json", {})):
        tree = json.loads((folder / name).read_text()) if (folder / name).is_file() else {}
        tree.pop("eos_token", None)
        (folder / name).write_text(json.dumps(tree | change))
    return str(folder)


class Ours:
    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._engines: dict[int, TorchEngine] = {}

    def run(self, asked: Sequence[Request], at_once: int) -> list[list[int]]:
        """What was sampled, by request."""
        if at_once not in self._engines:
            weights = Weights(1, 0, "", self._folder)
            self._engines[at_once] = TorchEngine(
                weights, rows=at_once, context_tokens=CONTEXT, kv_bytes=1 << 30, dtype="float32", device="cpu"
            )
        engine, said = self._engines[at_once], {}
        for index, (prompt, tokens) in enumerate(asked):
            engine.submit(index, Generate(pack_ids(prompt), tokens, 1.0, index))
        while engine.busy:
            said.update({index: unpack_ids(generated.ids).tolist() for index, generated in engine.step()})
        return [said[index] for index in range(len(asked))]


class Transformers:
    def __init__(self, folder: str, share: int) -> None:
        from transformers import AutoModelForCausalLM

        self._model: Any = AutoModelForCausalLM.from_pretrained(folder).eval()
        self._share = share

    def run(self, asked: Sequence[Request], at_once: int) -> list[list[int]]:
        """Batches in the order of arrival, each as long as its longest."""
        import torch

        size, said = max(at_once // self._share, 1), []
        for first in range(0, len(asked), size):
            batch = asked[first : first + size]
            width = max(len(prompt) for prompt, _ in batch)
            ids = torch.tensor([[0] * (width - len(prompt)) + prompt for prompt, _ in batch])
            mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt, _ in batch])
            longest = max(tokens for _, tokens in batch)
            with torch.inference_mode():
                whole = self._model.generate(
                    ids, attention_mask=mask, max_new_tokens=longest, do_sample=True, top_k=0, pad_token_id=0
                )
            said += [row[width : width + tokens].tolist() for row, (_, tokens) in zip(whole, batch, strict=True)]
        return said


class Vllm:
    """In a process of its own, which measures itself; one line of JSON a job."""

    def __init__(self, folder: str, stack: ExitStack) -> None:
        environment = os.environ | {
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_KVCACHE_SPACE": "1", "TORCHDYNAMO_DISABLE": "1",
            "VLLM_LOGGING_LEVEL": "ERROR", "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        }  # fmt: skip
        command = [sys.executable, "-m", "tests.bench.engine", "--part", "vllm", folder]
        self._child = stack.enter_context(
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        )
        stack.callback(self._child.terminate)

    def job(self, asked: Sequence[Request], at_once: int) -> tuple[list[list[int]], float, float]:
        """What was sampled, seconds of CPU time and on the wall."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        print(json.dumps([asked, at_once]), file=self._child.stdin, flush=True)
        for line in self._child.stdout:
            if line.startswith("["):
                said, cpu_s, wall_s = json.loads(line)
                return said, cpu_s, wall_s
        raise SystemExit("vLLM died")


def serve_vllm(folder: str) -> None:
    """The child: keep so many requests in flight, answer each job."""
    from vllm import LLM, SamplingParams

    llm = LLM(
        folder, dtype="float32", enforce_eager=True, max_model_len=CONTEXT, max_num_seqs=256, skip_tokenizer_init=True,
        enable_prefix_caching=True, logprobs_mode="processed_logprobs",
    )  # fmt: skip
    engine, numbers = llm.llm_engine, iter(range(1 << 62))

    def run(asked: Sequence[Request], at_once: int) -> list[list[int]]:
        said: dict[str, list[int]] = {}
        names, waiting = [], list(reversed(asked))
        while waiting or engine.has_unfinished_requests():
            while waiting and len(names) - len(said) < at_once:
                prompt, tokens = waiting.pop()
                names.append(str(next(numbers)))
                params = SamplingParams(max_tokens=tokens, ignore_eos=True, logprobs=0, detokenize=False)
                engine.add_request(names[-1], {"prompt_token_ids": prompt}, params)
            for output in engine.step():
                if output.finished:
                    said[output.request_id.split("-")[0]] = list(output.outputs[0].token_ids)
        return [said[name] for name in names]

    for line in sys.stdin:
        print(json.dumps(clocked(run, *json.loads(line))), flush=True)


def clocked(run: Callable[..., list[list[int]]], *words: Any) -> tuple[list[list[int]], float, float]:
    """What `run` returns, seconds of this process's CPU time and on the wall."""
    cpu, wall = time.process_time(), time.perf_counter()
    return run(*words), time.process_time() - cpu, time.perf_counter() - wall


Job = Callable[[Sequence[Request], int], tuple[list[list[int]], float, float]]


@contextmanager
def peers(folder: str) -> Iterator[dict[str, Job]]:
    """Ours first."""
    import torch

    torch.set_num_threads(1)
    with ExitStack() as stack:
        ours, whole, quarter = Ours(folder), Transformers(folder, 1), Transformers(folder, 4)
        found: dict[str, Job] = {
            "torch engine": lambda *words: clocked(ours.run, *words),
            "generate": lambda *words: clocked(whole.run, *words),
            "generate, quarter batch": lambda *words: clocked(quarter.run, *words),
        }
        if importlib.util.find_spec("vllm"):
            found["vLLM"] = Vllm(folder, stack).job
        yield found


def uneven(jobs: dict[str, Job], at_once: int, rounds: int) -> dict[str, dict[str, float]]:
    """Sampled tokens a second."""
    asked = requests(AT_ONCE[at_once])
    total = sum(tokens for _, tokens in asked)
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in jobs}
    for turn in range(rounds + 1):
        for name, job in jobs.items():
            said, cpu_s, wall_s = job(asked if turn else asked[:at_once], at_once)
            assert [len(ids) for ids in said] == [tokens for _, tokens in asked[: len(said)]]
            if turn:  # the first is for warming up
                taken[name].append((total / cpu_s, total / wall_s))
    return {
        name: {"cpu": median(c for c, _ in rates), "wall": median(w for _, w in rates)} for name, rates in taken.items()
    }


def conversations(jobs: dict[str, Job], rounds: int) -> dict[str, list[float]]:
    """Milliseconds of CPU time for each token sampled, turn by turn."""
    taken: dict[str, list[list[float]]] = {name: [] for name in jobs}
    for index in range(rounds):
        for name, job in jobs.items():
            rng = np.random.default_rng(index)
            contexts = [rng.integers(3, VOCABULARY, OPENING).tolist() for _ in range(EPISODES)]
            spent = []
            for _ in range(TURNS):
                said, cpu_s, _ = job([(context, SAID) for context in contexts], EPISODES)
                spent.append(1000 * cpu_s / (EPISODES * SAID))
                for context, ids in zip(contexts, said, strict=True):
                    context += ids + rng.integers(3, VOCABULARY, SEEN).tolist()
            taken[name].append(spent)
    return {name: [median(turn) for turn in zip(*spent, strict=True)] for name, spent in taken.items()}


# ---------------------------------------------------------------- the process shell


def settings() -> Config:
    return load("nano", ("engine.rows=4", "engine.device=cpu"))


async def shell(folder: str, rounds: int) -> dict[str, float]:
    """Milliseconds of one request over the bus and back, and of the same in this process, alternately."""
    config, weights = settings(), Weights(1, 0, "", folder)
    request = Generate(pack_ids(list(range(3, 20))), 4, 1.0, 1)
    engine = TorchEngine(weights, rows=4, context_tokens=CONTEXT, kv_bytes=1 << 28, dtype="float32", device="cpu")
    with tempfile.TemporaryDirectory() as run:
        (Path(run) / "config.toml").write_text(dump(config))
        replay, address = f"ipc://{run}/replay", f"ipc://{run}/engine"
        launch = Launch("engine-0", "engine", f"{run}/config.toml", run, replay, address)
        hello = Hello(PROTOCOL_VERSION, digest(config), "agent", "agent-0", os.getpid())
        known = {"ready": lambda _: Ready("", (), weights), "pulse": lambda: Pulse((), weights)}
        async with (
            serve(replay, digest=digest(config), bus=config.bus, **known),
            supervise(config.supervise, Path(run) / "logs") as supervisor,
        ):
            await supervisor.add(launch)
            async with connect(address, hello, bus=config.bus) as client:
                over, alone = [], []
                for _ in range(rounds):
                    began = time.perf_counter()
                    assert isinstance(await client.call(request), Generated)
                    over.append(1000 * (time.perf_counter() - began))
                    began = time.perf_counter()
                    engine.submit(1, request)
                    while engine.busy:
                        engine.step()
                    alone.append(1000 * (time.perf_counter() - began))
    return {
        "over the bus p50 ms": median(over), "model alone p50 ms": median(alone), "over p10 ms": quantiles(over)[0],
        "alone p10 ms": quantiles(alone)[0],
    }  # fmt: skip


def report(figures: dict[str, Any]) -> None:
    """The tables."""
    for at_once, row in figures["uneven lengths, tokens/s"].items():
        ours = row["torch engine"]["cpu"]
        best = max(rate["cpu"] for name, rate in row.items() if name.startswith("generate"))
        vllm = f"{row['vLLM']['cpu']:7.0f}  x{ours / row['vLLM']['cpu']:.1f}" if "vLLM" in row else "not installed"
        print(f"{at_once:>4} at once: {ours:7.0f} tokens/s; generate {best:7.0f}  x{ours / best:.1f}; vLLM {vllm}")
    for name, turns in figures["eight turns, ms/token"].items():
        print(f"{name:<24}", *(f"{ms:6.2f}" for ms in turns), "ms/token, turn by turn")
    print(*(f"{name} {value:.2f}" for name, value in figures["shell"].items()), sep="; ")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--at-once", type=int, nargs="*", default=list(AT_ONCE), choices=list(AT_ONCE))
    parser.add_argument("--out", type=Path, default=Path("engine.json"))
    parser.add_argument("--part", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.part:
        serve_vllm(arguments.part[1])
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = endless(Path(temporary))
        with peers(folder) as jobs:
            figures = {
                "uneven lengths, tokens/s": {n: uneven(jobs, n, arguments.rounds) for n in arguments.at_once},
                "eight turns, ms/token": conversations(jobs, arguments.rounds),
            }
        figures["shell"] = trio.run(shell, folder, 100 * arguments.rounds)
    arguments.out.write_text(json.dumps(figures, indent=2) + "\n")
    report(figures)


if __name__ == "__main__":
    main()
