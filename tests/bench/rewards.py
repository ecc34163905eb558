"""Compare what the kinds of reward pay for programs of a nano world that its own players play.

    python -m tests.bench.rewards --world tools --skilled 0.95 0.97 --programs 400
    python -m tests.bench.rewards --world games --skilled 0.4 0.9 --programs 400

A window is played as in a run of nano: two chunks of eight unhinted plays, and the hinted twins of the first. `skilled`
is the share of skilled players without and with the hint; the others take random actions. Void plays and averages of
skills do not occur, so learning potential is left out. In the world with tools, half of the programs that withhold
their rule lose the turns for wrong candidates. So luck decides these programs, as in an earlier form of the world.
"""

import random
from collections import defaultdict
from dataclasses import replace
from statistics import fmean

import msgspec

from actors.nano.demonstrations import make_generator
from actors.nano.levels import EVERY
from actors.nano.players import Simulation, play
from actors.nano.world import DrawnEnvironment, World
from actors.nano.worlds import WORLDS
from actors.text.profile import Document
from replay.ledger.records import PlayRecord
from replay.ledger.reward import score_of
from spade.app.nano.simulation import SIMULATIONS
from spade.config import load
from tests.bench.harness import columns, command, conclude

CONFIG = load("nano")
KINDS = ("regret", "progress", "finding", "win_rate")
FIELDS = {"games": ("everyday", "mathematics", "science"), "tools": ("code",)}


def play_window(
    world: World, rng: random.Random, environment: DrawnEnvironment, skilled: tuple[float, float]
) -> list[PlayRecord]:
    """Play a window of a program."""
    simulation = SIMULATIONS[world.name](environment.source)
    plays = []
    for chunk in range(CONFIG.play.window_chunks):
        for number in range(CONFIG.play.group_size):
            index, seed = chunk * CONFIG.play.group_size + number, rng.getrandbits(31)
            for hinted in (False, True) if chunk == 0 else (False,):
                plays.append(
                    play_once(world, rng, environment, simulation, skilled[hinted], seed, chunk, index, hinted)
                )
    return plays


def play_once(
    world: World, rng: random.Random, environment: DrawnEnvironment, simulation: Simulation,
    skilled: float, seed: int, chunk: int, index: int, hinted: bool,
) -> PlayRecord:  # fmt: skip
    """Play one instance by a player who is skilled with this probability."""
    informed = hinted or environment.knobs.printed
    player = (
        environment.family.player(environment.knobs, informed, rng) if rng.random() < skilled else world.guesser(rng)
    )
    played = play(simulation, player, seed, environment.hint if hinted else None, world.chat_format())
    turns = sum(message.role == "assistant" for message in played.shown.messages)
    return PlayRecord(
        f"{index}{hinted}", "e", chunk, index, hinted, "finished", episode_return=played.episode_return, turns=turns
    )


def name_part(world: World, environment: DrawnEnvironment) -> str:
    """Name the part of the world that a program belongs to: its level in games, its rule and its turns in tools."""
    knobs = environment.knobs
    if world.name == "games":
        return f"level {knobs.level}"
    return "printed" if knobs.printed else f"withheld, {'some' if knobs.spare else 'no'} spare"


def leave_to_luck(world: World, rng: random.Random, environment: DrawnEnvironment) -> DrawnEnvironment:
    """Return the same program without turns for a wrong candidate."""
    knobs = replace(environment.knobs, spare=0)
    return world.make(rng, environment.document, environment.skill, environment.family, knobs)


def pay_programs(
    domain: str, skilled: tuple[float, float], programs: int, seed: int = 0
) -> dict[str, dict[str, float]]:
    """Return the mean figures of the programs of each part of a world, with what each kind of reward pays."""
    world, rng = WORLDS[domain], make_generator(seed, 0)
    documents = [Document(f"d{n}", FIELDS[domain][n % len(FIELDS[domain])], f"red cart {n}", "") for n in range(6)]
    rows = defaultdict(list)
    for number in range(programs):
        levels = (EVERY[number % len(EVERY)],)
        environment = world.draw(rng, rng.choice(documents), rng.choice(world.skills), levels=levels)
        if world.name == "tools" and not environment.knobs.printed and rng.random() < 0.5:
            environment = leave_to_luck(world, rng, environment)
        plays = play_window(world, rng, environment, skilled)
        scores = {
            kind: score_of(
                plays, 0, False, None, None,
                msgspec.structs.replace(CONFIG, reward=msgspec.structs.replace(CONFIG.reward, kind=kind)),
            )
            for kind in KINDS
        }  # fmt: skip
        first = scores["regret"]
        figures = {"programs": 1.0, "win rate": first.win_rate, "regret": first.regret}
        rows[name_part(world, environment)].append(figures | {f"pays {k}": s.reward for k, s in scores.items()})
    return {
        part: {name: (len(some) if name == "programs" else fmean(row[name] for row in some)) for name in some[0]}
        for part, some in sorted(rows.items())
    }


def main() -> None:
    """Print the table."""
    asked = command(__doc__, world="tools", skilled=[0.95, 0.97], programs=400, seed=0, out=None).parse_args()
    found = pay_programs(asked.world, tuple(asked.skilled), asked.programs, asked.seed)
    names = next(iter(found.values()))
    conclude(asked.out, found, columns(found, {name: (name, ".2f") for name in names}, 22))


if __name__ == "__main__":
    main()
