"""Convert a foreign model into a checkpoint folder with one parameter file, a tokenizer, and nothing else.

Transformers dequantises a GGUF file. The tokenizer and the chat template come from the file itself. Three facts are read
here, because Transformers does not read them: the size of a head, the further tokens that end a turn, and the whole
tokenizer.
"""

import os
import sys
from pathlib import Path
from typing import Any, Literal, NamedTuple

from spade.decoding import read_first_line
from spade.errors import ConfigError, RunError

Format = Literal["float32", "bfloat16"]
END_KEYS = ("eos", "eot", "eom")
"""GGUF's names of the tokens that end a turn."""
WHOLE_TOKENIZER = "tokenizer.huggingface.json"
"""The key under which a GGUF file may have its whole tokenizer."""


class GgufModel(NamedTuple):
    """The contents of a GGUF file."""

    model: Any
    """Transformers' model, in float32 or bfloat16."""

    tokenizer: Any
    """Transformers' tokenizer, made from the vocabulary and the merges."""

    whole_tokenizer: str | None
    """The text of tokenizer.json, if the file has it."""


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
    read = read_gguf(source, dtype or "bfloat16")
    policy.write_parameters(read.model, folder)
    read.tokenizer.save_pretrained(folder)
    if read.whole_tokenizer is not None:
        (folder / "tokenizer.json").write_text(read.whole_tokenizer, encoding="utf-8")


def _require_gguf(file: Path) -> None:
    with file.open("rb") as opened:
        if opened.read(4) != b"GGUF":
            raise RunError(
                f"{file}: is not a GGUF file; give one, a checkpoint folder, pip:PACKAGE or a name of the hub"
            )


def require_extra(file: Path) -> None:
    """Raise ConfigError if a package for GGUF files is missing."""
    try:
        import accelerate  # noqa: F401
        import gguf  # noqa: F401
    except ImportError as error:
        raise ConfigError(f"{file}: a GGUF file needs the packages of the extra `gguf`: {error}") from None


def read_gguf(file: Path, dtype: Format) -> GgufModel:
    """Load a GGUF file with Transformers. Raises ConfigError without the extra, RunError."""
    require_extra(file)
    import torch
    from gguf import GGUFReader
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
    from transformers.utils import logging

    from spade.policy.model import check_whole

    given = {"gguf_file": file.name, "local_files_only": True}
    try:
        logging.set_verbosity_error()  # type: ignore[no-untyped-call]  # what it warns of is checked here
        fields = GGUFReader(file).fields
        tokenizer = AutoTokenizer.from_pretrained(file.parent, **given)
        unpacked: Any = GgufConfig(dequantize=True)  # otherwise the tensors stay packed and cannot be saved
        head = fields.get(f"{fields['general.architecture'].contents()}.attention.key_length")
        read: Any = AutoModelForCausalLM.from_pretrained(
            file.parent, quantization_config=unpacked, dtype=getattr(torch, dtype), output_loading_info=True,
            **given, **({"head_dim": head.contents()} if head else {}),
        )  # fmt: skip
        model, report = read
        ends = [each.contents() for key in END_KEYS if (each := fields.get(f"tokenizer.ggml.{key}_token_id"))]
        model.generation_config.eos_token_id = ends if len(ends) > 1 else model.generation_config.eos_token_id
        whole = fields[WHOLE_TOKENIZER].contents() if WHOLE_TOKENIZER in fields else None
    except (torch.OutOfMemoryError, MemoryError):
        raise
    except Exception as error:  # for a malformed file, Transformers and gguf raise many kinds of errors
        raise RunError(f"{file}: cannot be read: {read_first_line(error)}") from None
    check_whole(file, model, report)
    return GgufModel(model, tokenizer, whole)
