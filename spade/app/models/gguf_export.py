"""Write a checkpoint folder as a GGUF file, and compare the log-probabilities of both.

The file has the tokenizer twice. Other programs read the vocabulary, the merges and the name of a known pre-tokenizer.
`tokenizer.huggingface.json` holds the whole tokenizer, which `spade model import` restores.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from spade.app.models.convert import END_KINDS, WHOLE_TOKENIZER, hide_progress_bars, read_gguf, require_extra
from spade.errors import RunError
from spade.policy.manifest import PARAMETERS
from spade.tokens.files import end_ids, read_settings, read_special_tokens, read_template

ARCHITECTURES = ("llama", "qwen2", "qwen3")
"""Kinds of models, as `model_type` and GGUF both call them."""
_SPLITS = {
    name: r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|" + digits + r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
    r"\s+(?!\S)|\s+"
    for name, digits in (("llama-bpe", r"\p{N}{1,3}"), ("qwen2", r"\p{N}"))
}
"""Regular expressions of known pre-tokenizers, by GGUF's name."""
_PROBED_TOKENS = 64
_TOLERANCE = 1e-3
"""Greatest difference of two log-probabilities. Both models have the same parameters."""


def write_gguf(folder: Path, file: Path, name: str) -> str:
    """Write the checkpoint `folder` as a GGUF file. Returns a note for the user, or "".

    Raises ConfigError if a package is missing, and RunError if GGUF cannot hold the model, or if the file gives other
    log-probabilities than the folder.
    """
    hide_progress_bars()
    require_extra()
    import gguf
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    kind = config.model_type
    if kind not in ARCHITECTURES:
        raise RunError(f"--gguf: writes {', '.join(ARCHITECTURES)}, and this policy is a {kind}; leave --gguf out")
    writer = gguf.GGUFWriter(file, kind)
    writer.add_name(name)
    _add_settings(writer, config)
    splitting = _add_tokenizer(writer, folder, config.vocab_size)
    for tensor, value, raw in _convert_tensors(folder, config):
        writer.add_tensor(tensor, value, raw_dtype=raw)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    _check(folder, file)
    return "" if splitting else "only `spade model import` knows how its tokenizer splits text"


def _add_settings(writer: Any, config: Any) -> None:
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    rope = config.rope_parameters
    if rope["rope_type"] != "default":
        raise RunError(f"--gguf: does not write rotary embeddings of the type {rope['rope_type']}; leave --gguf out")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(head)
    writer.add_value_length(head)
    writer.add_rope_dimension_count(head)
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)


def _add_tokenizer(writer: Any, folder: Path, rows: int) -> bool:
    """Add the tokenizer, chat template and end tokens. Returns False if GGUF lacks a name for its pre-tokenizer."""
    from gguf import TokenType

    text = (folder / "tokenizer.json").read_text(encoding="utf-8")
    whole = json.loads(text)
    stages = (whole["pre_tokenizer"] or {}).get("pretokenizers", [whole["pre_tokenizer"]])
    model = whole["model"]
    if model["type"] != "BPE" or not any(stage and stage["type"] == "ByteLevel" for stage in stages):
        raise RunError(
            "--gguf: writes only byte-level BPE tokenizers, and this policy has another kind; leave --gguf out"
        )
    added = {token["id"]: token for token in whole["added_tokens"]}
    words = {number: word for word, number in model["vocab"].items()} | {
        number: token["content"] for number, token in added.items()
    }
    types = [
        TokenType.UNUSED if number not in words
        else TokenType.NORMAL if number not in added
        else TokenType.CONTROL if added[number]["special"]
        else TokenType.USER_DEFINED
        for number in range(rows)
    ]  # fmt: skip
    splitting = _name_splitting(stages)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(splitting or "default")
    writer.add_token_list([words.get(number, f"[PAD{number}]") for number in range(rows)])
    writer.add_token_types(types)
    writer.add_token_merges([each if isinstance(each, str) else " ".join(each) for each in model["merges"]])
    writer.add_string(WHOLE_TOKENIZER, text)
    settings = read_settings(folder)
    writer.add_chat_template(read_template(folder, settings))
    named = read_special_tokens(settings)
    numbers = {word: number for number, word in words.items()}
    for key, add in ("bos_token", writer.add_bos_token_id), ("pad_token", writer.add_pad_token_id):
        if named.get(key) in numbers:
            add(numbers[named[key]])
    ends = sorted(end_ids(folder), key=lambda number: (words.get(number) != named.get("eos_token"), number))
    if len(ends) > len(END_KINDS):
        raise RunError(f"--gguf: a file can name three tokens that end a turn, and this policy has {len(ends)}")
    for key, number in zip(END_KINDS, ends, strict=False):
        writer.add_uint32(f"tokenizer.ggml.{key}_token_id", number)
    return splitting is not None


def _name_splitting(stages: list[dict[str, Any]]) -> str | None:
    """Return GGUF's name of a pre-tokenizer with these stages, or None if GGUF lacks a name for it."""
    patterns = [stage["pattern"].get("Regex") for stage in stages if stage["type"] == "Split"]
    others = [stage["type"] for stage in stages if stage["type"] not in ("Split", "ByteLevel")]
    if others == ["Digits"] and not patterns:
        return "smollm"
    if others or len(patterns) > 1:
        return None
    if not patterns:
        return "gpt-2"
    return next((name for name, split in _SPLITS.items() if split == patterns[0]), None)


def _convert_tensors(folder: Path, config: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield each tensor: its name in GGUF, its numbers, and GGUF's type of the numbers if numpy lacks this type."""
    import gguf
    import torch
    from safetensors import safe_open

    kind = gguf.MODEL_ARCH[config.model_type.upper()]
    names = gguf.get_tensor_name_map(kind, config.num_hidden_layers)
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    with safe_open(folder / PARAMETERS, framework="pt") as file:
        for key in file.keys():  # noqa: SIM118  # no mapping
            if key == "lm_head.weight" and config.tie_word_embeddings:
                continue
            name = names.get_name(key, try_suffixes=(".weight", ".bias"))
            if name is None:
                raise RunError(f"--gguf: GGUF has no name for the tensor {key}; leave --gguf out")
            value = file.get_tensor(key)
            part = key.split(".")[-2]
            # The rotary embedding pairs neighbours in GGUF, and the two halves of a head in Transformers.
            if config.model_type == "llama" and part in heads:
                value = value.unflatten(0, (heads[part], 2, -1)).transpose(1, 2).reshape(value.shape)
            if value.dim() > 1 and value.dtype == torch.bfloat16:
                yield name, value.contiguous().view(torch.uint8).numpy(), gguf.GGMLQuantizationType.BF16
            else:
                yield name, value.float().contiguous().numpy(), None


def _check(folder: Path, file: Path) -> None:
    """Raise RunError unless folder and file give the same log-probabilities."""
    import torch

    from spade.policy import model as policy
    from spade.policy.model_folder import read_facts

    dtype = read_facts(folder).dtype
    own = _compute_logprobs(policy.load(folder, dtype=dtype, device=torch.device("cpu")))
    written = _compute_logprobs(read_gguf(file, dtype))
    difference = (own - written).abs().max().item()
    if not difference <= _TOLERANCE:
        raise RunError(
            f"--gguf: the log-probabilities of the file differ from the policy's by {difference:.2g}; leave --gguf out"
        )


def _compute_logprobs(model: Any) -> Any:
    import torch

    ids = torch.linspace(0, model.config.vocab_size - 1, _PROBED_TOKENS).long()
    with torch.no_grad():
        return model(input_ids=ids[None], use_cache=False).logits.float().log_softmax(-1)
