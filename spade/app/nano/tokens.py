"""The nano model's tokenizer, its chat template, and conversations as token rows."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from actors.nano.players import ShownConversation
from actors.text.profile import ChatMessage
from spade.config import DomainName
from spade.tokens import Tokenizer

VOCABULARY = 1536
USER, ASSISTANT, SYSTEM, END, PAD = "<|user|>", "<|assistant|>", "<|system|>", "<|end|>", "<|pad|>"
SPECIAL = [PAD, END, USER, ASSISTANT, SYSTEM]

PIECES = "|".join(
    (
        r"\n[ \n]*class ",
        r"\n[ \n]*[a-z_@][^\n\d\"]*",  # matches a line of code up to its first digit or string
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
"""The longest pieces into which BPE may merge bytes. A line common to all programs is one token. Digits and words stay
separate."""

TEMPLATE = (
    "{% for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)

MARKS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
TOOL_PIECES = "|".join(
    (
        r'\{"name": "',
        r'", "arguments": \{"',
        r'": "?',
        r'", "',
        r'"?\}\}',
        r"(?:All requests are done\. Submit )?<answer>done</answer>\.?",
        r"\n\nUser: ",
    )
)

TOOL_TEMPLATE = """\
{%- macro signature(function) -%}
{%- set schema = function.parameters -%}
{{ function.name }}(
{%- for name, given in schema.properties.items() -%}
{{ name }}{{ '' if name in schema.required else '?' }}
{%- if given.enum and given | length == 2 %}={{ given.enum | join('|') }}
{%- elif given | length > 1 %}={{ given | tojson }}
{%- endif -%}
{{ '' if loop.last else ', ' }}
{%- endfor -%}
){{ function.description }}
{%- endmacro -%}
{%- if tools -%}
<|system|>{% for tool in tools %}{{ signature(tool.function) }}{{ '' if loop.last else '\\n' }}{% endfor %}<|end|>
{%- endif -%}
{%- for message in messages -%}
{%- if message.role == 'tool' -%}
<tool_response>{{ message.content }}</tool_response>
{%- else -%}
<|{{ message.role }}|>{{ message.content }}
{%- for call in message.tool_calls or [] -%}
<tool_call>{"name": {{ call.function.name | tojson }}, "arguments": {{ call.function.arguments | tojson }}}</tool_call>
{%- endfor -%}
<|end|>
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt %}<|assistant|>{% endif -%}
"""
"""The chat format of Hermes models, with each tool as a signature. JSON schemas would take a third of the context."""


class Form(NamedTuple):
    """The form of a world's conversations."""

    template: str
    """The chat template."""

    marks: tuple[str, ...]
    """Added tokens that are not special."""

    pieces: str
    """A regular expression of the longest pieces into which BPE may merge bytes."""


FORMS: Mapping[DomainName, Form] = {
    "games": Form(TEMPLATE, (), PIECES),
    "tools": Form(TOOL_TEMPLATE, MARKS, f"{TOOL_PIECES}|{PIECES}"),
}

Row = tuple[list[int], list[bool]]
"""The ids of a conversation and, for each, True if it is imitated."""


def make_tokenizer(texts: Iterator[str], form: Form, out: Path) -> Tokenizer:
    """Train a byte-level BPE that encodes a line common to all programs as one token, and save it at `out`.

    The layout is Hugging Face's, with the chat template inside tokenizer_config.json.
    """
    bpe = tokenizers.Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(form.pieces), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator((part for text in texts for part in split_at_marks(text, form)), trainer)
    bpe.add_tokens([AddedToken(mark, special=False, normalized=False) for mark in form.marks])
    fast = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=bpe, eos_token=END, pad_token=PAD, clean_up_tokenization_spaces=False
    )
    fast.chat_template = form.template
    fast.save_pretrained(out, save_jinja_files=False)
    return Tokenizer.load(out)


def split_at_marks(text: str, form: Form) -> list[str]:
    """Split a text at the marks and remove them, because they are tokens already."""
    return re.split("|".join(form.marks), text) if form.marks else [text]


def encode(tokenizer: Tokenizer, shown: ShownConversation) -> Row:
    """Encode a conversation into the tokens of a play. The assistant's words and the end of its turn are imitated."""
    [end] = tokenizer.end_ids
    ids: list[int] = []
    imitated: list[bool] = []
    unread: list[ChatMessage] = []
    answer: list[int] = []
    for message in shown.messages:
        if message.role != "assistant":
            unread.append(message)
            continue
        read = tokenizer.turn_ids(answer, unread) if answer else tokenizer.prompt_ids(unread, tools=shown.tools)
        answer = [*tokenizer.encode(message.content), end]
        ids += read + answer
        imitated += [False] * len(read) + [True] * len(answer)
        unread = []
    return ids, imitated
