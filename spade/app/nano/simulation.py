"""Runs programs of the nano worlds in this process.

A program with tools runs in the same runtime (`ToolProgram`) that plays it in a sandbox.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from actors.nano.games import GameSimulation
from actors.nano.players import Simulation
from actors.sandbox.inside.child import load
from actors.sandbox.inside.tools.runtime import ToolProgram
from actors.text.conversation import Move
from spade.config import DomainName
from spade.protocol import Observed, ToolResult

MOST_TURNS = 1_000
OBSERVATION_BYTES = 65_536


class ToolSimulation:
    """A `Simulation` of a program with tools."""

    def __init__(self, source: str) -> None:
        program = load(source, MOST_TURNS, OBSERVATION_BYTES)
        assert isinstance(program, ToolProgram), "a program of this world has the base class for tools"
        self._program = program

    @property
    def turns(self) -> int:
        """See Simulation."""
        return self._program.arguments["max_turns"]

    def reset(self, seed: int) -> Observed:
        """See Simulation."""
        answer = self._program.reset(seed)
        return convert_answer(answer, msgspec.json.encode(answer["tools"]).decode())

    def answer(self, move: Move) -> Observed:
        """See Simulation."""
        return convert_answer(self._program.act([(call.name, call.arguments) for call in move.calls], move.action))

    def solution(self) -> list[tuple[str, str]]:
        """Return the calls that win the present instance, each with its arguments as JSON."""
        calls: list[tuple[str, str]] = self._program.solve()["calls"]  # type: ignore[assignment]
        return calls


def convert_answer(answer: dict[str, Any], tools: str = "") -> Observed:
    """Convert an answer of the runtime to the form that the sandbox's host returns."""
    results = tuple(ToolResult(each["text"], each["refused"]) for each in answer.get("results", ()))
    return Observed(
        observation=answer["text"],
        reward=answer["reward"],
        terminated=answer["terminated"],
        results=results,
        tools=tools,
        done=answer["done"],
        instructions=answer["instructions"],
    )


SIMULATIONS: Mapping[DomainName, Callable[[str], Simulation]] = {"games": GameSimulation, "tools": ToolSimulation}
"""By world: the class that runs a program in this process."""
