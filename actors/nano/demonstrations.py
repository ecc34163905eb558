"""Demonstrations for the warm start: designs, hints, and plays by skilled players and guessers mixed.

Skill is a minority habit that hints call up: reinforcement learning is left to make it the rule.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from actors.nano.families import FAMILIES
from actors.nano.players import Guesser, instantiate, play
from actors.nano.world import DrawnEnvironment, draw, vary
from actors.text.conversation import GameTalk
from actors.text.profile import ChatMessage, Document, Profile
from spade.config import SKILLS
from spade.protocol import MemorySeed
from spade.seeds import derive

SKILLED_UNHINTED = 0.55
SKILLED_HINTED = 0.85
PLAYS = 8
"""Plays that are shown of one environment, half of them hinted."""

VARIED = 0.5
AVOIDED = 0.25


@dataclass(frozen=True)
class Demonstration:
    """All that is shown of one environment; in each conversation the assistant's messages are imitated."""

    environment: DrawnEnvironment
    design: Sequence[ChatMessage]
    hint: Sequence[ChatMessage]
    plays: Sequence[Sequence[ChatMessage]]


def generator(seed: int, index: int) -> random.Random:
    """The randomness of one demonstration."""
    return random.Random(derive(b"", "nano demonstration", seed, index))


def choose(rng: random.Random, documents: Sequence[Document]) -> tuple[DrawnEnvironment, DrawnEnvironment | None]:
    """An environment and, at times, the one it varies."""
    document, skill = rng.choice(documents), rng.choice(SKILLS)
    if rng.random() >= VARIED:
        return draw(rng, document, skill), None
    seed = draw(rng, rng.choice(documents), skill)
    return vary(rng, document, seed), seed


def demonstrate(seed: int, index: int, documents: Sequence[Document], profile: Profile) -> Demonstration:
    """The demonstration with this index."""
    rng = generator(seed, index)
    environment, varied = choose(rng, documents)
    instance = instantiate(environment.source)
    return Demonstration(
        environment,
        design(rng, environment, varied, documents, profile),
        [*profile.hint(environment.source), ChatMessage("assistant", environment.hint)],
        [show(rng, environment, instance, hinted, profile) for hinted in (False, True) * (PLAYS // 2)],
    )


def design(
    rng: random.Random,
    environment: DrawnEnvironment,
    varied: DrawnEnvironment | None,
    documents: Sequence[Document],
    profile: Profile,
) -> list[ChatMessage]:
    """The designer's side: a request, and the program."""
    seeds = [memory(varied)] if varied else []
    avoid = memory(other(rng, environment, documents)) if rng.random() < AVOIDED else None
    request = profile.design(environment.skill, environment.document, seeds, avoid)
    return [*request, ChatMessage("assistant", environment.source)]


def other(rng: random.Random, environment: DrawnEnvironment, documents: Sequence[Document]) -> DrawnEnvironment:
    """Something to avoid: an environment of the same skill, and of another family where the skill has one."""
    kin = [family for family in FAMILIES if environment.skill in family.skills]
    while True:
        drawn = draw(rng, rng.choice(documents), environment.skill)
        if len(kin) == 1 or drawn.family is not environment.family:
            return drawn


def memory(environment: DrawnEnvironment) -> MemorySeed:
    """An environment as the memory would show it; the nano prompts read its source alone."""
    return MemorySeed(environment=environment.name, source=environment.source, regret=0.0, win_rate=0.0)


def show(
    rng: random.Random, environment: DrawnEnvironment, instance: object, hinted: bool, profile: Profile
) -> Sequence[ChatMessage]:
    """One play. Its player is skilled, or not, from its beginning to its end."""
    skilled = rng.random() < (SKILLED_HINTED if hinted else SKILLED_UNHINTED)
    informed = hinted or environment.knobs.printed
    player = environment.family.player(environment.knobs, informed, rng) if skilled else Guesser(rng)
    hint = environment.hint if hinted else None
    return play(instance, player, rng.getrandbits(31), hint, GameTalk(profile.play)).messages
