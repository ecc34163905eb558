"""The prompts for instruct models: what a sound environment is, said in full."""

import re
from collections.abc import Sequence

from actors.actions import answer
from actors.prompts import Document, Message
from spade.protocol import MemorySeed
from spade.seeds import derive

SKILLS = {
    "mathematical reasoning": (
        "working with quantities, equations, number properties and estimates until an exact conclusion holds",
        "balancing unknown weights; steering a recurrence to a target; sharing stock under divisibility rules",
    ),
    "logical deduction": (
        "combining facts and rules, keeping track of what is still possible, and ruling out the rest",
        "finding who holds what from yes-or-no questions; opening a lock by clues; telling liars from truth-tellers",
    ),
    "spatial reasoning": (
        "keeping positions, directions, shapes and their transformations in mind",
        "finding a way through rooms seen one at a time; packing pieces; turning a solid until a face shows",
    ),
    "pattern recognition": (
        "seeing the regularity behind examples and carrying it to a case not seen before",
        "learning an unknown rule from trials; forecasting a hidden cycle; decoding a cipher by feeding it text",
    ),
    "optimization": (
        "finding the best, or a good enough, choice under limits of budget, time or capacity",
        "tuning controls of an unknown machine; planning deliveries; spending few measurements to find a peak",
    ),
    "causal inference": (
        "telling cause from coincidence by acting on a system and watching what follows",
        "finding which switch drives which lamp; isolating a faulty part; separating a cause from its side effect",
    ),
}

# Difficulty and the fewest actions a good player needs; a document always asks for the same one.
CHALLENGES = (("moderately difficult", 5), ("difficult", 8), ("very difficult", 12))
_SINGLE_TURN_ONE_IN = 4

_DESIGNER = (
    "You design small worlds that teach a reasoning agent. Each is a complete Python program that runs unattended. "
    "You write correct code, and you care that winning takes the skill in question and nothing else will do."
)

_INTERFACE = r'''
Write exactly this interface:

```python
import random  # whatever the program uses is imported by the program


class DescriptiveNameEnv:
    def __init__(self, max_turns: int = 20):
        """Give every attribute a value. Whoever runs the world may choose another `max_turns`."""

    def reset(self, seed: int) -> tuple[str, dict]:
        """Start the instance that belongs to `seed`; return the first observation and info."""

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        """Carry out one action; return observation, reward, terminated, truncated, info."""

    def solution(self) -> list[str]:
        """The actions, in order, that win the instance of the latest reset; each as `step` takes it."""

    def close(self) -> None:
        """Let go of what is held."""
```
'''

_PROGRAM_RULES = r"""
The program:
- Everything is in one class that depends on no other file. Its name says what the world is about and ends in Env.
- Import the standard library only; `math_verify` is there as well, where mathematical answers have to be compared.
- There are no files, no network, no threads, no clock, no sleeping and no `input()`.
- `__init__` sets every attribute the class ever uses, so that nothing is missing when `reset` is called.
- No attribute is called `solution`, nor like any other method: it would hide the method.
- All chance comes from `random.Random(seed)`, made in `reset`. Another seed gives another instance (other values,
  places or rules), the same seed always the same one.
- `info` is a dict each time, if only an empty one. The reward is a float.
- No action raises an exception. Text that is empty, misspelt, out of range or of the wrong kind gets an observation
  that says what is expected, with reward 0.
- Before each division make sure that the divisor is not zero.
- In an f-string write each literal brace twice. In an ordinary string `\b` is a control character: to show \boxed
  write the backslash twice or use a raw string.
- `solution()` works out the winning actions from the hidden state of this instance; what it returns is replayed and
  has to win.
"""

_PLAYER_RULES = r"""
What the player sees and says:
- The player ends each reply with one action in \boxed{...}. `step` receives what is inside the braces, without the
  box, or "" if there was none.
- Each observation shows the state as far as the player may know it, what the last action did, which actions there
  are, and that the reply must end with \boxed{action}.
- The last line of each observation lists the actions as `Actions: look turn_left weigh:2:5` (single spaces between
  them, neither spaces nor commas within one) or as `Actions: 1..20` for whole numbers. If there are too many, list a
  handful that are valid.
"""

_MULTI_TURN_RULES = r"""
The world:
- It goes on over many turns. An action is a command that changes the state or finds something out, one for each
  turn; it is never the final answer to a riddle.
- Something that matters is hidden at the start and comes to light only by acting: the player has to explore,
  remember and plan.
- The goal takes a sequence of at least {steps} well-chosen actions. No line of play reaches it within three turns,
  not even a lucky one.
- Random actions, or one action again and again, should lose nearly always.
- The reward tells how far the player has come, between 0 and 1: less than 1.0 until the goal is reached, 1.0 at the
  goal and nowhere else. Let it take several values on the way.
- `terminated` is True at the goal, and also when the world is lost: an irrevocable mistake, or `max_turns` used up
  (then with the reward reached so far, under 1.0).
"""

