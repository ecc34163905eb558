"""Find the licence of the model with which a run began."""

from contextlib import suppress
from pathlib import Path

from spade.policy import hub
from spade.policy.model_folder import SHIPPED


def find_licence(model: str) -> str:
    """Return the licence of `model.path` as the hub names it, such as "mit". Returns "" if nothing states it.

    A model of the package has the package's licence. A folder may have a card, and so does a model of the hub.
    """
    if model in SHIPPED:
        return "mit"
    from huggingface_hub import ModelCard

    card = Path(model) / "README.md"
    with suppress(Exception):  # no card, no front matter, or no hub: nothing states it
        if card.is_file():
            return ModelCard.load(card).data.license or ""
        if hub.is_name(model):
            return ModelCard.load(model.partition("@")[0]).data.license or ""
    return ""
