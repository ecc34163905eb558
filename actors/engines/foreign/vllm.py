"""vLLM behind our interface: its asynchronous engine with its own scheduler, cache and workers, on GPUs or a CPU.

Token ids go in and out. Log-probabilities belong to the distribution from which the tokens were sampled. For new
weights, generation pauses while every worker reads their folder. Sequences in flight keep their keys and continue.
"""

import asyncio
import itertools
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig

from actors.engines.base import Results, explain_misfit
from actors.engines.foreign.asyncio_engine import AsyncioEngine
from spade.codec import pack_floats, pack_ids, unpack_ids
from spade.config import Engine as Settings
from spade.errors import BusError, ConfigError
from spade.extras import require
from spade.policy import manifest
from spade.protocol import Generate, Generated, Refused, Weights
from spade.tokens import Tokenizer

_WORKER = "actors.engines.foreign.vllm_worker.Reloader"
_BLOCK = 128  # tokens in vLLM's largest blocks of keys; it chooses 16 to 128
# The share of the GPU's memory that must be free when vLLM starts. It is small, because the learner may use the same
# GPU. `engine.kv_bytes` sets the memory that vLLM takes.
_ANY = 0.01
_DEAD = "vLLM's own processes have died; the lines above in this engine's log say why"
_PARTING_S = 1.0  # vLLM's processes need no more time to end: they hold no state that matters


class VllmEngine(AsyncioEngine):
    """See `base.Engine`. A request waits here for its row, so vLLM never receives more than it samples at once."""

    def __init__(self, weights: Weights, settings: Settings, dtype: str) -> None:
        """Load `weights`. An empty digest is not checked.

        Raises WeightsError if the folder holds other weights, ConfigError if the model cannot run here.
        """
        require("vllm")
        _prepare(settings)
        super().__init__(settings.rows)
        self.version = weights.version
        self._context = settings.context_tokens
        self._end_ids = Tokenizer.load(Path(weights.path)).end_ids
        if weights.digest:
            manifest.read(Path(weights.path), weights.digest)
        self._digest = weights.digest
        self._swapping = asyncio.Lock()
        self._names = itertools.count()
        try:
            self._llm: Any = self.wait_for(_start(weights, settings, dtype))
            self.wait_for(self._llm.update_weight_version(str(weights.version)))
        except BaseException:
            super().close()
            raise
        self._vocabulary: int = self._llm.model_config.get_vocab_size()

    def refusal(self, request: Generate) -> str | None:
        return explain_misfit(request, self._context, self._vocabulary)

    def step(self) -> Results:
        if self._llm.errored:  # a request that was sent just before vLLM died is never answered
            raise BusError(_DEAD)
        return super().step()

    def load_weights(self, weights: Weights) -> None:
        if weights.digest != self._digest:
            manifest.read(Path(weights.path), weights.digest)
        self.wait_for(self._swap(weights))

    def logprobs(self, ids: Sequence[int]) -> list[float]:
        return self.wait_for(self._score(list(ids)))

    def close(self) -> None:
        self._llm.shutdown(timeout=_PARTING_S)
        del self._llm  # detach it, because its __del__ fails while the interpreter shuts down
        super().close()

    async def generate(self, request: Generate) -> Generated | Refused:
        from vllm.exceptions import VLLMClientError

        async with self._swapping:
            # vLLM shares keys among requests with the same salt. The salt is the digest of the weights, so keys that
            # older weights computed are never shared.
            salt = self._digest
        prompt = {"prompt_token_ids": unpack_ids(request.prompt).tolist(), "cache_salt": salt or "unpublished"}
        last: Any = None
        try:
            with _check_alive():
                async for output in self._llm.generate(
                    prompt, self._make_sampling_params(request), str(next(self._names))
                ):
                    last = output.outputs[0]
        except VLLMClientError as error:  # this error concerns only this request
            return Refused(f"vLLM refuses the request: {error}")
        if last.finish_reason not in ("stop", "length"):
            return Refused(f"vLLM gave the request up ({last.finish_reason})")
        ids = list(last.token_ids)
        return Generated(
            pack_ids(ids),
            pack_floats([chosen[id].logprob for id, chosen in zip(ids, last.logprobs, strict=True)]),
            tuple((int(span.version), span.end - span.start) for span in last.weight_versions),
            last.finish_reason,
        )

    def _make_sampling_params(self, request: Generate) -> Any:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        return SamplingParams(
            max_tokens=request.max_tokens,
            temperature=request.temperature,
            seed=request.seed,
            logprobs=0,  # the log-probability of the sampled token alone
            stop_token_ids=sorted(self._end_ids),
            ignore_eos=True,  # vLLM's own end-of-sequence rule is off: `stop_token_ids` ends sequences
            top_p=request.top_p,
            top_k=request.top_k,
            stop=list(request.stop),
            include_stop_str_in_output=True,
            skip_special_tokens=False,
            detokenize=bool(request.stop),
            output_kind=RequestOutputKind.FINAL_ONLY,
        )

    async def _score(self, ids: list[int]) -> list[float]:
        from vllm import SamplingParams

        name = f"score-{next(self._names)}"
        # a unique salt, so that no other request shares these keys
        prompt = {"prompt_token_ids": ids, "cache_salt": name}
        last: Any = None
        sampling = SamplingParams(max_tokens=1, temperature=1.0, prompt_logprobs=0, detokenize=False)
        with _check_alive():
            async for output in self._llm.generate(prompt, sampling, name):
                last = output
        return [chosen[id].logprob for id, chosen in zip(ids[1:], last.prompt_logprobs[1:], strict=True)]

    async def _swap(self, weights: Weights) -> None:
        async with self._swapping:
            with _check_alive():
                await self._llm.pause_generation(mode="keep", clear_cache=False)
                if weights.digest != self._digest:
                    await self._llm.collective_rpc("reload", args=(weights.path,))
                await self._llm.update_weight_version(str(weights.version))
                await self._llm.resume_generation()
            self._digest, self.version = weights.digest, weights.version


