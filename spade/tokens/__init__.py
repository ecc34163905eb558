"""Convert text to tokens and back by the checkpoint's own tokenizer and chat template, without transformers.

Only the template writes control tokens: the beginning and end of a turn, marks of thoughts and tools. Texts of
programs, documents, hints and sources never enter the template, nor do the strings of schemas. All these texts are
encoded with a vocabulary without control tokens.
"""

from spade.tokens.chat import MOST_MESSAGES, Chat
from spade.tokens.dialogue import Dialogue, TurnPrompt, make_dialogues
from spade.tokens.marks import THINK, THOUGHT
from spade.tokens.plain import LONG_TEXT
from spade.tokens.tokenizer import ChatPrompt, Tokenizer
from spade.tokens.tools import NO_TOOLS, Tools
from spade.tokens.training_examples import ExampleMessage, TrainingExample, write_example

__all__ = [
    "LONG_TEXT",
    "MOST_MESSAGES",
    "NO_TOOLS",
    "THINK",
    "THOUGHT",
    "Chat",
    "ChatPrompt",
    "Dialogue",
    "ExampleMessage",
    "Tokenizer",
    "Tools",
    "TrainingExample",
    "TurnPrompt",
    "make_dialogues",
    "write_example",
]
