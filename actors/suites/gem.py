"""GEM: five games of several turns. The paper names neither its games nor a protocol, so both are our choice."""

from pathlib import Path

from actors.suites.programs import make_class_name, write_program
from actors.suites.suite import Suite
from spade.config import ProtocolName
from spade.evaluations import Protocol, Sampling, SuiteItem
from spade.protocol import Needs

GAMES = ("Mastermind-v0-hard", "Wordle-v0-hard", "Sokoban-v0-hard", "TowerofHanoi-v0-hard", "Crosswords-v0-easy")
_SAMPLING = Sampling(temperature=1.0, max_tokens=8_192)
_TURNS = 50  # the turn limit of Sokoban, the highest among the five games


def read(protocol: Protocol, _: Path | None) -> list[SuiteItem]:
    """See Reader. Each game has the instances of the seeds from 0."""
    programs = {game: write_program("GemEnv", make_class_name(game), game=game) for game in GAMES}
    return [
        SuiteItem(f"{game}/{seed}", game, source, seed)
        for game, source in programs.items()
        for seed in range(protocol.draws)
    ]


def _make_protocol(name: ProtocolName, draws: int) -> Protocol:
    return Protocol(
        name=name, prompt="{problem}", sampling=_SAMPLING, samples=1, grading="box", turns=_TURNS, draws=draws
    )


GEM = Suite(
    "gem",
    {"paper": _make_protocol("paper", 32), "short": _make_protocol("short", 4)},
    read,
    packages={"gem-llm": "0.1.0"},
    needs=Needs(step_s=120.0),  # drawing a hard room of Sokoban takes up to 20 s of processor time
    remedy="pip install --no-deps gem-llm==0.1.0",
)
