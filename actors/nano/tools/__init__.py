"""The families with tools; between them they cover the six skills and the four variants of tool use."""

from actors.nano.families.base import Family
from actors.nano.tools.account import Account
from actors.nano.tools.base import Guesser, Knobs
from actors.nano.tools.desk import Desk
from actors.nano.tools.match import Match
from actors.nano.tools.program import Body, render
from actors.nano.tools.room import Room
from actors.nano.tools.stock import Stock

FAMILIES: tuple[Family[Knobs, Body], ...] = (Stock(), Match(), Room(), Account(), Desk())

__all__ = ["FAMILIES", "Body", "Guesser", "Knobs", "render"]
