"""The prompts for instruct models. They explain in full how a sound environment works."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from actors.text import rules, worlds
from actors.text.actions import answer
from actors.text.fences import WrittenProgram, find_program
from actors.text.profile import NO_SITUATION, ChatMessage, Document, Profile, Situation
from spade.config import Design, Play
from spade.protocol import MemorySeed
from spade.seeds import SEED_BITS, derive

_LABEL = re.compile(r"^\W*hint\W*:\W*", re.IGNORECASE)


@dataclass(frozen=True)
class Challenge:
    """The demands of a job in addition to its skill."""

    single_turn: bool
    """True for one question and answer, False for a course of actions."""

    difficulty: str
    """The difficulty as the prompt words it."""

    steps: int
    """The fewest actions that a good player needs."""


class FullProfile(Profile):
    """The prompts of both roles, in plain words, with whole programs as examples."""

    def __init__(self, design: Design, play: Play) -> None:
        self._settings = design
        self._max_turns = play.max_turns
        self._turns = str(play.max_turns)

    def design(
        self,
        skill: str,
        document: Document | None,
        seeds: Sequence[MemorySeed],
        avoid: MemorySeed | None,
        draw: int = 0,
        situation: Situation = NO_SITUATION,
    ) -> list[ChatMessage]:
        challenge = draw_challenge(self._settings, draw)
        interface, world, example = self._answer() if challenge.single_turn else self._describe_course(challenge.steps)
        parts = [self._write_task(skill, challenge)]
        if document is not None:
            parts.append(_write_document(document))
        parts += [interface, rules.PROGRAM, rules.PLAYER, world, f"{rules.EXAMPLE}\n\n{format_code(example)}"]
        parts += [_write_vary(seed) for seed in seeds]
        if avoid is not None:
            parts.append(_write_avoid(avoid))
        parts.append(rules.LAST)
        return [ChatMessage("system", rules.DESIGNER), ChatMessage("user", "\n\n".join(part.strip() for part in parts))]

    def program(self, completion: str) -> WrittenProgram | None:
        return find_program(answer(completion))

    def hint(self, source: str) -> list[ChatMessage]:
        return [
            ChatMessage("system", rules.HINTER),
            ChatMessage("user", f"{format_code(source)}\n\n{rules.HINT.strip()}"),
        ]

    def hint_text(self, completion: str) -> str:
        return find_hint(completion)

    def play(self, observation: str, hint: str | None, single_turn: bool = False) -> list[ChatMessage]:
        shown = f"{observation}\n\nHint: {hint}" if hint is not None else observation
        one_answer = single_turn or self._max_turns == 1
        words = rules.ONE_ANSWER if one_answer else fill_slots(rules.GAME, max_turns=self._turns)
        return [ChatMessage("system", words.strip()), ChatMessage("user", shown)]

    def _write_task(self, skill: str, challenge: Challenge) -> str:
        course = f"about {challenge.steps} or more actions long when played well"
        length = "answered in one turn" if challenge.single_turn else course
        asked = f"{challenge.difficulty} and {length}"
        return f"Design an environment that trains {skill}: {rules.SKILLS[skill]}. It shall be {asked}."

    def _answer(self) -> tuple[str, str, str]:
        """Return the interface, the rules and a worked example of a world that asks one question."""
        interface = fill_slots(rules.INTERFACE, max_turns="1", step=rules.ANSWER_STEP.strip("\n"))
        return interface, rules.ANSWER, worlds.ANSWER

    def _describe_course(self, steps: int) -> tuple[str, str, str]:
        """Return the interface, the rules and a worked example of a world that takes a course of actions."""
        shown = str(self._settings.max_turns)
        interface = fill_slots(rules.INTERFACE, max_turns=shown, step=rules.COURSE_STEP.strip("\n"))
        return interface, fill_slots(rules.COURSE, max_turns=self._turns, steps=str(steps)), worlds.COURSE


def draw_challenge(design: Design, draw: int) -> Challenge:
    """Derive the demands of a job from its number `draw`.

    All attempts of the job get the same demands, so that a failed attempt does not bring easier ones.
    """
    single_turn = derive(b"", "form", draw) < design.single_turn_share * 2**SEED_BITS
    name, steps = design.difficulties[derive(b"", "challenge", draw) % len(design.difficulties)]
    return Challenge(single_turn, name, steps)


def _write_document(document: Document) -> str:
    return (
        f"Here is a text about {document.title}:\n\n<text>\n{document.text}\n</text>\n\n"
        "Take a concept from it, such that nobody wins without grasping that concept. The world has to stand by "
        "itself: it never mentions the text, and the player has not read it."
    )


def write_reason(seed: MemorySeed, thing: str) -> str:
    """Write the reason why an environment is shown as an example to vary, with its figures.

    `thing` names the kind of environment.
    """
    if seed.win_rate is None:
        return f"This {thing} is sound and worth varying"
    return f"This earlier {thing} taught well: {_format_figures(seed, seed.win_rate)}"


def _format_figures(seed: MemorySeed, win_rate: float) -> str:
    won = f"players won {win_rate:.0%} of the time"
    if seed.regret is None:
        return won
    return f"{won} without a hint, and a hint raised their mean return by {seed.regret:.2f}"


def _write_vary(seed: MemorySeed) -> str:
    return (
        f"{write_reason(seed, 'environment')}. Learn from what makes it so and build something else: "
        f"another setting, another mechanism, a twist that asks for more.\n\n{format_code(seed.source)}"
    )


def _write_avoid(seed: MemorySeed) -> str:
    return (
        f"This earlier environment taught nothing: it was {seed.reason}. Do not repeat its fault."
        f"\n\n{format_code(seed.source)}"
    )


def find_hint(completion: str) -> str:
    """Return the hint in a completion, without a label."""
    return _LABEL.sub("", answer(completion).strip()).strip()


def format_code(source: str) -> str:
    """Return a program as a fenced block."""
    return f"```python\n{source.strip()}\n```"


def fill_slots(text: str, **slots: str) -> str:
    """Fill the {slots} of `text`. Other braces stay unchanged."""
    for name, value in slots.items():
        text = text.replace(f"{{{name}}}", value)
    return text
