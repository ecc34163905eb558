"""The samplers of `tests.bench.engine`: the torch engine, Transformers' `generate`, vLLM in a process of its own."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from actors.engines.torch.engine import TorchEngine
from spade.codec import pack_ids, unpack_ids
from spade.config import Engine
from spade.policy.model_folder import NANO
from spade.protocol import Generate, Weights

CONTEXT, VOCABULARY = 768, 1_536

Request = tuple[list[int], int]  # prompt, tokens to sample
Job = Callable[[Sequence[Request], int], tuple[list[list[int]], float, float]]


def endless(folder: Path, source: Path = NANO) -> str:
    """The checkpoint of `source`, its turns ended by a token that there is not."""
    shutil.copytree(source, folder, dirs_exist_ok=True)
    end = {"eos_token_id": count_vocabulary(source)}
    for name, change in (("generation_config.json", end), ("tokenizer_config.json", {})):
        tree = json.loads((folder / name).read_text()) if (folder / name).is_file() else {}
        tree.pop("eos_token", None)
        (folder / name).write_text(json.dumps(tree | change))
    return str(folder)


def count_vocabulary(folder: Path) -> int:
    return int(json.loads((folder / "config.json").read_text())["vocab_size"])


def torch_engine(
    weights: Weights,
    rows: int,
    context: int = CONTEXT,
    kv_bytes: int = 1 << 28,
    dtype: str = "float32",
    device: str = "cpu",
) -> TorchEngine:
    """Open an engine that ends no turn: the peers do not know the token that the template writes after an answer."""
    engine = TorchEngine(weights, Engine(rows=rows, context_tokens=context, kv_bytes=kv_bytes, device=device), dtype)
    engine._end_ids = frozenset()
    return engine


class Ours:
    def __init__(self, folder: str, dtype: str) -> None:
        self._folder, self._dtype = folder, dtype
        self._engines: dict[int, TorchEngine] = {}

    def job(self, asked: Sequence[Request], at_once: int) -> tuple[list[list[int]], float, float]:
        """The tokens sampled by an engine of so many rows, seconds of CPU time and on the wall."""
        if at_once not in self._engines:
            weights = Weights(1, 0, "", self._folder)
            self._engines[at_once] = torch_engine(weights, at_once, kv_bytes=1 << 30, dtype=self._dtype)
        return clocked(sample_all, self._engines[at_once], asked)


def sample_all(engine: TorchEngine, asked: Sequence[Request]) -> list[list[int]]:
    """The tokens sampled for each request."""
    said: dict[int, list[int]] = {}
    for index, (prompt, tokens) in enumerate(asked):
        engine.submit(index, Generate(pack_ids(prompt), tokens, 1.0, index))
    while engine.busy:
        said.update({index: unpack_ids(generated.ids).tolist() for index, generated in engine.step()})
    return [said[index] for index in range(len(asked))]


class Transformers:
    def __init__(self, folder: str, share: int, dtype: str) -> None:
        from transformers import AutoModelForCausalLM

        self._model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval()
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

    def __init__(self, folder: str, stack: ExitStack, dtype: str) -> None:
        environment = os.environ | {
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_KVCACHE_SPACE": "1", "TORCHDYNAMO_DISABLE": "1",
            "VLLM_LOGGING_LEVEL": "ERROR", "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        }  # fmt: skip
        command = [sys.executable, "-m", "tests.bench.engine_peers", folder, dtype]
        self._child = stack.enter_context(
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        )
        stack.callback(self._child.terminate)

    def job(self, asked: Sequence[Request], at_once: int) -> tuple[list[list[int]], float, float]:
        """The tokens sampled, seconds of CPU time and on the wall."""
        print(json.dumps([asked, at_once]), file=self._child.stdin, flush=True)
        for line in self._child.stdout:
            if line.startswith("["):
                said, cpu_s, wall_s = json.loads(line)
                return said, cpu_s, wall_s
        raise SystemExit("vLLM died")


def serve_vllm(folder: str, dtype: str) -> None:
    """The child: keep so many requests in flight, answer each job."""
    from vllm import LLM, SamplingParams

    llm = LLM(
        folder, dtype=dtype, enforce_eager=True, max_model_len=CONTEXT, max_num_seqs=256, skip_tokenizer_init=True,
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
    """The result of `run`, seconds of this process's CPU time and on the wall."""
    cpu, wall = time.process_time(), time.perf_counter()
    return run(*words), time.process_time() - cpu, time.perf_counter() - wall


@contextmanager
def peers(folder: str, dtype: str = "float32") -> Iterator[dict[str, Job]]:
    """Ours first."""
    import torch

    torch.set_num_threads(1)
    with ExitStack() as stack:
        ours, whole, quarter = Ours(folder, dtype), Transformers(folder, 1, dtype), Transformers(folder, 4, dtype)
        found: dict[str, Job] = {
            "torch engine": ours.job,
            "generate": lambda *words: clocked(whole.run, *words),
            "generate, quarter batch": lambda *words: clocked(quarter.run, *words),
        }
        if importlib.util.find_spec("vllm"):
            found["vLLM"] = Vllm(folder, stack, dtype).job
        yield found


if __name__ == "__main__":
    serve_vllm(sys.argv[1], sys.argv[2])
