"""Checks and settings of a model before training: a plain head, packed sequences, room for activations."""

from typing import Any

import torch
from torch import Tensor
from transformers.modeling_layers import GradientCheckpointingLayer

from learner.logprobs import check_head
from learner.models.attention import LAYERS, PACKED
from spade.errors import RunError
from spade.policy.architecture import shifts, slides
from spade.policy.canary import spread_ids
from spade.policy.rounding import alike

_PROBE = (7, 5)  # lengths of two sequences that must not see each other


def prepare_model(model: Any, activation_checkpointing: bool) -> None:
    """Make a Hugging Face causal language model ready for `trained_logprobs`, in evaluation mode (no dropout).

    Raises RunError if its logits are not its head's output, or if packed sequences see each other.
    """
    model.eval()
    check_head(model)
    _pack_attention(model)
    if activation_checkpointing:
        _checkpoint_activations(model)


@torch.no_grad()
def _pack_attention(model: Any) -> None:
    """Use `packed_attention` if it agrees with the model's own attention, else that one if it separates sequences."""
    own, text = model.config._attn_implementation, model.config.get_text_config()
    if shifts(text):
        raise RunError(
            f"model.path: {model.config.model_type} turns its positions with the longest sequence of a row, "
            "so the learner cannot train it packed; use a model of other rotary positions"
        )
    expected = torch.cat([_hidden(model, (length,)) for length in _PROBE], 1)
    layers = getattr(text, "layer_types", None) or []
    for kind in (PACKED, own) if model._supports_attention_backend and LAYERS.issuperset(layers) else (own,):
        model.set_attn_implementation(kind)
        windows: set[int | None] = set()
        # The probe is shorter than most windows, and a model that masks its window passes none to ours.
        told = kind == own or not slides(text)
        if alike(_hidden(model, _PROBE, windows), expected) and (told or windows != {None}):
            return
    raise RunError(
        f"model.path: {model.config.model_type} mixes sequences that are packed into one row, "
        "so the learner cannot train it; use a model whose attention follows position_ids"
    )


def _hidden(model: Any, lengths: tuple[int, ...], windows: set[int | None] | None = None) -> Tensor:
    """Return the last hidden states (1, tokens, width) of packed sequences of these lengths.

    `windows` receives the sliding windows that our attention is told of.
    """
    positions = torch.cat([torch.arange(length, device=model.device) for length in lengths])[None]
    ids = torch.tensor(spread_ids(model, max(lengths)), device=model.device)[positions]
    hidden: Tensor = model.base_model(
        input_ids=ids, position_ids=positions, use_cache=False, packed_lengths=lengths, packed_windows=windows
    ).last_hidden_state
    return hidden


def _checkpoint_activations(model: Any) -> None:
    """Keep the input of each layer alone and compute the rest again in the backward pass.

    Transformers does so in training mode only; the mode is set on the layers, not on their submodules, so that no
    dropout starts.
    """
    model.gradient_checkpointing_enable({"use_reentrant": False})
    for module in model.modules():
        if isinstance(module, GradientCheckpointingLayer):
            module.training = True
