"""Fuse the many small kernels of a step by torch.compile. Without a GPU and a C compiler, nothing is compiled.

The layers of a small model spend most of their time in reading and writing the values between the multiplications.
"""

import logging
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from transformers import AttentionInterface
from transformers.modeling_layers import GradientCheckpointingLayer

from learner.models.attention import PACKED, Segments, compute_packed_attention
from spade.decoding import read_first_line

log = logging.getLogger(__name__)
_BACKEND = "inductor"
# The compiler chooses its kernels for this many tokens, but they compute any number of tokens. It takes equal sizes for
# the same dimension, so no width of a model should equal this number.
_TOKENS = 8200


@cache
def can_compile() -> bool:
    """Return True if a function can be compiled for a GPU on this machine."""
    if not torch.cuda.is_available():
        return False
    try:
        torch.compile(torch.square, dynamic=True, backend=_BACKEND)(torch.ones(8, device="cuda"))
    except Exception as error:
        _warn("a function", error)
        return False
    return True


@cache
def compile_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the compiled function, or the function itself if it cannot be compiled."""
    return torch.compile(function, backend=_BACKEND) if can_compile() else function


def compile_layers(model: Any) -> bool:
    """Compile the layers of a model that trains. Attention stays as it is. Return True if the compiled layers work.

    The gradients of the model are deleted.
    """
    layers = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    if not (layers and can_compile()):
        return False
    AttentionInterface.register(PACKED, torch.compiler.disable(compute_packed_attention))  # type: ignore[no-untyped-call]
    for layer in layers:
        layer.compile(dynamic=True, backend=_BACKEND)
    tokens = torch.arange(_TOKENS, device=model.device)[None]
    try:
        model.base_model(
            input_ids=tokens % model.config.get_text_config().vocab_size, position_ids=tokens % 64,
            use_cache=False, packed_segments=Segments((_TOKENS,), (-1,)),
        ).last_hidden_state.sum().backward()  # fmt: skip
    except Exception as error:
        _warn(f"a layer of {model.config.model_type}", error)
        for layer in layers:
            layer._compiled_call_impl = None
    model.zero_grad(set_to_none=True)
    return layers[0]._compiled_call_impl is not None


def _warn(what: str, error: Exception) -> None:
    log.warning("cannot compile %s, so the learner is slower: %s", what, read_first_line(error))
