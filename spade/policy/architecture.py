"""Properties of layers that no short probe can show, from a model's config. `text`: its language model's config."""

from typing import Any

_SHIFTING = {"dynamic", "longrope"}


def slides(text: Any) -> bool:
    """True if some layer has a sliding window; a config without a list of layer kinds may have one in any layer."""
    kinds = getattr(text, "layer_types", None) or ["sliding_attention"]
    return "sliding_attention" in kinds and bool(getattr(text, "sliding_window", None))


def rotations(text: Any) -> set[str]:
    """The kinds of rotary positions in all layers."""
    rope = getattr(text, "rope_parameters", None) or {}
    return {kind for each in (rope, *rope.values()) if isinstance(each, dict) and (kind := each.get("rope_type"))}


def shifts(text: Any) -> bool:
    """True if the rotations change as the longest sequence grows."""
    return not _SHIFTING.isdisjoint(rotations(text))
