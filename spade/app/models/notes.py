"""Describe a checkpoint, and test on the model itself if a run can play with it and train it."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from spade.app.models.memory import GIB
from spade.errors import SpadeError

_PROBED_TOKENS = 512


class ModelNote(NamedTuple):
    """One line about a model."""

    name: str
    """Subject of the line, such as "context"."""
    text: str
    """The facts, or the reason why this use of the model will not work."""
    fault: bool = False
    """True if this use of the model will not work."""


def examine(folder: Path) -> Iterator[ModelNote]:
    """Examine the checkpoint `folder`: describe it, and try conversation, sampling and training as a run does.

    Raises RunError if the model does not load.
    """
    import torch

    from spade.policy import model_folder
    from spade.policy.model import load

    facts = model_folder.read_facts(folder)
    model = load(folder, dtype=facts.dtype, device=torch.device("cpu"))
    count = sum(each.numel() for each in model.parameters())
    text = model.config.get_text_config()
    yield ModelNote("architecture", f"{model.config.model_type}, {text.num_hidden_layers} layers")
    yield ModelNote("parameters", f"{count / 1e6:,.1f} million in {facts.dtype}")
    yield ModelNote("context", f"{facts.context_tokens} tokens")
    yield _check_tokenizer(folder, model)
    yield _check_engine(model)
    yield _check_learner(folder)
    yield _check_memory(count, facts.dtype)


def _check_tokenizer(folder: Path, model: Any) -> ModelNote:
    from actors.text.profile import ChatMessage
    from spade.policy.checkpoint_files import check_files
    from spade.policy.structure import check_room

    try:
        tokenizer, _ = check_files(folder)
        check_room(folder, model, tokenizer.size)
        tokenizer.prompt_ids([ChatMessage("user", "Hello")])
    except SpadeError as error:
        return ModelNote("conversation", _format_reason(folder, error), fault=True)
    ends = ", ".join(map(tokenizer.token_text, sorted(tokenizer.end_ids)))
    return ModelNote("conversation", f"{tokenizer.size} tokens; a turn ends with {ends}")


def _check_engine(model: object) -> ModelNote:
    from actors.engines.torch.forward import open_forward

    try:
        forward, cache = open_forward(model, _PROBED_TOKENS)  # type: ignore[arg-type]
    except SpadeError as error:
        return ModelNote("sampling", str(error), fault=True)
    return ModelNote(
        "sampling",
        f"the torch engine runs it ({type(forward).__name__}); keys and values of a token take {cache.token_bytes} B",
    )


def _check_learner(folder: Path) -> ModelNote:
    import torch

    from learner.models.prepare import prepare_model
    from spade.policy.model import load

    try:
        prepare_model(load(folder, dtype="float32", device=torch.device("cpu")), activation_checkpointing=False)
    except SpadeError as error:
        return ModelNote("training", str(error), fault=True)
    return ModelNote("training", "the learner trains it, with several plays packed into a row")


def _check_memory(parameters: int, dtype: str) -> ModelNote:
    """Estimate the memory for serving (weights) and for training (float32 weights, gradients and AdamW's moments)."""
    serve = parameters * (4 if dtype == "float32" else 2)
    return ModelNote(
        "memory",
        f"serving takes {serve / GIB:.1f} GiB of weights; training takes {16 * parameters / GIB:.1f} GiB of weights, "
        "gradients and AdamW's means (`spade config check` estimates a whole run)",
    )


def _format_reason(folder: Path, error: SpadeError) -> str:
    return re.sub(rf"^{re.escape(str(folder))}[/:]? ?", "", str(error))
