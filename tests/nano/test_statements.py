"""The nano programs' first observations tell exactly whether the rule is printed."""

import random

from hypothesis import given
from hypothesis import strategies as st

from actors.nano.families import FAMILIES, Family
from actors.nano.players import instantiate
from actors.nano.prompts import NanoProfile
from actors.nano.world import make
from actors.text.profile import Document
from actors.text.prompts import FullProfile
from spade.config import SKILLS, Design, Play

TIDES = Document("s1", "science", "Tides", "")


@given(st.sampled_from(FAMILIES), st.integers(0, 2**32), st.integers(0, 2**32))
def test_a_first_observation_reveals_the_method_if_and_only_if_it_prints_the_rule(
    family: Family, draw: int, instance: int
) -> None:
    rng = random.Random(draw)
    knobs = family.knobs(rng)
    drawn = make(rng, TIDES, SKILLS[0], family, knobs)
    observation, _ = instantiate(drawn.source).reset(instance)
    assert NanoProfile().reveals(f"{drawn.name}Env", observation) == knobs.printed


def test_of_another_program_nothing_is_known() -> None:
    assert NanoProfile().reveals("TidesEnv", "It is odd.") is None
    assert FullProfile(Design(), Play()).reveals("TidesSearchEnv", "It is odd.") is None
