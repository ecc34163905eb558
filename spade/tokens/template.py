r"""The layout of a chat template: its text around the messages of a conversation, and the places of the messages.

The template never sees the content of a message: it renders a stand-in, which the content replaces afterwards. So
content can neither forge the template's text nor steer its code, and a layout depends on the roles alone. Two edits are
recognised by their effect on a stand-in, and repeated on the content: `trim` (or `strip()`), also of a text around it,
and `tojson`. Others (`split('</think>')`, `lstrip('\n')`) do not change the content; `forgets` finds the template that
leaves thoughts out.

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
from spade.tokens.foreign import from_template

# A stand-in is one character of a private plane between two kinds of white space, which a template's trimming takes
# off. JSON moves the character to the other private plane.
_LEFT, _RIGHT = "\u1680", "\u205f"
_PLAIN, _QUOTED = 0xF0000, 0x100000
_PRIVATE = f"[{chr(_PLAIN)}-{chr(_QUOTED + 0xFFFF)}]"
_STAND_IN = re.compile(f"({_LEFT}?)({_PRIVATE})({_RIGHT}?)")


@dataclass(frozen=True)
class Slot:
    """The place of a message's content, and the template's edits of it."""

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
    """A checkpoint's chat template. `variables`: its variables beside the messages."""

    def __init__(self, text: str, variables: Mapping[str, Any]) -> None:
        """Raises RunError if it does not parse."""
        self._template = _compile(text)
        self._variables = variables

    def layout(self, roles: Sequence[str], *, prompt: bool) -> tuple[str | Slot, ...]:
        """Texts of a conversation of `roles`, with a slot for each message; `prompt` adds the beginning of an answer.

        Raises RunError if the template refuses the conversation or does not show each message once and in order.
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
        """True if the text between `begin` and `end` in an answer is left out after the user's next message.

        Raises RunError if the template refuses the conversation.
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
