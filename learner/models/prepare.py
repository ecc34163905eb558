"""Check and set up a model before training: its head, its attention in packed rows, activation checkpointing."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers.modeling_layers import GradientCheckpointingLayer

from learner.logprobs import check_head
from learner.models.attention import PACKED, Segments
from learner.prefixes import Counts, join_layout
from spade.errors import RunError
from spade.policy.architecture import check_trained, has_plain_layers, has_sliding_window
from spade.policy.canary import spread_ids
from spade.policy.rounding import is_alike

_LENGTHS, _SHARED = (7, 5), 3  # lengths of the two sequences of the probe, and of their shared beginning


def shares_beginnings(*models: Any) -> bool:
    """Return True if all these models can compute packed rows that contain a shared beginning only once.

    `prepare_model` must have prepared each model. Ignores None.
    """
    return all(model is None or model.config._attn_implementation == PACKED for model in models)


def prepare_model(model: Any, activation_checkpointing: bool) -> None:
    """Make a Hugging Face causal language model ready for `compute_trained_logprobs`, in evaluation mode (no dropout).

    Raises RunError if its logits are not its head's output, or if packed sequences see each other.
    """
    model.eval()
    check_trained(model)
    check_head(model)
    _pack_attention(model)
    if activation_checkpointing:
        _checkpoint_activations(model)


@torch.no_grad()
def _pack_attention(model: Any) -> None:
    """Use `compute_packed_attention` if it agrees with the model's own attention, also after a shared beginning.

    Otherwise keep the model's own attention if it separates packed sequences. Raises RunError if neither works.
    """
    own, text = model.config._attn_implementation, model.config.get_text_config()
    sequences, unshared = _make_probe(model), np.zeros(len(_LENGTHS), np.int64)
    expected = torch.cat([_compute_hidden(model, [sequence], unshared[:1]) for sequence in sequences])
    kinds = {PACKED: np.array([0, _SHARED]), own: unshared} if has_plain_layers(model) else {own: unshared}
    for kind, shared in kinds.items():
        model.set_attn_implementation(kind)
        windows: set[int | None] = set()
        # The probe is shorter than most windows. So also check that a model with a window passes it to our attention.
        exempt = kind == own or not has_sliding_window(text)
        if is_alike(_compute_hidden(model, sequences, shared, windows), expected) and (exempt or windows != {None}):
            return
    raise RunError(
        f"model.path: {model.config.model_type} mixes sequences that are packed into one row, "
        "so the learner cannot train it; use a model whose attention follows position_ids"
    )


def _make_probe(model: Any) -> list[NDArray[np.int32]]:
    """Return two sequences with a shared beginning and different tokens after it."""
    ids = np.array(spread_ids(model, sum(_LENGTHS)), np.int32)
    return [ids[: _LENGTHS[0]], np.append(ids[:_SHARED], ids[_LENGTHS[0] + _SHARED :])]


def _compute_hidden(
    model: Any, sequences: list[NDArray[np.int32]], shared: Counts, windows: set[int | None] | None = None
) -> Tensor:
    """Return the last hidden states (tokens, width) of all tokens of the sequences, packed into one row.

    `shared`: see `join_layout`. `windows` receives the sliding windows that the model passes to our attention.
    """
    layout = join_layout(sequences, shared)
    ids, positions, places = (
        torch.from_numpy(each).to(model.device)
        for each in (layout.ids, layout.positions, np.concatenate(layout.places))
    )
    hidden: Tensor = model.base_model(
        input_ids=ids[None], position_ids=positions[None], use_cache=False,
        packed_segments=Segments(layout.lengths, layout.parents), packed_windows=windows,
    ).last_hidden_state  # fmt: skip
    return hidden[0, places]


def _checkpoint_activations(model: Any) -> None:
    """Keep only the input of each layer and recompute the rest in the backward pass.

    Transformers does so only in training mode. This sets training mode on the layers but not on their submodules, so
    dropout stays off.
    """
    model.gradient_checkpointing_enable({"use_reentrant": False, "preserve_rng_state": False})
    for module in model.modules():
        if isinstance(module, GradientCheckpointingLayer):
            module.training = True
