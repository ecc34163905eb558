"""Convert a foreign model into a checkpoint folder with one parameter file, a tokenizer, and nothing else.

Transformers dequantises a GGUF file. The tokenizer and the chat template come from the file itself.
"""

import os
import sys
from pathlib import Path
from typing import Any, Literal

from spade.decoding import read_first_line
from spade.errors import ConfigError, RunError

Format = Literal["float32", "bfloat16"]


def convert(source: Path, folder: Path, dtype: Format | None) -> None:
    """Write the model of `source`, a GGUF file or a checkpoint folder, into `folder`.

    dtype: the number format of the result. None keeps the format of a checkpoint, and takes bfloat16 for a GGUF file.

    Raises ConfigError if a package is missing, RunError if the model cannot be read.
    """
    if not sys.stderr.isatty():  # a bar of progress is for a person; tqdm reads this when it is imported
        os.environ.setdefault("TQDM_DISABLE", "1")
    if not source.is_dir():
        _require_gguf(source)  # before the seconds in which Transformers is imported
    import torch

    from spade.policy import model as policy
    from spade.policy import model_folder

    if source.is_dir():
        kept = dtype or model_folder.read_facts(source).dtype
        model = policy.load(source, dtype=kept, device=torch.device("cpu"))
        policy.save(model, source, folder)
        return
    model, tokenizer = _read_gguf(source, dtype or "bfloat16")
    policy.write_parameters(model, folder)
    tokenizer.save_pretrained(folder)


def _require_gguf(file: Path) -> None:
    with file.open("rb") as opened:
        if opened.read(4) != b"GGUF":
            raise RunError(
                f"{file}: is not a GGUF file; give one, a checkpoint folder, pip:PACKAGE or a name of the hub"
            )


def _read_gguf(file: Path, dtype: Format) -> tuple[Any, Any]:
    """Load model and tokenizer of a GGUF file with Transformers. Raises ConfigError without the extra, RunError."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    from spade.policy.model import check_whole

    try:
        import accelerate  # noqa: F401
        import gguf  # noqa: F401
        from transformers import GgufConfig
    except ImportError as error:
        raise ConfigError(f"{file}: a GGUF file needs the packages of the extra `gguf`: {error}") from None
    given = {"gguf_file": file.name, "local_files_only": True}
    try:
        logging.set_verbosity_error()  # type: ignore[no-untyped-call]  # what it warns of is checked here
        tokenizer = AutoTokenizer.from_pretrained(file.parent, **given)
        unpacked: Any = GgufConfig(dequantize=True)  # otherwise the tensors stay packed and cannot be saved
        read: Any = AutoModelForCausalLM.from_pretrained(
            file.parent, quantization_config=unpacked, dtype=getattr(torch, dtype), output_loading_info=True, **given
        )
    except (torch.OutOfMemoryError, MemoryError):
        raise
    except Exception as error:  # for a malformed file, Transformers and gguf raise many kinds of errors
        raise RunError(f"{file}: cannot be read: {read_first_line(error)}") from None
    model, report = read
    check_whole(file, model, report)
    return model, tokenizer
