"""Read a checkpoint with Transformers, and check that its tensors are those that its config.json describes.

`main` runs this check in a process of its own. It reads the names and shapes of the tensors, but not their numbers.
"""

import resource
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import torch
from torch.nn.modules.module import register_module_parameter_registration_hook
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers.integrations import accelerate
from transformers.utils import logging as transformers_logging

from spade.decoding import LONGEST, read_first_line
from spade.errors import RunError, SpadeError
from spade.policy.architecture import check_sampled, check_trained
from spade.policy.checkpoint_files import Demands
from spade.policy.model_folder import read_facts
from spade.policy.parameter_files import PICKLED
from spade.text import as_line

# Limits of the process (bytes, seconds of CPU time): a hostile config.json may describe lists of any length. A check
# takes a few seconds, even of a model of many experts.
_MOST = {resource.RLIMIT_DATA: 8 << 30, resource.RLIMIT_CPU: 120}
# Settings that no config.json may choose for us: kernels, which may be code of the hub, and the type of an output.
_OWN_CHOICES = {"_attn_implementation": None, "_experts_implementation": None, "return_dict": True}
_UNUSED = (".k_scale", ".v_scale")  # scales of keys and values that an engine stores in 8 bits; no engine here does so

transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]


def read_model(folder: Path, **settings: Any) -> tuple[PreTrainedModel, Mapping[str, Any]]:
    """Read the causal language model of `folder`, and Transformers' report of the tensors (`check_report`).

    Raises RunError if Transformers cannot read it.
    """
    try:
        with _hold_warnings():
            found: Any = AutoModelForCausalLM.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False, output_loading_info=True,
                ignore_mismatched_sizes=True, **_OWN_CHOICES, **settings,
            )  # fmt: skip
    except (torch.OutOfMemoryError, MemoryError, SpadeError):
        raise
    except Exception as error:  # a malformed file makes Transformers and its packages raise many kinds of errors
        raise RunError(f"{folder}: cannot load a causal language model: {_describe_error(error)}") from None
    model, report = found
    return model, report


@contextmanager
def _hold_warnings() -> Iterator[None]:
    """Silence Transformers. It would print a table of the tensors that `check_report` reports in one line."""
    before = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        transformers_logging.set_verbosity(before)


def _describe_error(error: Exception) -> str:
    """Describe a foreign error in one line."""
    if "trust_remote_code" in str(error):
        return "it needs code of its own, which is never run; give a model of an architecture that Transformers has"
    if "automatic conversion" in str(error):  # Transformers joins some tensors, such as those of experts
        return "a tensor is missing or has another shape than its neighbours; give a whole checkpoint"
    return as_line(f"{type(error).__name__}: {' '.join(str(error).split())}", LONGEST)


def check_report(folder: Path, model: PreTrainedModel, report: Mapping[str, Any]) -> None:
    """Raise RunError unless every tensor of `model` comes from the checkpoint and every useful tensor is used.

    folder: the checkpoint's folder or file. report: Transformers' `output_loading_info`.

    Transformers fills missing tensors with random numbers, so two loads of the same files would differ.
    """
    shapes = [f"{name} {tuple(found)} instead of {tuple(due)}" for name, found, due in report["mismatched_keys"]]
    left = [_add_prefix(name, model) for name in report["unexpected_keys"] if not name.endswith(_UNUSED)]
    lists = {f"{name}.": len(each) for name, each in model.named_modules() if isinstance(each, torch.nn.ModuleList)}
    owners = tuple({f"{name.rpartition('.')[0]}." for name, _ in model.named_parameters()} - {"."})
    for names, wrong in (
        (report["missing_keys"], "are missing"),
        (shapes, "have other shapes"),
        ([name for name in left if _is_further_item(name, lists)], "are of further layers"),
        ([name for name in left if name.startswith(owners)], "are further parts of its modules"),  # such as a bias
    ):
        if names:
            raise RunError(
                f"{folder}: its tensors do not fit its config.json: {len(names)} {wrong}, the first is "
                f"{as_line(min(names), 200)}; give a whole checkpoint"
            )
    for name, source in model.get_expanded_tied_weights_keys(all_submodels=True).items():
        tensor, tied = model.get_parameter_or_buffer(name), model.get_parameter_or_buffer(source)
        if tensor is not tied and not tensor.is_meta:  # Transformers ties two tensors if their numbers are equal
            raise RunError(
                f"{folder}: its config.json ties {name} to {source}, and its files have other numbers for it; set "
                "tie_word_embeddings to false, or remove the tensor"
            )


