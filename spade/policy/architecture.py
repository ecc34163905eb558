"""Find properties of layers that a short probe cannot show, from a model's config.

`text` is the config of its language model.
"""

from typing import Any

_SHIFTING = {"dynamic", "longrope"}


def has_sliding_window(text: Any) -> bool:
    """Return True if some layer has a sliding window.

    A config without a list of layer kinds may have a sliding window in any layer.
    """
    kinds = getattr(text, "layer_types", None) or ["sliding_attention"]
    return "sliding_attention" in kinds and bool(getattr(text, "sliding_window", None))


def find_rotations(text: Any) -> set[str]:
    """Return the kinds of rotary positions in all layers."""
    rope = getattr(text, "rope_parameters", None) or {}
    return {kind for each in (rope, *rope.values()) if isinstance(each, dict) and (kind := each.get("rope_type"))}


def has_shifting_rotations(text: Any) -> bool:
    """Return True if the rotations change as the longest sequence grows."""
    return not _SHIFTING.isdisjoint(find_rotations(text))
