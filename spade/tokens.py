"""Text to tokens and back by the checkpoint's own tokenizer and chat template, without transformers.

The template runs in the same sandboxed jinja2 environment that transformers uses, so both render alike.
"""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, Protocol

import tokenizers
from jinja2 import Template, TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from spade.decoding import printable
from spade.errors import RunError
from spade.foreign import GenerationFile, TokenizerFile, from_template, read_json, read_text

_Settings = dict[str, Any]


class Message(Protocol):
    """Anything with a role (system, user, assistant) and content."""

    @property
    def role(self) -> str: ...

    @property
    def content(self) -> str: ...


class Tokenizer:
    """A checkpoint's tokenizer of `size` tokens; `end_ids` are those that end a turn."""

    def __init__(
        self, bpe: tokenizers.Tokenizer, template: Template, variables: Mapping[str, Any], end_ids: frozenset[int]
    ) -> None:
        self._bpe = bpe
        self._template = template
        self._variables = variables
        self.end_ids = end_ids
        self.size: int = bpe.get_vocab_size()
        special = [token.content for token in bpe.get_added_tokens_decoder().values() if token.special]
        self._special = re.compile("|".join(re.escape(text) for text in special) or "(?!)")

    @classmethod
    def load(cls, folder: Path, *, thinking: bool = False) -> "Tokenizer":
        """Read tokenizer.json, the chat template and the end-of-turn tokens of a Hugging Face folder.

        `thinking` is the template's `enable_thinking`. Raises RunError where a file is missing or does not parse.
        """
        settings = read_json(folder / "tokenizer_config.json", _Settings)
        try:
            bpe = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        except Exception as error:  # the Rust side raises bare Exception
            raise RunError(f"{folder / 'tokenizer.json'}: {printable(error)}") from None
        variables = {**_special_tokens(settings), "enable_thinking": thinking}
        return cls(bpe, _compile(_template_text(folder, settings)), variables, end_ids(folder))

    def encode(self, text: str) -> list[int]:
        """Ids of `text`; special tokens written out in it count as such, none is added."""
        ids: list[int] = self._bpe.encode(text, add_special_tokens=False).ids
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Text of `ids` without special tokens."""
        text: str = self._bpe.decode(ids, skip_special_tokens=True)
        return text

    def render(self, messages: Sequence[Message], *, add_generation_prompt: bool = False) -> str:
        """The conversation as the model reads it. Raises RunError where the template refuses it.

        Special tokens written out in a message are taken out: an environment's observation must not end its own turn
        and go on in the agent's name.
        """
        chat = [{"role": message.role, "content": self._plain(message.content)} for message in messages]

        def rendered() -> str:
            text = self._template.render(messages=chat, add_generation_prompt=add_generation_prompt, **self._variables)
            text.encode()  # no tokenizer takes half of a surrogate pair
            return text

        return from_template("refuses the conversation", rendered)

    def _plain(self, content: str) -> str:
        # Again and again: taking one out may put the halves of another together.
        while (plain := self._special.sub("", content)) != content:
            content = plain
        return content

    def prompt_ids(self, messages: Sequence[Message]) -> list[int]:
        """Ids of the conversation up to where the assistant is to speak."""
        return self.encode(self.render(messages, add_generation_prompt=True))

    def turn_ids(self, messages: Sequence[Message], sampled: Sequence[int], observation: Message) -> list[int]:
        """What stands between an assistant's sampled tokens and its next turn, so that these are never tokenised again.

        `messages` is the conversation before the assistant spoke; `sampled` the ids it sampled, whose end-of-turn
        token, if it came to that, is not repeated. The text is what the template puts after an assistant's content.
        """
        marker = _marker([*messages, observation])
        chat = [*messages, _Assistant(marker), observation]
        rest = self.render(chat, add_generation_prompt=True).partition(marker)[2]
        if not rest:
            raise RunError("the model's chat template drops what an assistant said; it cannot hold a conversation")
        ids = self.encode(rest)
        ended = bool(sampled) and sampled[-1] in self.end_ids
        return ids[1:] if ended and ids[0] in self.end_ids else ids


class _Assistant:
    role = "assistant"

    def __init__(self, content: str) -> None:
        self.content = content


def _marker(messages: Sequence[Message]) -> str:
    """A word that occurs in none of `messages` (a program may print anything)."""
    marker = "assistant-content"
    while any(marker in message.content for message in messages):
        marker += "-here"
    return marker


def end_ids(folder: Path) -> frozenset[int]:
    """Tokens that end a turn: generation_config's eos_token_id and the tokenizer's eos_token."""
    found: set[int] = set()
    generation = folder / "generation_config.json"
    if generation.is_file():
        listed = read_json(generation, GenerationFile).eos_token_id
        found.update([listed] if isinstance(listed, int) else listed or [])
    eos = _special_tokens(read_json(folder / "tokenizer_config.json", _Settings)).get("eos_token")
    entries = read_json(folder / "tokenizer.json", TokenizerFile).added_tokens
    found.update(entry.id for entry in entries if entry.content == eos)
    if not found:
        raise RunError(f"{folder}: neither generation_config.json nor tokenizer_config.json names an end-of-turn token")
    return frozenset(found)


def _special_tokens(settings: Mapping[str, Any]) -> dict[str, str]:
    """`bos_token`, `eos_token` and the like as templates use them; each is a string or an object with `content`."""
    tokens = {}
    for name in ("bos_token", "eos_token", "pad_token", "unk_token"):
        value = settings.get(name)
        text = value.get("content") if isinstance(value, dict) else value
        if isinstance(text, str):
            tokens[name] = text
    return tokens


def _template_text(folder: Path, settings: Mapping[str, Any]) -> str:
    file = folder / "chat_template.jinja"
    if file.is_file():
        return read_text(file)
    template = settings.get("chat_template")
    if isinstance(template, list):
        named = [entry for entry in template if isinstance(entry, dict) and entry.get("name") == "default"]
        template = named[-1].get("template") if named else None
    if not isinstance(template, str):
        raise RunError(
            f"{folder}: no chat template (chat_template.jinja or tokenizer_config.json); use an instruct checkpoint"
        )
    return template


class _Generation(Extension):
    """`{% generation %}…{% endgeneration %}` marks what a model said; rendering lets it through."""

    tags = {"generation"}  # noqa: RUF012 (declared so by jinja2)

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


def _compile(text: str) -> Template:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    return from_template("does not parse", partial(environment.from_string, text))


def _raise_exception(message: str) -> NoReturn:
    raise TemplateError(message)


def _strftime_now(format: str) -> str:
    return datetime.now().strftime(format)


def _tojson(value: object, ensure_ascii: bool = False, **options: Any) -> str:
    # jinja2's own filter escapes HTML, which no model was trained on.
    return json.dumps(value, ensure_ascii=ensure_ascii, **options)
