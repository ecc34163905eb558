"""Masks of sampled tokens, in the form of a trajectory."""


def pack_mask(mask: list[bool]) -> tuple[int, ...]:
    """Convert a mask, True for each token that the model sampled, into the spans of a trajectory."""
    spans = [0]
    for sampled in mask:
        if sampled == len(spans) % 2:
            spans.append(0)
        spans[-1] += 1
    return tuple(spans)
