"""Demonstrations for the warm start: designs, hints, and plays by skilled players mixed with guessers.

Players are skilled more often with the hint than without. So the model has seen skilled play, and reinforcement
learning has to make it frequent.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from actors.nano.levels import EVERY
from actors.nano.players import ShownConversation, Simulation, play
from actors.nano.world import DrawnEnvironment, World
from actors.text.profile import ChatMessage, Document
from spade.protocol import MemorySeed
from spade.seeds import derive

PLAYS = 8
"""Plays shown of one environment. Half of them are hinted."""

VARIED = 0.5
"""Probability that a design is a variation of another environment."""

AVOIDED = 0.25
"""Probability that a design request names an environment to avoid."""


@dataclass(frozen=True)
class Demonstration:
    """All demonstrations of one environment. The model imitates the assistant's messages of each conversation."""

    environment: DrawnEnvironment
    """The environment."""

    design: ShownConversation
    """A design request and the program."""

    hint: ShownConversation
    """A hint request and the hint."""

    plays: Sequence[ShownConversation]
    """Plays, half of them hinted."""


def make_generator(seed: int, index: int) -> random.Random:
    """Return the random generator of one demonstration."""
    return random.Random(derive(b"", "nano demonstration", seed, index))


def choose(
    world: World, rng: random.Random, documents: Sequence[Document]
) -> tuple[DrawnEnvironment, DrawnEnvironment | None]:
    """Draw an environment. With probability VARIED, make it a variation of another one.

    Returns the environment, and the varied one or None.
    """
    document, skill = rng.choice(documents), rng.choice(world.skills)
    if rng.random() >= VARIED:
        return world.draw(rng, document, skill), None
    levels = (rng.choice(EVERY),) if world.by_level else EVERY
    seed = world.draw(rng, rng.choice(documents), skill, levels=levels)
    return world.vary(rng, document, seed), seed


def make_demonstration(
    world: World, simulate: Callable[[str], Simulation], seed: int, index: int, documents: Sequence[Document]
) -> Demonstration:
    """Make the demonstration with this index. `simulate` makes a program playable."""
    rng = make_generator(seed, index)
    environment, varied = choose(world, rng, documents)
    simulation = simulate(environment.source)
    return Demonstration(
        environment,
        ShownConversation(design(world, rng, environment, varied, documents)),
        ShownConversation([*world.profile.hint(environment.source), ChatMessage("assistant", environment.hint)]),
        [show(world, rng, environment, simulation, hinted) for hinted in (False, True) * (PLAYS // 2)],
    )


def design(
    world: World,
    rng: random.Random,
    environment: DrawnEnvironment,
    varied: DrawnEnvironment | None,
    documents: Sequence[Document],
) -> list[ChatMessage]:
    """Return the designer's conversation: a request and the program."""
    seeds = [make_memory(varied)] if varied else []
    avoid = make_memory(draw_other(world, rng, environment, documents)) if rng.random() < AVOIDED else None
    request = world.profile.design(environment.skill, environment.document, seeds, avoid)
    return [*request, ChatMessage("assistant", environment.source)]


def draw_other(
    world: World, rng: random.Random, environment: DrawnEnvironment, documents: Sequence[Document]
) -> DrawnEnvironment:
    """Draw an environment to avoid, of the same skill and another family.

    If all documents suit only the environment's own family, the drawn one is of this family too.
    """
    alone = all(world.list_suited(document, environment.skill) == [environment.family] for document in documents)
    while True:
        drawn = world.draw(rng, rng.choice(documents), environment.skill)
        if alone or drawn.family is not environment.family:
            return drawn


def make_memory(environment: DrawnEnvironment) -> MemorySeed:
    """Convert an environment to a memory record. The nano prompts read only its source."""
    return MemorySeed(environment=environment.name, source=environment.source, regret=0.0, win_rate=0.0)


def show(
    world: World, rng: random.Random, environment: DrawnEnvironment, simulation: Simulation, hinted: bool
) -> ShownConversation:
    """Play once. One player, either skilled or a guesser, makes all moves."""
    shares = world.skilled_hinted if hinted else world.skilled_unhinted
    skilled = rng.random() < shares[environment.knobs.level - 1]
    informed = hinted or environment.knobs.printed
    player = environment.family.player(environment.knobs, informed, rng) if skilled else world.guesser(rng)
    hint = environment.hint if hinted else None
    return play(simulation, player, rng.getrandbits(31), hint, world.chat_format()).shown
