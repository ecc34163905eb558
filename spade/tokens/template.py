r"""A chat template, read for its layout: what it puts around the messages of a conversation, and where they go.

The template never sees what is said: it renders a stand-in for each message, and the content is put in its place
afterwards. So a content can neither forge what the template writes nor steer what it does, and a layout depends on
the roles alone. Two edits are told by what they do to a stand-in, and done to the content: `trim` (or `strip()`), also
of a text around it, and `tojson`. Others (`split('</think>')`, `lstrip('\n')`) leave a content as it is; `forgets`
tells whether there are some that leave thoughts out.

The environment is the sandboxed one of transformers, so that both render alike.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, NoReturn

import jinja2
from jinja2 import TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from spade.errors import RunError
from spade.foreign import from_template

# A stand-in is one character of a private plane between two kinds of white space, which a template's trimming takes
# off. JSON moves the character to the other private plane.
_LEFT, _RIGHT = "\u1680", "\u205f"
_PLAIN, _QUOTED = 0xF0000, 0x100000
_PRIVATE = f"[{chr(_PLAIN)}-{chr(_QUOTED + 0xFFFF)}]"
_STAND_IN = re.compile(f"({_LEFT}?)({_PRIVATE})({_RIGHT}?)")


@dataclass(frozen=True)
class Slot:
    """Where the content of a message goes, and what the template does to it."""

    message: int
    trim_left: bool = False
    trim_right: bool = False
    quoted: bool = False

    def text(self, content: str) -> str:
        """`content` as the template shows it."""
        if self.trim_left:
            content = content.lstrip()
        if self.trim_right:
            content = content.rstrip()
        return json.dumps(content, ensure_ascii=False)[1:-1] if self.quoted else content


class Template:
    """A checkpoint's chat template. `variables` are what it knows beside the messages."""

    def __init__(self, text: str, variables: Mapping[str, Any]) -> None:
        """Raises RunError where it does not parse."""
        self._template = _compile(text)
        self._variables = variables

    def layout(self, roles: Sequence[str], *, prompt: bool) -> tuple[str | Slot, ...]:
        """A conversation of `roles`, with `prompt` up to where the assistant is to speak: texts, and a slot a message.

        Raises RunError where the template refuses the conversation or does not show each message once and in order.
        """
        chat = [{"role": role, "content": _stand_in(number)} for number, role in enumerate(roles)]
        layout = tuple(_pieces(self._rendered(chat, prompt)))
        if [piece.message for piece in layout if isinstance(piece, Slot)] != list(range(len(roles))):
            raise RunError(
                f"the model's chat template drops, repeats or rearranges the messages of {' '.join(roles)}; "
                "it cannot hold a conversation"
            )
        return layout

    def forgets(self, begin: str, end: str) -> bool:
        """True where what stands between `begin` and `end` in an answer is not shown once the user has gone on.

        Raises RunError where the template refuses the conversation.
        """
        asked, thought, said, seen = (_stand_in(number) for number in range(4))
        answer = f"{begin}\n{thought}\n{end}\n\n{said}"
        chat = [("user", asked), ("assistant", answer), ("user", seen)]
        shown = self._rendered([{"role": role, "content": content} for role, content in chat], prompt=True)
        return thought.strip() not in shown and said.strip() in shown

    def _rendered(self, chat: Sequence[Mapping[str, str]], prompt: bool) -> str:
        def render() -> str:
            text = self._template.render(messages=chat, add_generation_prompt=prompt, **self._variables)
            text.encode()  # no tokenizer takes half of a surrogate pair
            return text

        return from_template("refuses the conversation", render)


def _stand_in(number: int) -> str:
    return f"{_LEFT}{chr(_PLAIN + number)}{_RIGHT}"


def _pieces(rendered: str) -> Iterator[str | Slot]:
    end = 0
    for found in _STAND_IN.finditer(rendered):
        if found.start() > end:
            yield rendered[end : found.start()]
        left, character, right = found.groups()
        yield Slot(ord(character) & 0xFFFF, not left, not right, ord(character) >= _QUOTED)
        end = found.end()
    if end < len(rendered):
        yield rendered[end:]


class _Generation(Extension):
    """`{% generation %}…{% endgeneration %}` marks what a model said; rendering lets it through."""

    tags = {"generation"}  # noqa: RUF012 (declared so by jinja2)

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


def _compile(text: str) -> jinja2.Template:
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
    text = json.dumps(value, ensure_ascii=ensure_ascii, **options)
    return re.sub(_PRIVATE, lambda found: chr(ord(found.group()) & 0xFFFF | _QUOTED), text)