def _add_prefix(name: str, model: PreTrainedModel) -> str:
    """Return the full name of a tensor. Some checkpoints leave out the prefix of all names, such as `model.`."""
    whole = hasattr(model, name.partition(".")[0])
    return name if whole else f"{model.base_model_prefix}.{name}"


def _is_further_item(name: str, lists: Mapping[str, int]) -> bool:
    """Return True if a tensor belongs to a layer that does not exist. lists: lengths of lists of layers, by name."""
    return any(
        name.startswith(each)
        and (item := name.removeprefix(each).partition(".")[0]).isdecimal()
        and int(item[:9]) >= size
        for each, size in lists.items()
    )


def check_structure(folder: Path, names: int, demands: Demands) -> None:
    """Build the model of `folder` without its numbers, and compare it with its files and with the demands of a run.

    names: number of tensors in the files. Raises RunError or ConfigError for any difference.
    """
    if (layers := read_facts(folder).layers) > names:
        raise RunError(f"{folder}: its config.json has {layers} layers, and {names} tensors are there; give them all")
    with patch.object(accelerate, "is_accelerate_available", lambda *_: True), bound_parameters(folder, names):
        # Transformers is told that accelerate is installed. On the device "meta" it never needs this package.
        model, report = read_model(folder, dtype=torch.bfloat16, device_map="meta")
    check_report(folder, model, report)
    check_room(folder, model, demands.tokens)
    _check_buffers(folder, model)
    if demands.context_tokens:
        check_sampled(model, demands.context_tokens)
    if demands.trained:
        check_trained(model)


def check_room(folder: Path, model: PreTrainedModel, tokens: int) -> None:
    """Raise RunError if `model` embeds fewer than `tokens` tokens."""
    embedding: Any = model.get_input_embeddings()
    if tokens > (rows := len(embedding.weight)):
        raise RunError(
            f"{folder}: its tokenizer has {tokens} tokens, and its model embeds {rows}; give a checkpoint whose "
            "tokenizer.json and config.json belong together"
        )


@contextmanager
def bound_parameters(folder: Path, names: int) -> Iterator[None]:
    """Raise RunError in the block as soon as modules get many more parameters than the checkpoint has tensors.

    folder: the checkpoint's folder or file. names: number of its tensors.
    """
    left = 8 * names + 256  # some checkpoints hold several parameters in one tensor

    def count(*_: Any) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise RunError(
                f"{folder}: its config.json describes a model of many more tensors than the {names} that are there; "
                "give a whole checkpoint"
            )

    hook = register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        hook.remove()


def _check_buffers(folder: Path, model: Any) -> None:
    """Compute the buffers that follow from config.json, such as rotary frequencies. Raises RunError if not finite."""
    for name, module in model.named_modules():
        if module._buffers and not module._parameters:
            module.to_empty(device="cpu", recurse=False)
            for each in module.buffers(False):
                each.zero_()
            try:
                model._init_weights(module)
            except AttributeError:  # Transformers 5.19 has such a fault in Gemma 3n, and loads it without this call
                continue
            if not all(each.isfinite().all() for each in module.buffers(False)):
                raise RunError(f"{folder}: its config.json gives {name} numbers that are not finite; correct it")


def _count_pickled(folder: Path) -> int:
    """Count the tensors in pickled files, without reading one. Raises RunError if a file cannot be read."""
    names = 0
    for file in filter(Path.is_file, folder.glob(PICKLED)):
        try:
            names += len(torch.load(file, map_location="meta", weights_only=True))
        except Exception as error:  # a malformed file makes torch raise many kinds of errors
            raise RunError(f"{file}: {read_first_line(error)}; give a whole checkpoint") from None
    return names


def main(folder: str, names: str, demands: str) -> str:
    """Check the structure of a checkpoint. Return its fault, or "" if it is sound."""
    for kind, most in _MOST.items():
        resource.setrlimit(kind, (most, resource.getrlimit(kind)[1]))
    try:
        count = int(names) or _count_pickled(Path(folder))
        check_structure(Path(folder), count, msgspec.json.decode(demands, type=Demands))
    except MemoryError:
        return f"{folder}: its config.json describes a model that does not fit into memory; correct it"
    except SpadeError as error:
        return str(error)
    except Exception as error:
        return f"{folder}: cannot be checked: {_describe_error(error)}"
    return ""


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) or 0)  # a text goes to stderr, as its last line
