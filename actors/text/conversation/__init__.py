"""A play as a conversation of the model with a program.

`Talk` is what is said to the model, and what is read in its answers; each domain has one. `Conversation` is whose turn
it is, how the play ended, and what it returned.
"""

from actors.text.conversation.games import GameTalk, say_examples
from actors.text.conversation.talk import Move, Opening, Talk
from actors.text.conversation.tools import Tongue, ToolTalk
from actors.text.conversation.turns import Conversation, Player, Seen, Step, converse

__all__ = [
    "Conversation",
    "GameTalk",
    "Move",
    "Opening",
    "Player",
    "Seen",
    "Step",
    "Talk",
    "Tongue",
    "ToolTalk",
    "converse",
    "say_examples",
]  # fmt: skip
