"""The nano model's tokenizer, its chat template, and conversations as token rows."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from actors.text.profile import ChatMessage

VOCABULARY = 1536
USER, ASSISTANT, SYSTEM, END, PAD = "<|user|>", "<|assistant|>", "<|system|>", "<|end|>", "<|pad|>"
SPECIAL = [PAD, END, USER, ASSISTANT, SYSTEM]

PIECES = "|".join(
    (
        r"\n[ \n]*class ",
        r"\n[ \n]*[a-z_@][^\n\d\"]*",  # a line of code up to its first digit or string
        r", (?:over|True), False, \{\}",
        r"[ ({\[]*self\.[a-z_.]+",
        r" ?\\boxed\{",
        r" ?\d",
        r" ?[A-Z]?[a-z]+",
        r" ?[^\s\dA-Za-z\\]+",
        r"\n+",
        r"[\s\S]",
    )
)
"""The longest pieces that merges may form: a line common to all programs is one token; digits and words stay apart."""

TEMPLATE = (
    "{% for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)

Row = tuple[list[int], list[bool]]
"""The ids of a conversation and, for each, True if it is imitated."""


def train_tokenizer(texts: Iterator[str]) -> Tokenizer:
    """Train a byte-level BPE that encodes a line common to all programs as one token."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def save_tokenizer(tokenizer: Tokenizer, out: Path) -> None:
    """Save in the Hugging Face layout, with the chat template inside tokenizer_config.json."""
    fast = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer, eos_token=END, pad_token=PAD, clean_up_tokenization_spaces=False
    )
    fast.chat_template = TEMPLATE
    fast.save_pretrained(out, save_jinja_files=False)


def encode(tokenizer: Tokenizer, conversation: Sequence[ChatMessage]) -> Row:
    """A conversation as the template renders it; the assistant's words and the end of its turn are imitated."""
    ids: list[int] = []
    imitated: list[bool] = []
    for message in conversation:
        said = tokenizer.encode(f"<|{message.role}|>{message.content}{END}").ids
        ids += said
        imitated += [False, *[message.role == "assistant"] * (len(said) - 1)]
    return ids, imitated
