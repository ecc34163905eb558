"""Properties of layers that no short probe can tell, from a model's config. `text` is that of its language model."""

from typing import Any

_SHIFTING = {"dynamic", "longrope"}


def slides(text: Any) -> bool:
    """True if some layer has a sliding window; if their kinds are not listed, any may."""
    kinds = getattr(text, "layer_types", None) or ["sliding_attention"]
    return "sliding_attention" in kinds and bool(getattr(text, "sliding_window", None))


def rotations(text: Any) -> set[str]:
    """The kinds of rotary positions, of all layers or by their kind."""
    rope = getattr(text, "rope_parameters", None) or {}
    return {kind for each in (rope, *rope.values()) if isinstance(each, dict) and (kind := each.get("rope_type"))}


def shifts(text: Any) -> bool:
    """True if its rotations change as the longest sequence grows."""
    return not _SHIFTING.isdisjoint(rotations(text))
