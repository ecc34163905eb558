"""Mark the syntax of a program for a page. The style sheet has a colour for each kind of word."""

from markupsafe import Markup, escape
from pygments.lexers.python import PythonLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, String

from spade.text import make_visible

KINDS = (
    ("keyword", Keyword), ("keyword", Operator.Word), ("text", String), ("comment", Comment), ("number", Number),
    ("named", Name.Function), ("named", Name.Class), ("named", Name.Decorator), ("named", Name.Builtin),
)  # fmt: skip
_LEXER = PythonLexer(stripnl=False, ensurenl=False)


def highlight_program(source: str) -> Markup:
    """Return a program as markup. Every word of the program is escaped."""
    parts = list[Markup]()
    for token, text in _LEXER.get_tokens(make_visible(source)):
        kind = next((kind for kind, tokens in KINDS if token in tokens), "")
        parts.append(Markup('<span class="s-{}">{}</span>').format(kind, text) if kind else escape(text))
    return Markup("").join(parts)
