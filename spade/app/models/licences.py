"""Find the licence of a model, as its card states it."""

from contextlib import suppress
from pathlib import Path

from spade.policy import hub
from spade.policy.model_folder import SHIPPED


def read_licence(model: str) -> str:
    """Return the licence of a model on this machine, such as "apache-2.0". Returns "" if nothing states it.

    A model of the package has the package's licence. A checkpoint folder may have a card.
    """
    if model in SHIPPED:
        return "mit"
    card = Path(model) / "README.md"
    return _read_card(card) if card.is_file() else ""


def find_licence(model: str) -> str:
    """Return the licence of a model as `read_licence` does. Ask the hub for the card of a model of the hub."""
    named = hub.is_name(model) and not Path(model).is_dir()
    return read_licence(model) or (_read_card(model.partition("@")[0]) if named else "")


def _read_card(place: Path | str) -> str:
    from huggingface_hub import ModelCard

    with suppress(Exception):  # a card without front matter, or no hub: nothing states a licence
        return str(ModelCard.load(place).data.license or "")
    return ""
