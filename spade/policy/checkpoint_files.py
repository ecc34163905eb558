"""Check the files of a checkpoint before anything of a run starts. No torch here: a check takes milliseconds.

It finds what the files alone show. Loading finds the rest (`spade.policy.model.load`), and so do the engine's and the
learner's comparisons with the model's own forward.
"""

import re
from pathlib import Path

from safetensors import SafetensorError, safe_open

from spade.decoding import make_printable
from spade.errors import RunError
from spade.policy import model_folder
from spade.policy.parameter_files import list_parameter_files
from spade.text import as_line
from spade.tokens import Tokenizer

_LAYER = re.compile(r"\.layers\.(\d+)\.")
_EMBEDDING = "embed_tokens.weight"  # as nearly all architectures name it


def check_files(folder: Path, *, thinking: bool = False) -> Tokenizer:
    """Check the files of a checkpoint folder, and return its tokenizer.

    Raises RunError if a file is missing, cannot be read or does not fit the others.
    """
    if odd := [file for file in sorted(folder.glob("*.json")) if not file.is_file()]:
        raise RunError(f"{odd[0]}: is not a regular file; give a whole checkpoint")
    facts = model_folder.read_facts(folder)
    tokenizer = Tokenizer.load(folder, thinking=thinking)
    if unknown := [id for id in sorted(tokenizer.end_ids) if not 0 <= id < tokenizer.size]:
        raise RunError(
            f"{folder}: generation_config.json ends a turn with the token {unknown[0]}, and its tokenizer has "
            f"{tokenizer.size} tokens; correct its eos_token_id"
        )
    shapes = _read_shapes(folder)
    held = {int(found[1]) for name in shapes if (found := _LAYER.search(name))}
    if held and (lost := next((number for number in range(facts.layers or 0) if number not in held), None)) is not None:
        raise RunError(
            f"{folder}: its config.json has {facts.layers} layers, and no tensor of layer {lost} is there; give a "
            "whole checkpoint"
        )
    rows = [shape[0] for name, shape in shapes.items() if name.endswith(_EMBEDDING) and len(shape) == 2]
    embedded = [facts.vocabulary, *(rows if len(rows) == 1 else ())]
    if any(count is not None and tokenizer.size > count for count in embedded):
        raise RunError(
            f"{folder}: its tokenizer has {tokenizer.size} tokens, and its model embeds "
            f"{min(filter(None, embedded))}; give a checkpoint whose tokenizer.json and config.json belong together"
        )
    return tokenizer


def _read_shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the tensors by name, without reading a tensor.

    Raises RunError if a file cannot be read, or if it lacks a tensor that the index places in it.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for file, placed in list_parameter_files(folder).items():
        try:
            with safe_open(file, framework="numpy") as opened:
                found = {name: tuple(opened.get_slice(name).get_shape()) for name in opened.keys()}  # noqa: SIM118
        except (OSError, SafetensorError) as error:
            raise RunError(f"{file}: {make_printable(error)}; give a whole checkpoint") from None
        if lacking := sorted(placed - found.keys()):
            raise RunError(f"{file}: has no tensor {as_line(lacking[0], 200)}; give a whole checkpoint")
        shapes.update(found)
    if not shapes:
        raise RunError(f"{folder}: its files hold no tensor; give a whole checkpoint")
    return shapes
