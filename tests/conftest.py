"""Shared by all tests: the hypothesis profile, one torch thread, and a tiny random checkpoint."""

import functools
import gc
import inspect
import json
import os
import signal
from pathlib import Path

import pytest
import trio
from hypothesis import settings

settings.register_profile("spade", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("spade")

# Supervised processes do not look for modules where they are started; those of the tests live below the root.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")]))

# Threads of torch wait for each other in a loop. Where other processes take their cores, they waste most of the time.
os.environ |= {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}

# A shell ignores Ctrl-C in the processes that it starts in the background, and their children inherit this.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Imported modules live until the tests end, so the garbage collector skips them.
gc.disable()


def pytest_collection_finish():
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_addoption(parser):
    parser.addoption("--kuberay-crd", metavar="FILE", help="the schema of RayJob, against which a manifest is checked")


HANGS_S = 900  # on a busy machine no test takes as long


def pytest_itemcollected(item):
    """A test that waits for what never comes fails."""
    test = getattr(item, "obj", None)
    if inspect.iscoroutinefunction(test):

        @functools.wraps(test)
        async def bounded(*arguments, **fixtures):
            with trio.fail_after(HANGS_S):
                await test(*arguments, **fixtures)

        item.obj = bounded


SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TEMPLATE = """\
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""


DEEPSEEK = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 320,
    "q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8,
    "n_routed_experts": 8, "moe_intermediate_size": 16, "n_group": 2, "topk_group": 1, "num_experts_per_tok": 2,
}  # fmt: skip
"""Settings of a small DeepSeek-V3, whose cache is not of keys and values."""


def write_tokenizer(folder: Path, template: str = TEMPLATE) -> int:
    """A byte-level BPE with a Qwen-like template as Hugging Face lays it out; returns the size of the vocabulary."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=320, special_tokens=list(SPECIAL), initial_alphabet=alphabet, show_progress=False
    )
    bpe.train_from_iterator(["open the left door\nuser assistant system\nActions: left right"] * 4, trainer)
    bpe.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings | {"chat_template": template}))
    size: int = bpe.get_vocab_size()
    return size


def write_checkpoint(folder: Path, seed: int = 0) -> Path:
    """A random Qwen3 of some 20 thousand parameters with its tokenizer."""
    import torch
    from transformers import GenerationConfig, Qwen3Config, Qwen3ForCausalLM

    vocabulary = write_tokenizer(folder)
    end = [0, 2]  # <|endoftext|>, <|im_end|>
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = Qwen3ForCausalLM(
            Qwen3Config(
                vocab_size=vocabulary, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                num_attention_heads=4, num_key_value_heads=2, head_dim=8, max_position_embeddings=512,
                tie_word_embeddings=True, initializer_range=0.2, eos_token_id=end,
            )
        )  # fmt: skip
    model.generation_config = GenerationConfig(eos_token_id=end, pad_token_id=0)
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_checkpoint(tmp_path_factory) -> Path:
    """Folder of a tiny random Qwen3 checkpoint in the Hugging Face layout. Read only: tests share it."""
    return write_checkpoint(tmp_path_factory.mktemp("tiny"))