_SINGLE_TURN_RULES = r"""
The world:
- It is over after one action, whatever `max_turns` says: the player reads a problem and gives its answer.
- All that is needed to derive the answer is in the first observation, and deriving it takes at least three steps
  that build on each other.
- There are so many possible answers that a guess is right less than once in a hundred times.
- The reward is 1.0 for the right answer and nowhere else; an answer that is partly right earns some of it.
  `terminated` is True after the answer.
- The line of actions shows the form of an answer: a range, or a few examples of which none is right.
- Compare answers by value, not by spelling. The closing observation says what was wrong about the answer, in
  particular, and never what the right one was.
"""

_ANSWER = (
    "Think first about the hidden state, the rule, and how each kind of careless play fails. "
    "Then write the whole program in one ```python block, and nothing after it."
)

_HINTER = (
    "You coach a player who is about to enter a small world. You have read its program; the player never sees it and "
    "does not know the values drawn for this instance."
)

_HINT = r"""
Write one hint of two to four sentences:
- the one insight or strategy that makes the difference in this world, true for every seed;
- the form in which an action has to be written.
Do not give the answer away: no hidden value, no winning sequence, nothing that holds for one instance only. Do not
speak of the program or its code. Reply with the hint alone.
"""

_PLAYER = r"""
You play a text game in turns. Each message shows what you see after your last action.
Reason about it first: what you know, what is still hidden, and what each possible action would bring or tell you.
Then end your reply with one action in the form \boxed{action}. The last box counts, and only what is inside it; you
get one action each turn.
""".strip()

_BLOCK = re.compile(r"^```(?:python|py)?[ \t]*\n(.*?)^```[ \t]*$", re.DOTALL | re.MULTILINE | re.IGNORECASE)
_ENVIRONMENT = re.compile(r"^class\s+\w+", re.MULTILINE)
_LABEL = re.compile(r"^\W*hint\W*:\W*", re.IGNORECASE)


class FullProfile:
    """Both roles in plain words, whole programs as examples."""

    def design(
        self, skill: str, document: Document, seeds: Sequence[MemorySeed], avoid: MemorySeed | None
    ) -> list[Message]:
        parts = [
            _task(skill, document),
            _document(document),
            _INTERFACE,
            _PROGRAM_RULES,
            _PLAYER_RULES,
            _world(document),
        ]
        parts += [_vary(seed) for seed in seeds]
        if avoid is not None:
            parts.append(_avoid(avoid))
        parts.append(_ANSWER)
        return [Message("system", _DESIGNER), Message("user", "\n\n".join(part.strip() for part in parts))]

    def program(self, completion: str) -> str | None:
        blocks = [block for block in _BLOCK.findall(answer(completion)) if _ENVIRONMENT.search(block)]
        return blocks[-1] if blocks else None

    def hint(self, source: str) -> list[Message]:
        return [Message("system", _HINTER), Message("user", f"{_code(source)}\n\n{_HINT.strip()}")]

    def hint_text(self, completion: str) -> str:
        return _LABEL.sub("", answer(completion).strip()).strip()

    def play(self, observation: str, hint: str | None) -> list[Message]:
        told = f"{observation}\n\nHint: {hint}" if hint is not None else observation
        return [Message("system", _PLAYER), Message("user", told)]

    def turn(self, observation: str) -> Message:
        return Message("user", observation)


def single_turn(document: Document) -> bool:
    """True for the documents (one in four) that ask for one answer instead of a course of actions."""
    return derive(b"", "form", document.id) % _SINGLE_TURN_ONE_IN == 0


def challenge(document: Document) -> tuple[str, int]:
    """Difficulty and number of steps a document asks for."""
    return CHALLENGES[derive(b"", "challenge", document.id) % len(CHALLENGES)]


def _task(skill: str, document: Document) -> str:
    meaning, concepts = SKILLS[skill]
    difficulty, steps = challenge(document)
    length = "answered in one turn" if single_turn(document) else f"about {steps} or more actions long when played well"
    return (
        f"Design an environment that trains {skill}: {meaning}. It shall be {difficulty} and {length}.\n"
        f"Worlds of this skill might be, to give you the idea (find your own): {concepts}."
    )


def _document(document: Document) -> str:
    return (
        f"Here is a text about {document.title}:\n\n<text>\n{document.text}\n</text>\n\n"
        "Take a concept from it, such that nobody wins without grasping that concept. The world has to stand by "
        "itself: it never mentions the text, and the player has not read it."
    )


def _world(document: Document) -> str:
    if single_turn(document):
        return _SINGLE_TURN_RULES
    return _MULTI_TURN_RULES.replace("{steps}", str(challenge(document)[1]))


def _vary(seed: MemorySeed) -> str:
    return (
        f"This earlier environment taught well: players won {seed.win_rate:.0%} of the time without a hint, and a hint "
        f"raised their mean return by {seed.regret:.2f}. Learn from what makes it so and build something else: another "
        f"setting, another mechanism, a twist that asks for more.\n\n{_code(seed.source)}"
    )


def _avoid(seed: MemorySeed) -> str:
    return (
        f"This earlier environment taught nothing: it was {seed.reason}. Do not repeat its fault."
        f"\n\n{_code(seed.source)}"
    )


def _code(source: str) -> str:
    return f"```python\n{source.strip()}\n```"
