"""The families with tools. Together they cover the six skills and the four variants of tool use."""

from actors.nano.families.base import Family
from actors.nano.tools.account import Account
from actors.nano.tools.base import ServiceKnobs, ToolGuesser
from actors.nano.tools.desk import DeskFamily
from actors.nano.tools.match import Match
from actors.nano.tools.program import ServiceBody, render
from actors.nano.tools.room import Room
from actors.nano.tools.stock import Stock

FAMILIES: tuple[Family[ServiceKnobs, ServiceBody], ...] = (Stock(), Match(), Room(), Account(), DeskFamily())

__all__ = ["FAMILIES", "ServiceBody", "ServiceKnobs", "ToolGuesser", "render"]
