"""The memory that engines and learner of a run take, estimated without torch from the files of the checkpoint.

The figures estimate the peak of each process. They leave out:

* Python with its libraries: 0.4 GiB for an engine or learner, 0.1 GiB for any other process, 0.2 GiB with a library of
  environments
* programs in their sandboxes, and the first seconds of an engine
* memory that an allocator holds beyond its tensors, and vLLM's own working memory
* the state that `learner.offload` moves to the machine's memory
"""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from safetensors import SafetensorError, safe_open

from spade.config import Config
from spade.decoding import UnreadableError, make_printable, try_decode
from spade.disk import read
from spade.errors import RunError, format_reason
from spade.policy.parameter_files import list_parameter_files

GIB = 1 << 30
_BYTES = {"float64": 8, "float32": 4, "bfloat16": 2}
_LOGITS = 1 << 26  # elements of logits that the learner computes at once, as in learner/logprobs.py
_LOGITS_COPIES = 3  # logits, log-probabilities, and one of the two in the number format of the loss


class _Shape(msgspec.Struct):
    """The sizes that a `config.json` states."""

    num_hidden_layers: int | None = None
    hidden_size: int | None = None
    intermediate_size: int | None = None
    num_attention_heads: int | None = None
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    vocab_size: int | None = None


class _SizedFile(_Shape):
    text_config: _Shape | None = None


_files: msgspec.json.Decoder[_SizedFile] = msgspec.json.Decoder(_SizedFile)


class ModelSizes(NamedTuple):
    """The sizes of a model that decide its memory."""

    parameters: int
    adapter_units: int
    """Inputs and outputs of all matrices of its layers: the parameters of an adapter of rank 1."""
    layers: int
    hidden: int
    inner: int
    """Width of a layer's feed-forward part."""
    heads: int
    kv_heads: int
    head: int
    """Width of a head."""
    vocabulary: int

    def kv_bytes(self, width: int) -> int:
        """Return the bytes of the keys and values of one token, at `width` bytes a number."""
        return 2 * self.layers * self.kv_heads * self.head * width


class ProcessMemory(NamedTuple):
    """Bytes that one process takes at its peak."""

    process: str
    parts: dict[str, int]

    @property
    def total(self) -> int:
        return sum(self.parts.values())


def read_sizes(folder: Path) -> ModelSizes:
    """Read the sizes of a checkpoint from its `config.json` and the headers of its parameters.

    Raises RunError if a size is missing.
    """
    file = folder / "config.json"
    try:
        whole = try_decode(_files.decode, read(file))
    except (OSError, UnreadableError) as error:
        raise RunError(f"{file}: {format_reason(error)}; a checkpoint folder needs this file") from None
    shape = whole.text_config or whole
    numbers = shape.num_hidden_layers, shape.hidden_size, shape.num_attention_heads, shape.vocab_size
    if not all(each is not None and each > 0 for each in numbers):
        raise RunError(f"{file}: does not state layers, hidden size, heads and vocabulary under the usual names")
    layers, hidden, heads, vocabulary = (each or 1 for each in numbers)
    parameters, units = _count(folder)
    return ModelSizes(
        parameters, units, layers, hidden, shape.intermediate_size or 4 * hidden, heads,
        shape.num_key_value_heads or heads, shape.head_dim or hidden // heads, vocabulary,
    )  # fmt: skip


def _count(folder: Path) -> tuple[int, int]:
    """Count the parameters of a checkpoint, and the inputs and outputs of its layers' matrices."""
    parameters = units = 0
    for file in list_parameter_files(folder):
        try:
            with safe_open(file, framework="numpy") as opened:
                for name in opened.keys():  # noqa: SIM118
                    shape = opened.get_slice(name).get_shape()
                    parameters += math.prod(shape)
                    units += sum(shape) if len(shape) == 2 and ".layers." in name else 0
        except (OSError, SafetensorError) as error:
            raise RunError(f"{file}: {make_printable(error)}; give a whole checkpoint") from None
    return parameters, units


def estimate(config: Config, sizes: ModelSizes) -> list[ProcessMemory]:
    """Estimate the peak of each engine and of each process of the learner."""
    engine = _estimate_engine(config, sizes)
    engines = [ProcessMemory(f"engine-{number}", engine) for number in range(config.actors.engines_bounds[1])]
    names = ["learner", *(f"learner-{rank}" for rank in range(1, config.learner.processes))]
    learner = _estimate_learner(config, sizes)
    return [*engines, *(ProcessMemory(name, learner) for name in names)]


