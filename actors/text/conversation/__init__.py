"""A play as a conversation of the model with a program.

`Talk` words the messages to the model and reads its answers. Each domain has one. `Conversation` tracks turns, the end
of the play and its return.
"""

from actors.text.conversation.games import GameTalk, format_examples
from actors.text.conversation.talk import Move, Opening, Talk
from actors.text.conversation.tools import CallFormat, ToolTalk
from actors.text.conversation.turns import Conversation, Player, Seen, Step, play_conversation

__all__ = [
    "CallFormat",
    "Conversation",
    "GameTalk",
    "Move",
    "Opening",
    "Player",
    "Seen",
    "Step",
    "Talk",
    "ToolTalk",
    "format_examples",
    "play_conversation",
]  # fmt: skip
