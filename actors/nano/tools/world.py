"""The nano world of tool use."""

from actors.nano.levels import LEVELS
from actors.nano.prompts import NanoProfile
from actors.nano.tools import FAMILIES, ToolGuesser, render
from actors.nano.world import World
from actors.text.conversation import CallFormat, ToolChatFormat
from actors.text.toolcalls import DIALECTS
from spade.config import DOMAINS
from spade.protocol import MOST_CALLS

_PROFILE = NanoProfile(FAMILIES, ("code",))

TOOLS = World(
    name="tools",
    families=FAMILIES,
    skills=DOMAINS["tools"].skills,
    render=render,
    profile=_PROFILE,
    chat_format=lambda: ToolChatFormat(_PROFILE.play, CallFormat(DIALECTS[0]), MOST_CALLS),
    guesser=ToolGuesser,
    # Without the hint, skilled players win less than in games: they must guess, and a wrong write may end the play.
    skilled_unhinted=(0.65,) * LEVELS,
    skilled_hinted=(0.85,) * LEVELS,
    by_level=False,
)
