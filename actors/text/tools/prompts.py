"""The prompts of tool use for instruct models, assembled from the parts in `rules.py`."""

from collections.abc import Sequence

from actors.text.actions import answer
from actors.text.fences import WrittenProgram, find_program
from actors.text.profile import NO_SITUATION, ChatMessage, Document, Profile, Situation
from actors.text.prompts import fill_slots, find_hint, format_code, write_reason
from actors.text.tools import players, rules
from actors.text.tools.example import LENDING
from spade.config import DOMAINS, Design, Play, ToolUse
from spade.protocol import MemorySeed
from spade.seeds import SEED_BITS, derive

CALLS_A_REQUEST = 3
NUMBERS = ("two", "three", "four", "five", "six", "seven", "eight")
"""The possible numbers of requests of a program, in words."""


class ToolProfile(Profile):
    """The prompts of both roles, in plain words. A job has a setting and a variant besides its skill."""

    def __init__(self, design: Design, play: Play, tools: ToolUse) -> None:
        self._design = design
        self._weights = tools.variants
        self._turns = str(play.max_turns)

    def situation(self, settings: Sequence[str], draw: int) -> Situation:
        """See Profile. The setting and the variant are drawn independently."""
        return Situation(
            settings[derive(b"", "setting", draw) % len(settings)],
            _choose_weighted(DOMAINS["tools"].variants, self._weights, derive(b"", "variant", draw) / 2**SEED_BITS),
        )

    def design(
        self,
        skill: str,
        document: Document | None,
        seeds: Sequence[MemorySeed],
        avoid: MemorySeed | None,
        draw: int = 0,
        situation: Situation = NO_SITUATION,
    ) -> list[ChatMessage]:
        difficulty, calls = self._design.difficulties[derive(b"", "challenge", draw) % len(self._design.difficulties)]
        slots = {"max_turns": self._turns, "requests": count_requests(calls), "calls": str(calls)}
        parts = [_write_task(skill, situation, difficulty, slots)]
        if document is not None:
            parts.append(_write_quarry(document))
        fixed = (rules.INTERFACE, rules.PROGRAM, rules.TOOLS, rules.REQUESTS, rules.SOLUTION)
        parts += [fill_slots(part, **slots) for part in fixed]
        parts.append(f"{rules.EXAMPLE}\n\n{format_code(LENDING)}")
        parts += [_write_vary(seed) for seed in seeds]
        if avoid is not None:
            parts.append(
                f"This earlier service taught nothing: it was {avoid.reason}. Do not repeat its fault."
                f"\n\n{format_code(avoid.source)}"
            )
        parts.append(rules.LAST)
        return [ChatMessage("system", rules.DESIGNER), ChatMessage("user", "\n\n".join(part.strip() for part in parts))]

    def program(self, completion: str) -> WrittenProgram | None:
        return find_program(answer(completion), ("reset", "solution"))

    def hint(self, source: str) -> list[ChatMessage]:
        return [
            ChatMessage("system", players.HINTER),
            ChatMessage("user", f"{format_code(source)}\n\n{players.HINT.strip()}"),
        ]

    def hint_text(self, completion: str) -> str:
        return find_hint(completion)

    def play(self, observation: str, hint: str | None, single_turn: bool = False) -> list[ChatMessage]:
        """See Profile. Both arms are told how to submit.

        `single_turn` has no effect, because no service asks one question alone.
        """
        shown = observation if hint is None else f"{observation}\n\nHint: {hint}"
        return [ChatMessage("system", fill_slots(players.SYSTEM, max_turns=self._turns)), ChatMessage("user", shown)]

    def screen(self, source: str, replayed: str, suspects: Sequence[str]) -> list[ChatMessage]:
        parts = [format_code(source), f"Its own solution, replayed:\n\n<transcript>\n{replayed}\n</transcript>"]
        if suspects:
            words = ", ".join(f"`{suspect}`" for suspect in suspects)
            parts.append(
                f"These words stand in arguments of the solution, and in no request or result before: {words}. A "
                "player may still come to know them in another way; look at each."
            )
        parts.append(players.SCREEN.strip())
        return [ChatMessage("system", players.SCREENER), ChatMessage("user", "\n\n".join(parts))]


def count_requests(calls: int) -> str:
    """Return the number of requests of a program whose solution has `calls` calls, in words.

    It is a third of the calls, plus one, and at least two and at most eight.
    """
    return NUMBERS[max(0, min(len(NUMBERS), round(calls / CALLS_A_REQUEST)) - 1)]


def _choose_weighted(names: Sequence[str], weights: Sequence[float], share: float) -> str:
    """Return the name at `share` (0 to 1) of the sum of weights. A name of weight 0 is never returned."""
    left = share * sum(weights)
    drawn = [(name, weight) for name, weight in zip(names, weights, strict=True) if weight]
    for name, weight in drawn:
        left -= weight
        if left < 0:
            return name
    return drawn[-1][0]  # reached only because of rounding errors


def _write_task(skill: str, situation: Situation, difficulty: str, slots: dict[str, str]) -> str:
    setting = f": {situation.setting}" if situation.setting else " of your choice"
    return (
        f"Design a service that trains {skill}: {rules.SKILLS[skill]}. It simulates an everyday setting{setting}. "
        f"It makes {slots['requests']} requests, and a player who errs nowhere needs about {slots['calls']} calls of "
        f"tools for all of them; it shall be {difficulty}.\n{rules.VARIANTS.get(situation.variant, '')}"
    )


def _write_quarry(document: Document) -> str:
    return (
        f"Here is a text about {document.title}:\n\n<text>\n{document.text}\n</text>\n\n"
        "Use it as a quarry: take at least two things from it, such as names, forms of identifiers, fields, limits or "
        "error cases, and give them to your service. The requests are about the setting above, never about the text; "
        "no tool and no request mentions it, and the player has not read it."
    )


def _write_vary(seed: MemorySeed) -> str:
    return (
        f"{write_reason(seed, 'service')}. Learn from what makes it so and build something else: "
        f"other data, other tools, an obstacle that asks for more.\n\n{format_code(seed.source)}"
    )
