"""What no engine can serve, whatever its kind."""

from spade.codec import unpack_ids
from spade.protocol import Generate

COLDEST = 1e-3  # a lower temperature would overflow logits / temperature


def unfit(request: Generate, context_tokens: int, vocabulary: int) -> str | None:
    """Why a request can never be served by a model of `vocabulary` tokens, None if it can."""
    if not request.prompt or len(request.prompt) % 4 or request.max_tokens < 1 or request.seed < 0:
        return "a request needs a prompt of int32 ids, max_tokens of at least 1 and a seed of at least 0"
    prompt = unpack_ids(request.prompt)
    if len(prompt) + request.max_tokens > context_tokens:
        asked = f"{len(prompt)} prompt tokens and max_tokens = {request.max_tokens}"
        return f"{asked} exceed engine.context_tokens = {context_tokens}"
    if not (prompt.min() >= 0 and prompt.max() < vocabulary):
        return f"the prompt has ids outside of the model's {vocabulary} tokens"
    if not COLDEST <= request.temperature < float("inf"):
        return f"temperature must be at least {COLDEST}, is {request.temperature}"
    if not (0 < request.top_p <= 1 and request.top_k >= 0):
        return f"top_p must be in (0, 1] and top_k at least 0, are {request.top_p} and {request.top_k}"
    if "" in request.stop:
        return "an empty stop string would stop everything"
    return None
