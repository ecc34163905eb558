"""Demonstrations for the warm start: designs, hints, and plays by skilled players and guessers mixed.

Skill is a minority habit that hints call up: reinforcement learning is left to make it the rule.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from actors.nano.levels import EVERY
from actors.nano.players import Shown, Simulation, play
from actors.nano.world import DrawnEnvironment, World
from actors.text.profile import ChatMessage, Document
from spade.protocol import MemorySeed
from spade.seeds import derive

PLAYS = 8
"""Plays that are shown of one environment, half of them hinted."""

VARIED = 0.5
AVOIDED = 0.25


@dataclass(frozen=True)
class Demonstration:
    """All that is shown of one environment; in each conversation the assistant's messages are imitated."""

    environment: DrawnEnvironment
    design: Shown
    hint: Shown
    plays: Sequence[Shown]


def generator(seed: int, index: int) -> random.Random:
    """The randomness of one demonstration."""
    return random.Random(derive(b"", "nano demonstration", seed, index))


def choose(
    world: World, rng: random.Random, documents: Sequence[Document]
) -> tuple[DrawnEnvironment, DrawnEnvironment | None]:
    """An environment and, at times, the one it varies."""
    document, skill = rng.choice(documents), rng.choice(world.skills)
    if rng.random() >= VARIED:
        return world.draw(rng, document, skill), None
    levels = (rng.choice(EVERY),) if world.by_level else EVERY
    seed = world.draw(rng, rng.choice(documents), skill, levels=levels)
    return world.vary(rng, document, seed), seed


def demonstrate(
    world: World, simulate: Callable[[str], Simulation], seed: int, index: int, documents: Sequence[Document]
) -> Demonstration:
    """The demonstration with this index; `simulate` makes a program one that can be played."""
    rng = generator(seed, index)
    environment, varied = choose(world, rng, documents)
    simulation = simulate(environment.source)
    return Demonstration(
        environment,
        Shown(design(world, rng, environment, varied, documents)),
        Shown([*world.profile.hint(environment.source), ChatMessage("assistant", environment.hint)]),
        [show(world, rng, environment, simulation, hinted) for hinted in (False, True) * (PLAYS // 2)],
    )


def design(
    world: World,
    rng: random.Random,
    environment: DrawnEnvironment,
    varied: DrawnEnvironment | None,
    documents: Sequence[Document],
) -> list[ChatMessage]:
    """The designer's side: a request, and the program."""
    seeds = [memory(varied)] if varied else []
    avoid = memory(other(world, rng, environment, documents)) if rng.random() < AVOIDED else None
    request = world.profile.design(environment.skill, environment.document, seeds, avoid)
    return [*request, ChatMessage("assistant", environment.source)]


def other(
    world: World, rng: random.Random, environment: DrawnEnvironment, documents: Sequence[Document]
) -> DrawnEnvironment:
    """Something to avoid: an environment of the same skill, and of another family where a document means one."""
    alone = all(world.meant(document, environment.skill) == [environment.family] for document in documents)
    while True:
        drawn = world.draw(rng, rng.choice(documents), environment.skill)
        if alone or drawn.family is not environment.family:
            return drawn


def memory(environment: DrawnEnvironment) -> MemorySeed:
    """An environment as the memory would show it; the nano prompts read its source alone."""
    return MemorySeed(environment=environment.name, source=environment.source, regret=0.0, win_rate=0.0)


def show(
    world: World, rng: random.Random, environment: DrawnEnvironment, simulation: Simulation, hinted: bool
) -> Shown:
    """One play. Its player is skilled, or not, from its beginning to its end."""
    shares = world.skilled_hinted if hinted else world.skilled_unhinted
    skilled = rng.random() < shares[environment.knobs.level - 1]
    informed = hinted or environment.knobs.printed
    player = environment.family.player(environment.knobs, informed, rng) if skilled else world.guesser(rng)
    hint = environment.hint if hinted else None
    return play(simulation, player, rng.getrandbits(31), hint, world.talk()).shown
