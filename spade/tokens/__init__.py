"""Text to tokens and back by the checkpoint's own tokenizer and chat template, without transformers.

Control tokens (a turn's begin and end, marks of thoughts and tools) come from the template alone. Texts of programs,
documents, hints and sources never enter the template, nor do the strings of schemas; a vocabulary without control
tokens encodes them.
"""

from spade.tokens.chat import MOST_MESSAGES, Chat
from spade.tokens.dialogue import Dialogue, Reading, dialogues
from spade.tokens.plain import LONG_TEXT
from spade.tokens.tokenizer import THINK, THOUGHT, ChatPrompt, Tokenizer
from spade.tokens.tools import NO_TOOLS, Tools

__all__ = [
    "LONG_TEXT",
    "MOST_MESSAGES",
    "NO_TOOLS",
    "THINK",
    "THOUGHT",
    "Chat",
    "ChatPrompt",
    "Dialogue",
    "Reading",
    "Tokenizer",
    "Tools",
    "dialogues",
]