def _estimate_engine(config: Config, sizes: ModelSizes) -> dict[str, int]:
    engine = config.engine
    width = _BYTES[config.model.dtype if engine.arithmetic == "model" else engine.arithmetic]
    resting = 2 if engine.kind == "torch" else 1  # the torch engine keeps idle sequences, too: one for each row
    tokens = resting * engine.rows * engine.context_tokens
    shards = engine.tensor_parallel
    return {
        "weights": sizes.parameters * width // shards,
        "keys and values": min(engine.kv_bytes, tokens * sizes.kv_bytes(width) // shards),
        "logits": _LOGITS_COPIES * engine.rows * sizes.vocabulary * _BYTES["float32"],
    }


def _estimate_learner(config: Config, sizes: ModelSizes) -> dict[str, int]:
    learner, count = config.learner, sizes.parameters
    sharded = learner.backend == "deepspeed"
    ranks, stage = (learner.processes, learner.zero_stage) if sharded else (1, 0)
    low = config.model.dtype == "bfloat16"
    adapter = learner.lora_rank * sizes.adapter_units
    trained = adapter or count
    weights = (2 if low and stage else 4) * count // (ranks if stage == 3 else 1)
    gradients = 4 * trained // (ranks if stage >= 2 else 1)
    moments = (12 if low and stage else 8) * trained // (ranks if stage else 1)
    parts = {"weights": weights, "gradients": gradients, "optimiser": moments}
    if adapter:
        parts["adapter"] = 4 * adapter
    if config.loss.kl:
        parts["reference"] = _BYTES[config.model.dtype] * count
    if low and not stage and learner.device != "cpu":  # a CPU keeps no such copy
        parts["weights in bfloat16"] = 2 * count
    if learner.offload != "none":
        parts.pop("optimiser")
    if learner.offload == "all":
        parts.pop("weights")
    return parts | _estimate_passes(config, sizes)


def _estimate_passes(config: Config, sizes: ModelSizes) -> dict[str, int]:
    """Estimate the memory that a pass over the largest micro-batch keeps for its gradient."""
    designs = config.design.source == "model" and config.design.train and not config.endpoint.serves("designer")
    # A trajectory that is longer than `microbatch_tokens` is a micro-batch of its own.
    longest = config.engine.context_tokens if designs else config.play.context_tokens
    tokens = max(config.learner.microbatch_tokens, longest)
    layer, width = _count_layer_bytes(sizes, config.model.dtype == "bfloat16"), _BYTES[config.model.dtype]
    if config.learner.activation_checkpointing:
        activations = tokens * (sizes.layers * sizes.hidden * width + layer)
    else:
        activations = tokens * sizes.layers * layer
    logits = min(tokens * sizes.vocabulary, max(_LOGITS, sizes.vocabulary))
    return {"activations": activations, "logits": _LOGITS_COPIES * 4 * logits}


def _count_layer_bytes(sizes: ModelSizes, low: bool) -> int:
    """Return the bytes of activations that a layer keeps for the gradient of one token.

    It keeps the inputs of norms and of matrix products, and the attention. Norms and the residual sum are in float32.
    All others are in the model's number format.
    """
    width = 2 if low else 4
    norms = 2 * (4 + 4) * sizes.hidden + width * 2 * sizes.hidden
    queries, keys = sizes.heads * sizes.head, sizes.kv_heads * sizes.head
    attention = width * (5 * queries + 6 * keys)
    return norms + attention + width * 4 * sizes.inner


def format_memory_lines(found: Sequence[ProcessMemory], places: Sequence[str]) -> Iterator[str]:
    """Yield a line for each process, then a line with their sum. `places` describes the memory of the machine and of
    its GPUs."""
    for process, parts in found:
        each = ", ".join(f"{name} {size / GIB:.2f}" for name, size in parts.items() if size >= GIB / 200)
        yield f"  {process}: {sum(parts.values()) / GIB:.1f} GiB ({each})"
    yield (
        f"  together {sum(each.total for each in found) / GIB:.1f} GiB, and about 0.4 GiB for Python and libraries in "
        f"each; there are {', '.join(places)}"
    )
