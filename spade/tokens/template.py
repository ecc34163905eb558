r"""The layout of a chat template: its text around the messages of a conversation, and the places of the messages.

The template never sees the content of a message, nor a string of a tool. It renders a stand-in, and the content
replaces the stand-in afterwards. So content can neither forge the template's text nor steer its code. A layout only
depends on the roles and the tools' structure.

If a template edits a stand-in by `trim` (or `strip()`), also of a text around it, or by `tojson`, the same edit is made
to the content. Other edits (`split('</think>')`, `lstrip('\n')`) do not change the content. `forgets` finds out if the
template leaves thoughts out.

The jinja2 environment is sandboxed, and set up as in transformers, so that both render alike. Only the date differs:
a template that writes it always writes DATE. So the same question has the same tokens on every day.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, NoReturn

import jinja2
from jinja2 import TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from spade.errors import RunError
from spade.text import as_line
from spade.tokens.foreign import run_template
from spade.tokens.stand_ins import Slot, make_stand_in, mark_quoted, split_pieces
from spade.tokens.tools import FIRST, NO_TOOLS, Tools

DATE = datetime(2024, 7, 26)
"""The date that templates write. Llama's templates write it, too, if they get no date."""


class Template:
    """A checkpoint's chat template. `variables` are its variables other than the messages."""

    def __init__(self, text: str, variables: Mapping[str, Any]) -> None:
        """Compile the template. Raises RunError if it does not parse."""
        self._template = _compile(text)
        self._variables = variables

    def layout(self, roles: Sequence[str], tools: Tools = NO_TOOLS, *, prompt: bool) -> tuple[str | Slot, ...]:
        """Return the template's texts, with a slot for each message and for each string of `tools` that it shows.

        `prompt` adds the beginning of an answer. Raises RunError if the template refuses the conversation, or does not
        show each message once and in order.
        """
        chat = [{"role": role, "content": make_stand_in(number)} for number, role in enumerate(roles)]
        return self.laid_out(chat, tools.structure(), prompt=prompt)

    def laid_out(
        self,
        chat: Sequence[Mapping[str, Any]],
        tools: Sequence[Any] | None,
        variables: Mapping[str, bool] | None = None,
        *,
        prompt: bool,
    ) -> tuple[str | Slot, ...]:
        """Return the `layout` of a chat of stand-ins. An empty content does not get a slot."""
        layout = tuple(split_pieces(self.rendered(chat, tools, variables, prompt=prompt)))
        slots = [piece.number for piece in layout if isinstance(piece, Slot)]
        if [number for number in slots if number < FIRST] != [n for n, each in enumerate(chat) if each["content"]]:
            roles = [each["role"] for each in chat]
            raise RunError(
                f"the model's chat template drops, repeats or rearranges the messages of "
                f"{as_line(' '.join(roles), 200)}; "
                "it cannot hold a conversation"
            )
        return layout

    def forgets(self, begin: str, end: str) -> bool:
        """Return True if an answer's text between `begin` and `end` disappears after the user's next message.

        Raises RunError if the template refuses the conversation.
        """
        question, thought, reply, follow_up = (make_stand_in(number) for number in range(4))
        answer = f"{begin}\n{thought}\n{end}\n\n{reply}"
        chat = [("user", question), ("assistant", answer), ("user", follow_up)]
        shown = self.rendered([{"role": role, "content": content} for role, content in chat], prompt=True)
        return thought.strip() not in shown and reply.strip() in shown

    def rendered(
        self,
        chat: Sequence[Mapping[str, Any]],
        tools: Sequence[Any] | None = None,
        variables: Mapping[str, bool] | None = None,
        *,
        prompt: bool,
    ) -> str:
        """Render a conversation. `variables` override the checkpoint's.

        Raises RunError if the template refuses the conversation.
        """
        others = {**self._variables, **(variables or {})}

        def render() -> str:
            text = self._template.render(messages=chat, tools=tools, add_generation_prompt=prompt, **others)
            text.encode()  # a tokenizer does not accept half of a surrogate pair
            return text

        return run_template("refuses the conversation", render)


class _Generation(Extension):
    """`{% generation %}…{% endgeneration %}` marks text that a model said. Rendering ignores the marks."""

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
    return run_template("does not parse", partial(environment.from_string, text))


def _raise_exception(message: str) -> NoReturn:
    raise TemplateError(message)


def _strftime_now(format: str) -> str:
    return DATE.strftime(format)


def _tojson(value: object, ensure_ascii: bool = False, **options: Any) -> str:
    # jinja2's own filter escapes characters for HTML, and no model was trained on text in that form.
    return mark_quoted(json.dumps(value, ensure_ascii=ensure_ascii, **options))
