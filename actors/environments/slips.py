"""Make slips: offered actions with a little damage. A program must answer each of them without an error. Pure."""

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
"""The ways to write a verb with its argument: first forms such as `take lamp`, then `take_lamp`."""
_NUMBER = re.compile(r"\d+")
_LAST_WORD = re.compile(r"[^\W_]+(?=[\W_]*\Z)")


class Slip(IntEnum):
    """The ways to damage an action, from the most to the least frequent slip of players."""

    VERB_ALONE = auto()
    EXTRA_WORD = auto()
    WRONG_ARGUMENT = auto()
    WRONG_LAST_WORD = auto()
    FAR_NUMBER = auto()
    ZERO = auto()


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
    """A player that makes each kind of slip once for each verb. Between slips it makes proper actions.

    It learns verbs from the `known` actions and from the actions that observations offer. `proper` returns a proper
    action after an observation. If a play has a path, the first proper actions follow the path. So slips also happen in
    states that only a good player reaches.
    """

    def __init__(self, proper: Callable[[str], str], known: Sequence[str], observation: str) -> None:
        self._proper = proper
        self._turns = 0
        self._path: list[str] = []
        self._seen: set[tuple[Slip, str]] = set()
        self.waiting: list[tuple[Slip, str]] = []
        """The slips that were not made yet."""
        self._note(known)
        self._look(observation)

    def begin(self, path: Sequence[str]) -> None:
        """Begin a play. `path` lists the actions that solve its instance, except the last action."""
        self._path, self._turns = list(path), -1 if path else 0

    def _look(self, observation: str) -> None:
        offer = read_offer(observation)
        if offer.kind != "guessed":
            self._note(offer.readings[0])

    def _note(self, actions: Sequence[str]) -> None:
        for action in actions:
            verb, slips = list_slips(action)
            for slip, text in slips:
                if (slip, verb) not in self._seen:
                    self._seen.add((slip, verb))
                    self.waiting.append((slip, text))
        self.waiting.sort(key=lambda one: one[0])

    def act(self, observation: str) -> str:
        """Return the next action."""
        self._look(observation)
        self._turns += 1
        if not self.waiting or self._turns % PROPER == 0:
            return self._path.pop(0) if self._path else self._proper(observation)
        return self.waiting.pop(0)[1]
