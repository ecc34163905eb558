"""The families of environments. Together they cover the six skills."""

from actors.nano.families.base import Family, Player, read_offered, write_message
from actors.nano.families.boxes import Boxes
from actors.nano.families.game import Game, Knobs
from actors.nano.families.levers import Levers
from actors.nano.families.search import Search
from actors.nano.families.steps import Steps
from actors.nano.families.valley import Valley
from actors.nano.families.walk import Walk

FAMILIES: tuple[Game, ...] = (Search(), Steps(), Boxes(), Walk(), Valley(), Levers())

__all__ = ["FAMILIES", "Family", "Game", "Knobs", "Player", "read_offered", "write_message"]
