"""A faster forward of the common dense decoder (Llama, Mistral, Qwen2, Qwen3) over the same weights.

While few rows decode, a step spends most of its time on launching operators and on the Python between them.
Transformers' modules launch many operators. This forward launches fewer:
* Projections of the same input are one product.
* Queries and keys are normed and rotated together.
* Residuals are added within the product.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import Linear, Module, Parameter
from torch.nn.functional import embedding, linear, rms_norm, silu

from actors.engines.torch.kv_store import KvStore, compute_attention

_KINDS = {"llama", "mistral", "qwen2", "qwen3"}


class Layer(NamedTuple):
    """The parameters of one decoder layer."""

    norm: Parameter
    """Norm scale before the attention."""

    qkv: Tensor
    """Weights of the query, key and value projections, joined in this order."""

    qkv_bias: Tensor | None
    """Biases of the query, key and value projections, joined in this order."""

    out: Parameter
    """Weights of the attention's output projection."""

    norm_mlp: Parameter
    """Norm scale before the MLP."""

    gate_up: Tensor
    """Weights of the gate and up projections, joined in this order."""

    down: Parameter
    """Weights of the down projection."""

    window: int | None
    """Sliding window of the attention, in tokens. None if a token sees all earlier tokens."""


class Dense:
    """Computes logits of packed tokens; see `forward.Forward`. Makes the model's parameters views of joined tensors."""

    def __init__(self, model: Any) -> None:
        """Take over `model`, for which `is_dense` must be True."""
        config = model.config
        self._base, self._head = model.model, model.lm_head
        self._eps = config.rms_norm_eps
        self._queries, self._keys = config.num_attention_heads, config.num_key_value_heads
        self.dim = model.model.layers[0].self_attn.head_dim
        # 0 for each query head, 1 for each key head
        self._kind = torch.tensor([0] * self._queries + [1] * self._keys, device=model.device)
        self._layers = [_read_layer(layer, config) for layer in model.model.layers]
        norms = [norm for layer in model.model.layers for norm in _list_head_norms(layer)]
        # (layers, 2, dim): norm scales of query heads and of key heads
        self._scales = _join(norms, "weight").view(len(self._layers), 2, -1) if norms else None

    def __call__(self, ids: Tensor, cache: KvStore, keep: Tensor) -> Tensor:
        x = embedding(ids, self._base.embed_tokens.weight)
        cos, sin = self._base.rotary_emb(x, cache.plan.positions[None])
        cos, sin = cos[0, :, None], sin[0, :, None]
        sin[..., : self.dim // 2].neg_()  # negated, so that a roll by half of `dim` rotates
        scales = [None] * len(self._layers) if self._scales is None else self._scales[:, self._kind].unbind()
        for index, (layer, scale) in enumerate(zip(self._layers, scales, strict=True)):
            mixed = self._compute_attention(index, layer, scale, self._normalise(x, layer.norm), cos, sin, cache)
            x = torch.addmm(x, mixed, layer.out.t())
            gate, up = linear(self._normalise(x, layer.norm_mlp), layer.gate_up).chunk(2, -1)
            x = torch.addmm(x, silu(gate) * up, layer.down.t())
        return linear(self._normalise(x[keep], self._base.norm.weight), self._head.weight)

    def _compute_attention(
        self, index: int, layer: Layer, scale: Tensor | None, x: Tensor, cos: Tensor, sin: Tensor, cache: KvStore
    ) -> Tensor:
        """Return every head's mixture of values, (tokens, heads * dim).

        scale: (heads, dim), the norm scales of query heads and key heads.
        """
        queries, keys = self._queries, self._keys
        qkv = linear(x, layer.qkv, layer.qkv_bias).view(len(x), -1, self.dim)
        qk, value = torch.split(qkv, [queries + keys, keys], 1)
        if scale is not None:
            qk = rms_norm(qk, (self.dim,), eps=self._eps) * scale
        qk = torch.addcmul(qk * cos, qk.roll(self.dim // 2, -1), sin)
        query, key = torch.split(qk, [queries, keys], 1)
        cache.write(index, key, value)
        return compute_attention(query, index, cache, None, layer.window).flatten(1)

    def _normalise(self, x: Tensor, scale: Tensor) -> Tensor:
        return rms_norm(x, scale.shape, scale, self._eps)


def is_dense(model: Any) -> bool:
    """Return True if `Dense` computes models of this kind and shape."""
    config = model.config
    if config.model_type not in _KINDS or config.hidden_act != "silu":
        return False
    joined, others = [], [model.lm_head]
    for layer in model.model.layers:
        attention, mlp = layer.self_attn, layer.mlp
        joined += [attention.q_proj, attention.k_proj, attention.v_proj]
        others += [attention.o_proj, mlp.gate_proj, mlp.up_proj, mlp.down_proj]
    # A layer of another class is quantised or has an adapter.
    return all(type(part) is Linear for part in joined + others) and all(part.bias is None for part in others)


def _read_layer(layer: Any, config: Any) -> Layer:
    attention, mlp = layer.self_attn, layer.mlp
    projections = (attention.q_proj, attention.k_proj, attention.v_proj)
    return Layer(
        norm=layer.input_layernorm.weight,
        qkv=_join(projections, "weight"),
        qkv_bias=None if attention.q_proj.bias is None else _join(projections, "bias"),
        out=attention.o_proj.weight,
        norm_mlp=layer.post_attention_layernorm.weight,
        gate_up=_join((mlp.gate_proj, mlp.up_proj), "weight"),
        down=mlp.down_proj.weight,
        # Each layer of Qwen may have a window. Mistral's layers share one. Llama ignores a window in its configuration.
        window=config.sliding_window if config.model_type == "mistral" else getattr(attention, "sliding_window", None),
    )


def _list_head_norms(layer: Any) -> Sequence[Module]:
    """Return the norms of a layer's query heads and key heads, if it has them."""
    attention = layer.self_attn
    return (attention.q_norm, attention.k_norm) if hasattr(attention, "q_norm") else ()


def _join(parts: Sequence[Module], name: str) -> Tensor:
    """Join a parameter of all parts into one tensor. The parts' parameters become views of the tensor.

    A later write to a part therefore also changes the joined tensor.
    """
    parameters: list[Parameter] = [getattr(part, name) for part in parts]
    whole = torch.cat([each.data for each in parameters])
    for each, view in zip(parameters, torch.split(whole, [len(each) for each in parameters]), strict=True):
        each.data = view
    return whole
