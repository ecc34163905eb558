"""Check a checkpoint before any part of a run starts: its files can be read and fit each other.

No torch here: this process only reads files. Another process builds the model without its numbers
(`spade.policy.structure`). Numbers that are not finite are found later, at loading. The engine and the learner then
compare their results with the model's own forward pass.
"""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
from safetensors import SafetensorError, safe_open

from spade.config import Config
from spade.decoding import make_printable
from spade.errors import RunError, format_reason
from spade.policy import manifest, model_folder
from spade.policy.parameter_files import is_pickled, list_parameter_files
from spade.processes.commands import run_child
from spade.text import as_line, quote
from spade.tokens import Tokenizer
from spade.tokens.foreign import GenerationFile, read_json


class Demands(msgspec.Struct, frozen=True):
    """Demands of a run on a model, beyond a whole checkpoint."""

    tokens: int = 0
    """Size of the tokenizer. The model must embed at least as many tokens."""
    context_tokens: int = 0
    """Longest sequence in the torch engine. 0 if another engine samples."""
    trained: bool = False
    """True if a learner trains the model."""


NOTHING = Demands()
_FLOATS = {"F64", "F32", "F16", "BF16"}
_LONGEST_S = 600.0  # a check takes seconds, but other processes may keep the processor busy
_OFFLINE = {"HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}


def check_checkpoint(folder: Path, config: Config | None = None, *, sampled: bool = False) -> Tokenizer:
    """Check a checkpoint folder before it is used, and return its tokenizer. The check takes some seconds.

    If the folder has a manifest, every byte of the parameters is checked.

    With `config`, also check that the run's engine and learner can compute such a model, and that its template holds a
    user's message. With `sampled`, also check that the torch engine can compute it. The structure of the package's own
    models is not checked. Raises RunError for any fault.
    """
    tokenizer, names = check_files(folder, thinking=config is not None and config.model.thinking)
    check_digest(folder)
    if config is not None:
        tokenizer.opens_thought()  # raises if the template cannot hold a user's message
    if folder not in model_folder.SHIPPED.values():
        context = int(sampled)  # without a config, the engine's context is made to fit the model
        if config is not None and config.engine.kind == "torch" and config.actors.engines_bounds[1] > 0:
            context = config.engine.context_tokens
        check_structure(folder, names, Demands(tokenizer.size, context, trained=config is not None))
    return tokenizer


def check_files(folder: Path, *, thinking: bool = False) -> tuple[Tokenizer, int]:
    """Check the files of a checkpoint folder. Return its tokenizer and the number of its tensors.

    Raises RunError if a file is missing or cannot be read.
    """
    if odd := [file for file in sorted(folder.glob("*.json")) if not file.is_file()]:
        raise RunError(f"{odd[0]}: is not a regular file; give a whole checkpoint")
    check_facts(folder)
    tokenizer = Tokenizer.load(folder, thinking=thinking)
    if unknown := [id for id in sorted(tokenizer.end_ids) if not 0 <= id < tokenizer.size]:
        raise RunError(
            f"{folder}: generation_config.json ends a turn with the token {unknown[0]}, and its tokenizer has "
            f"{tokenizer.size} tokens; correct its eos_token_id"
        )
    return tokenizer, count_tensors(folder)


def check_facts(folder: Path) -> None:
    """Check the facts in the JSON files of a checkpoint. Raises RunError if no run can use such a model."""
    facts = model_folder.read_facts(folder)
    if facts.quantisation is not None:
        raise RunError(
            f"{folder}: its weights are quantised ({as_line(facts.quantisation, 40)}), and a run trains and publishes "
            "floating-point numbers; give the model in bfloat16 or float32"
        )
    if facts.weights is not None:
        raise RunError(
            f"{folder}: its config.json names the file of its weights, {as_line(facts.weights, 100)}; remove "
            "transformers_weights, and name the file model.safetensors"
        )
    if (folder / "adapter_config.json").exists():  # Transformers applies it if peft is installed
        raise RunError(f"{folder}: holds an adapter beside its model; merge it, or remove adapter_config.json")
    if (folder / "generation_config.json").exists():
        read_json(folder / "generation_config.json", GenerationFile)


def check_digest(folder: Path) -> None:
    """Check the parameters against the folder's manifest, if it has one. Raises WeightsError if they differ."""
    if (folder / manifest.MANIFEST).exists() and (folder / manifest.PARAMETERS).exists():
        try:
            manifest.verify_parameters(folder)
        except OSError as error:
            raise RunError(f"{folder}: {format_reason(error)}; give a whole checkpoint") from None


def check_structure(folder: Path, names: int, demands: Demands = NOTHING) -> None:
    """Check that a checkpoint has the tensors that its config.json describes, and that the model meets `demands`.

    names: number of tensors in the files, 0 if they are pickled. Raises RunError if a tensor differs, or if no run can
    use such a model.
    """
    command = [sys.executable, "-P", "-m", "spade.policy.structure", str(folder), str(names)]
    command.append(msgspec.json.encode(demands).decode())
    try:
        done = run_child(command, capture_output=True, timeout=_LONGEST_S, env={**os.environ, **_OFFLINE})
    except subprocess.TimeoutExpired:
        raise RunError(f"{folder}: its model was not built within {_LONGEST_S:g} s; correct its config.json") from None
    if done.returncode < 0:
        raise RunError(f"{folder}: signal {-done.returncode} ended the check of its model; it may be too large")
    if done.returncode:
        raise RunError(done.stderr.decode(errors="replace").strip().rpartition("\n")[2])


def count_tensors(folder: Path) -> int:
    """Count the tensors in the files of a checkpoint, without reading one.

    Raises RunError if a file cannot be read, if it lacks a tensor that the index places in it, or if weights are not
    floating-point numbers.
    """
    if is_pickled(folder):
        raise RunError(f"{folder}: its parameters are pickled; `spade model import {quote(folder)} DIR` converts them")
    count = 0
    for file, placed in list_parameter_files(folder).items():
        try:
            with safe_open(file, framework="numpy") as opened:
                found = {name: str(opened.get_slice(name).get_dtype()) for name in opened.keys()}  # noqa: SIM118
        except (OSError, SafetensorError) as error:
            raise RunError(f"{file}: {make_printable(error)}; give a whole checkpoint") from None
        if lacking := sorted(placed - found.keys()):
            raise RunError(f"{file}: has no tensor {as_line(lacking[0], 200)}; give a whole checkpoint")
        if packed := sorted(name for name, kind in found.items() if name.endswith(".weight") and kind not in _FLOATS):
            raise RunError(
                f"{file}: its tensor {as_line(packed[0], 200)} holds numbers of the type {found[packed[0]]}; give the "
                "model in bfloat16 or float32"
            )
        count += len(found)
    if not count:
        raise RunError(f"{folder}: its files hold no tensor; give a whole checkpoint")
    return count
