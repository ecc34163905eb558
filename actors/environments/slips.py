"""Make slips, mistakes of players: offered actions with a little damage, no action, or the same action again. Pure.

A program must answer each slip without an error.
"""

import re
from collections.abc import Callable, Sequence
from enum import IntEnum, auto

from actors.environments.offers import read_offer

WRONG = "qqq"
"""A word that programs do not expect."""
FAR = "999"
"""A number outside most ranges."""
PROPER = 3
"""Every third action is undamaged, so that later states get slips as well."""

_COMMANDS = (
    re.compile(r"(?P<verb>[^\W\d]\w*)(?P<between>[\s:=,/(\[-]+)(?P<argument>.+)", re.DOTALL),
    re.compile(r"(?P<verb>[^\W\d_]+)(?P<between>_)(?P<argument>.+)", re.DOTALL),
)
"""The ways to write a verb with its argument. The first pattern matches forms such as `take lamp` and `take(lamp)`, the
second `take_lamp`."""
_NUMBER = re.compile(r"\d+")
_LAST_WORD = re.compile(r"(?<![^\W_])[^\W_]+(?=[\W_]*\Z)")


class Slip(IntEnum):
    """The kinds of slips, from the most to the least frequent. AGAIN repeats a proper action directly after it."""

    NO_ACTION = auto()
    VERB_ALONE = auto()
    EXTRA_WORD = auto()
    WRONG_ARGUMENT = auto()
    WRONG_LAST_WORD = auto()
    FAR_NUMBER = auto()
    ZERO = auto()
    AGAIN = auto()


Kind = tuple[Slip, int, str]
"""A slip, the number of its phase, and the verb of the action. For NO_ACTION the verb is ""."""


def list_slips(action: str) -> tuple[str, list[tuple[Slip, str]]]:
    """Return the verb of an action, and each possible slip with the damaged action.

    Numbers, places such as `0,0` and single words have the verb "", since most programs handle all of them in one place
    of their code.
    """
    command = next(filter(None, (form.fullmatch(action) for form in _COMMANDS)), None)
    verb, between, argument = command.group("verb", "between", "argument") if command else ("", " ", action)
    start = action.removesuffix(argument)
    slips = {
        Slip.VERB_ALONE: verb,
        Slip.EXTRA_WORD: f"{action}{' ' if argument[-1:] in ')]' else between}{WRONG}",
        Slip.WRONG_ARGUMENT: start + WRONG,
        Slip.WRONG_LAST_WORD: start + _LAST_WORD.sub(WRONG, argument),
        Slip.FAR_NUMBER: start + _NUMBER.sub(FAR, argument),
        Slip.ZERO: start + _NUMBER.sub("0", argument),
    }
    different = {text: slip for slip, text in reversed(slips.items()) if text not in ("", action)}
    return verb, [(slip, text) for text, slip in reversed(different.items())]


class SlippingPlayer:
    """A player that makes each kind of slip once for each verb of each phase. Between slips it makes proper actions.

    The player damages the actions that an observation offers, and the next action of `path`, which solves the instance.
    Two turns belong to the same phase of the game if they share one of these actions. The first proper actions of a
    play follow the path, except its last action. So slips also happen in states that only a good player reaches.
    Further proper actions come from `proper`, which gets the observation.
    """

    def __init__(self, proper: Callable[[str], str], path: Sequence[str], observation: str) -> None:
        self._proper = proper
        self._path = path
        self._phases: list[set[str]] = []
        self._made: set[Kind] = set()
        self._waiting: set[Kind] = set()
        self._walked = len(path) < 2
        self._plays = self._steps = self._turns = 0
        self._again = ""
        self._find_slips(observation)

    @property
    def busy(self) -> bool:
        """True if a possible slip was not made yet, or if no play has followed the path up to its last action."""
        return bool(self._waiting) or not self._walked

    def begin(self) -> None:
        """Begin a play. Every other play begins with a proper action, if there is a path."""
        self._plays += 1
        self._steps, self._turns, self._again = 0, -(self._plays % 2) if self._path else 0, ""

    def act(self, observation: str) -> str:
        """Return the next action."""
        slips, phase = self._find_slips(observation)
        self._turns += 1
        if self._again:
            action, self._again = self._again, ""
        elif not slips or self._turns % PROPER == 0:
            action = self._follow_path(observation)
            kind = (Slip.AGAIN, phase, list_slips(action)[0])
            self._again = "" if kind in self._made else action
            self._made.add(kind)
        else:
            kind = min(slips, key=lambda each: each[0])
            action = slips[kind]
            self._made.add(kind)
            self._waiting.discard(kind)
        return action

    def _follow_path(self, observation: str) -> str:
        if self._steps + 1 >= len(self._path):
            return self._proper(observation)
        self._steps += 1
        self._walked = self._walked or self._steps + 1 == len(self._path)
        return self._path[self._steps - 1]

    def _find_slips(self, observation: str) -> tuple[dict[Kind, str], int]:
        """Return the possible slips after an observation that were not made yet, and the number of its phase."""
        offer = read_offer(observation)
        actions = [*(() if offer.kind == "guessed" else offer.readings[0]), *self._path[self._steps : self._steps + 1]]
        phase = self._find_phase(actions)
        slips: dict[Kind, str] = {(Slip.NO_ACTION, phase, ""): ""} if actions else {}
        for action in actions:
            verb, damaged = list_slips(action)
            for slip, text in damaged:
                slips.setdefault((slip, phase, verb), text)
        slips = {kind: text for kind, text in slips.items() if kind not in self._made}
        self._waiting |= slips.keys()
        return slips, phase

    def _find_phase(self, actions: Sequence[str]) -> int:
        """Return the number of the phase with one of these actions, or of a new phase. Without actions, it is -1."""
        if not actions:
            return -1
        known = (number for number, phase in enumerate(self._phases) if not phase.isdisjoint(actions))
        number = next(known, len(self._phases))
        if number == len(self._phases):
            self._phases.append(set())
        self._phases[number].update(actions)
        return number
