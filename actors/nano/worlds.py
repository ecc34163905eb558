"""The nano worlds by domain."""

from collections.abc import Mapping

from actors.nano.games import GAMES
from actors.nano.tools.world import TOOLS
from actors.nano.world import World
from spade.config import DomainName

WORLDS: Mapping[DomainName, World] = {"games": GAMES, "tools": TOOLS}