@contextmanager
def _check_alive() -> Iterator[None]:
    """Raise BusError if vLLM's processes have died. vLLM itself logs the cause."""
    from vllm.v1.engine.exceptions import EngineDeadError

    try:
        yield
    except EngineDeadError:
        raise BusError(_DEAD) from None


async def _start(weights: Weights, settings: Settings, dtype: str) -> Any:
    from vllm import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    gpu = torch.cuda.is_available()
    arguments = AsyncEngineArgs(
        model=weights.path,
        dtype=dtype,
        max_model_len=settings.context_tokens,
        max_num_seqs=settings.rows,
        tensor_parallel_size=settings.tensor_parallel,
        kv_cache_memory_bytes=min(settings.kv_bytes, _compute_most_bytes(Path(weights.path), settings, dtype)),
        gpu_memory_utilization=_ANY,
        enforce_eager=not gpu,
        enable_prefix_caching=True,
        # vLLM resets random generators after each piece of a prompt, which crashes on a CPU.
        enable_chunked_prefill=gpu,
        max_num_batched_tokens=None if gpu else settings.context_tokens,
        logprobs_mode="processed_logprobs",  # with the temperature, unlike vLLM's default
        generation_config="vllm",  # ignore the checkpoint's sampling settings
        worker_extension_cls=_WORKER,
        disable_log_stats=True,
        use_tqdm_on_load=False,
    )
    try:
        # Do not bind the engine to a name here: vLLM keeps the stack frames of its start alive, with all variables.
        return AsyncLLM.from_engine_args(arguments)
    except ValueError as error:  # raised for bad arguments: a context too long, an unknown model
        raise ConfigError(f"engine.kind: vLLM refuses {weights.path}: {' '.join(str(error).split())}") from None


def _compute_most_bytes(folder: Path, settings: Settings, dtype: str) -> int:
    """Return the bytes of keys and values that all rows need at full context. vLLM allocates them at the start."""
    text = AutoConfig.from_pretrained(folder, trust_remote_code=False).get_text_config()
    heads = getattr(text, "num_key_value_heads", text.num_attention_heads)
    head = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    token = 2 * text.num_hidden_layers * heads * head * getattr(torch, dtype).itemsize
    blocks = -(-settings.context_tokens // _BLOCK) + 1
    most: int = token * _BLOCK * (settings.rows * blocks + 1)
    return most


def _prepare(settings: Settings) -> None:
    """Set options that vLLM reads only from the environment. Its processes inherit them."""
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    # vLLM warns at every reload about the rotary embedding, which has no weights, and about the head (`vllm_worker`).
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    # Forking a process with threads may hang.
    os.environ["VLLM_WORKER_MULTIPROC_METHOD"] = "spawn"
    if not torch.cuda.is_available():
        os.environ["TORCHDYNAMO_DISABLE"] = "1"
        if settings.threads:
            os.environ["OMP_NUM_THREADS"] = str(settings.threads)
            os.environ["VLLM_CPU_OMP_THREADS_BIND"] = "nobind"
