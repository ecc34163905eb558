"""A play as a conversation of the model with a program.

`ChatFormat` writes the messages to the model and reads its answers. Each domain has one. `Conversation` tracks turns,
the end of the play and its return.
"""

from actors.text.conversation.chat_format import ChatFormat, Move, Opening
from actors.text.conversation.games import GameChatFormat, format_examples
from actors.text.conversation.tools import CallFormat, ToolChatFormat
from actors.text.conversation.turns import Conversation, Player, ProgramAnswer, Step, play_conversation

__all__ = [
    "CallFormat",
    "ChatFormat",
    "Conversation",
    "GameChatFormat",
    "Move",
    "Opening",
    "Player",
    "ProgramAnswer",
    "Step",
    "ToolChatFormat",
    "format_examples",
    "play_conversation",
]  # fmt: skip
