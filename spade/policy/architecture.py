"""Find properties of a model from its config and its modules. The model may be on the device "meta", without numbers.

In all functions, `text` is the config of its language model.
"""

from typing import Any

from spade.errors import ConfigError, RunError

_LAYERS = {"full_attention", "sliding_attention"}
_SHIFTING = {"dynamic", "longrope"}  # kinds of rotary positions that change as the longest sequence grows
_SCALES = ("logit_scale", "logits_scaling", "final_logit_softcapping")  # settings that change logits after the head


def has_sliding_window(text: Any) -> bool:
    """Return True if some layer has a sliding window.

    A config without a list of layer kinds may have a sliding window in any layer.
    """
    kinds = getattr(text, "layer_types", None) or ["sliding_attention"]
    return "sliding_attention" in kinds and bool(getattr(text, "sliding_window", None))


def has_plain_layers(model: Any) -> bool:
    """Return True if each layer of a model is an attention over keys and values, with a replaceable implementation."""
    kinds = getattr(model.config.get_text_config(), "layer_types", None) or []
    return model._supports_attention_backend and _LAYERS.issuperset(kinds)


def find_rotations(text: Any) -> set[str]:
    """Return the kinds of rotary positions that occur in any layer."""
    rope = getattr(text, "rope_parameters", None) or {}
    return {kind for each in (rope, *rope.values()) if isinstance(each, dict) and (kind := each.get("rope_type"))}


def has_shifting_rotations(text: Any) -> bool:
    """Return True if the rotations change as the longest sequence grows."""
    return not _SHIFTING.isdisjoint(find_rotations(text))


def cannot_run(model: Any, why: str) -> ConfigError:
    """Build the error for a model, or a part of one, that the torch engine cannot compute with its key-value store."""
    return ConfigError(f"model.path: the torch engine cannot run {model.config.model_type}: {why}")


def check_sampled(model: Any, context_tokens: int) -> None:
    """Raise ConfigError if the torch engine cannot run a model with sequences of `context_tokens`."""
    text = model.config.get_text_config()
    if odd := _describe_attention(model):
        raise cannot_run(model, odd)
    if not has_plain_layers(model):
        raise cannot_run(model, "it has no plain key-value cache")
    if getattr(text, "kv_lora_rank", None):  # as in DeepSeek-V3
        raise cannot_run(model, "it caches something else than its keys and values")
    if has_shifting_rotations(text):
        raise cannot_run(model, "its rotary positions change with the longest sequence")
    positions = getattr(text, "max_position_embeddings", None) or context_tokens
    if positions < context_tokens and not find_rotations(text):
        raise ConfigError(f"engine.context_tokens: {context_tokens} are more than the model's {positions} positions")


def check_trained(model: Any) -> None:
    """Raise RunError if the learner cannot train a model."""
    if odd := _describe_attention(model):
        raise RunError(f"model.path: the learner cannot train {model.config.model_type}: {odd}; use another model")
    text = model.config.get_text_config()
    if any(getattr(text, name, None) not in (None, 1) for name in _SCALES):
        raise make_scaled_error(model)
    if has_shifting_rotations(text):
        raise RunError(
            f"model.path: {model.config.model_type} changes its rotary positions with the longest sequence of a row, "
            "so the learner cannot train it packed; use a model with other rotary positions"
        )


def make_scaled_error(model: Any) -> RunError:
    """Build the error for a model that changes the output of its head to get its logits."""
    return RunError(
        f"model.path: {model.config.model_type} changes its logits after the output head, and the learner does not "
        "repeat this change; use a model without logit scaling or soft-capping"
    )


def _describe_attention(model: Any) -> str:
    """Describe why a model's attention is not plain causal attention to keys. Returns "" if it is."""
    text = model.config.get_text_config()
    every = {each.is_causal for each in model.modules() if hasattr(each, "is_causal")}
    if every == {False} or getattr(text, "is_causal", None) is False:
        return "its attention is not causal"  # such as BERT's: each token sees the later ones
    if any(name.endswith(".sinks") for name, _ in model.named_parameters()):
        return "its attention has sinks"  # as in GPT-OSS
    window = getattr(text, "sliding_window", 1)
    if "sliding_attention" in (getattr(text, "layer_types", None) or []) and (window or 0) < 1:
        return f"its sliding window is of {window} tokens"
    return ""
