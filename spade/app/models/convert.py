"""Convert a foreign model into a checkpoint folder with one parameter file, a tokenizer, and nothing else.

Transformers dequantises a GGUF file. The tokenizer and the chat template come from the file itself. Transformers leaves
out three facts, which are read here: the size of a head, the further tokens that end a turn, and the whole tokenizer.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from spade.decoding import read_first_line
from spade.errors import ConfigError, RunError
from spade.extras import describe_installing

Format = Literal["float32", "bfloat16"]
END_KINDS = ("eos", "eot", "eom")
"""GGUF's names of the tokens that end a turn."""
WHOLE_TOKENIZER = "tokenizer.huggingface.json"
"""The key under which a GGUF file may have its whole tokenizer."""


def convert(source: Path, folder: Path, dtype: Format | None) -> None:
    """Write the model of `source`, a GGUF file or a checkpoint folder, into `folder`.

    dtype: the number format of the result. None keeps the format of a checkpoint, and takes bfloat16 for a GGUF file.

    Raises ConfigError if a package is missing, RunError if the model cannot be read.
    """
    hide_progress_bars()
    if not source.is_dir():
        _require_gguf(source)  # check first, because importing Transformers takes seconds
    import torch

    from spade.policy import model as policy
    from spade.policy import model_folder
    from spade.policy.checkpoint_files import check_digest, check_facts, check_structure, count_tensors
    from spade.policy.parameter_files import is_pickled

    if source.is_dir():
        check_facts(source)
        check_digest(source)
        check_structure(source, 0 if is_pickled(source) else count_tensors(source))
        kept = dtype or model_folder.read_facts(source).dtype
        model = policy.load(source, dtype=kept, device=torch.device("cpu"))
        policy.save(model, source, folder)
        return
    _convert_tokenizer(source, folder)
    policy.write_parameters(read_gguf(source, dtype or "bfloat16"), folder)


def _require_gguf(file: Path) -> None:
    with file.open("rb") as opened:
        if opened.read(4) != b"GGUF":
            raise RunError(
                f"{file}: is not a GGUF file; give a GGUF file, a checkpoint folder, pip:PACKAGE or a name of the hub"
            )


def hide_progress_bars() -> None:
    """Hide the bars of Transformers unless a person watches. Must run before Transformers is imported."""
    if not sys.stderr.isatty():
        os.environ.setdefault("TQDM_DISABLE", "1")


def require_extra() -> None:
    """Raise ConfigError if a package for GGUF files is missing."""
    try:
        import accelerate  # noqa: F401
        import gguf  # noqa: F401
        from transformers import GgufConfig  # noqa: F401
    except ImportError as error:
        raise ConfigError(f"gguf: a GGUF file needs this extra ({error}); {describe_installing('gguf')}") from None


def _convert_tokenizer(file: Path, folder: Path) -> None:
    """Write the tokenizer and the chat template of a GGUF file into a folder. Raises ConfigError, RunError."""
    with _open_gguf(file) as facts:
        from transformers import AutoTokenizer

        AutoTokenizer.from_pretrained(
            file.parent, gguf_file=file.name, local_files_only=True, trust_remote_code=False
        ).save_pretrained(folder)
        if (whole := facts.get(WHOLE_TOKENIZER)) is not None:
            (folder / "tokenizer.json").write_text(whole, encoding="utf-8")


def read_gguf(file: Path, dtype: Format) -> Any:
    """Load the model of a GGUF file with Transformers. Raises ConfigError without the extra, RunError."""
    import torch

    from spade.policy.model import check_finite
    from spade.policy.structure import check_report

    with _open_gguf(file) as facts:
        from transformers import AutoModelForCausalLM, GgufConfig

        head = facts.get("qwen3.attention.key_length")  # Transformers assumes 128 for every Qwen3
        unpacked: Any = GgufConfig(dequantize=True)  # otherwise the tensors stay packed and cannot be saved
        read: Any = AutoModelForCausalLM.from_pretrained(
            file.parent, quantization_config=unpacked, dtype=getattr(torch, dtype), output_loading_info=True,
            gguf_file=file.name, local_files_only=True, trust_remote_code=False, **({"head_dim": head} if head else {}),
        )  # fmt: skip
        model, report = read
        ends = [facts[key] for kind in END_KINDS if (key := f"tokenizer.ggml.{kind}_token_id") in facts]
        if len(ends) > 1:
            model.generation_config.eos_token_id = ends
    check_report(file, model, report)
    check_finite(file, model)
    return model


@contextmanager
def _open_gguf(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the settings of a GGUF file. Raises ConfigError without the extra.

    If the block meets a fault of the file, raises RunError with one line.
    """
    require_extra()
    import torch
    from transformers.integrations.gguf.reader import read_gguf_metadata
    from transformers.utils import logging

    from spade.policy.structure import bound_parameters

    try:
        logging.set_verbosity_error()  # type: ignore[no-untyped-call]  # our checks report the same faults
        facts, names = read_gguf_metadata(str(file))
        layers = next((value for key, value in facts.items() if key.endswith(".block_count")), 0)
        if layers > len(names):
            raise RunError(f"{file}: has {layers} layers and {len(names)} tensors; give a whole file")
        with bound_parameters(file, len(names)):
            yield facts
    except (torch.OutOfMemoryError, MemoryError, RunError):
        raise
    except Exception as error:  # for a malformed file, Transformers and gguf raise many kinds of errors
        raise RunError(f"{file}: cannot be read: {read_first_line(error)}") from None
