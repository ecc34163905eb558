"""The folder of a model: one that ships with the package, a path, or a name on the hub. No torch here."""

from pathlib import Path

from spade.errors import ConfigError

NANO = Path(__file__).parents[1] / "data" / "nano"
SHIPPED = {"nano": NANO, "nano-tools": NANO.with_name("nano-tools")}
"""By name: the nano models of games and of tool use."""


def resolve(path: str) -> Path:
    """The folder of the checkpoint called `path`; a hub name is downloaded once and then found in the hub's cache.

    Raises ConfigError if there is no such checkpoint.
    """
    if path in SHIPPED:
        folder = SHIPPED[path]
    elif Path(path).is_dir():
        folder = Path(path)
    else:
        return _download(path)
    if not (folder / "config.json").is_file():
        raise ConfigError(f"model.path: {folder} holds no config.json; give a Hugging Face checkpoint folder")
    return folder


def _download(name: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError, RepositoryNotFoundError

    try:
        return Path(snapshot_download(name, allow_patterns=["*.json", "*.safetensors", "*.jinja", "*.txt", "*.model"]))
    except (HFValidationError, LocalEntryNotFoundError, RepositoryNotFoundError, OSError):
        raise ConfigError(
            f"model.path: {name!r} is not a folder here and could not be fetched from the hub; "
            f"give {', '.join(map(repr, SHIPPED))}, a checkpoint folder or a hub name"
        ) from None
