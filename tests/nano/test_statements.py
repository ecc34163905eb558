"""The nano programs' first observations tell exactly whether the rule is printed."""

import random

from hypothesis import given
from hypothesis import strategies as st

from actors.nano.games import GAMES
from actors.nano.world import World
from actors.nano.worlds import WORLDS
from actors.text.profile import Document
from actors.text.prompts import FullProfile
from spade.app.nano.simulation import SIMULATIONS
from spade.config import Design, Play

TIDES = Document("s1", "science", "Tides", "")


@given(st.sampled_from(list(WORLDS.values())), st.integers(0, 2**32), st.integers(0, 2**32))
def test_a_first_observation_reveals_the_method_if_and_only_if_it_prints_the_rule(
    world: World, draw: int, instance: int
) -> None:
    rng = random.Random(draw)
    drawn = world.draw(rng, TIDES, rng.choice(world.skills), unseen=bool(draw % 2))
    observation = SIMULATIONS[world.name](drawn.source).reset(instance).observation
    assert world.profile.reveals(f"{drawn.name}Env", observation) == drawn.knobs.printed


def test_of_another_program_nothing_is_known() -> None:
    assert GAMES.profile.reveals("TidesEnv", "It is odd.") is None
    assert FullProfile(Design(), Play()).reveals("TidesSearchEnv", "It is odd.") is None
