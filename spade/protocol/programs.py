"""Env-runners: agents play programs there, and designers have candidates admitted."""

from typing import Literal

from spade.protocol.base import Form, Request, Wire
from spade.protocol.session import Done


class Observed(Wire, frozen=True):
    """What the program answered, after all checks."""

    observation: str
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False


class Faulted(Wire, frozen=True):
    """The episode is over by a fault.

    kind: exception, timeout, died, protocol and reward are the program's; lost (no such episode here) and
    infrastructure are ours.
    """

    kind: Literal["exception", "timeout", "died", "protocol", "reward", "lost", "infrastructure"]
    detail: str

    @property
    def environment_fault(self) -> bool:
        """True where the program is to blame, False where the play is to be leased again."""
        return self.kind not in ("lost", "infrastructure")


class OpenEpisode(Request[Observed | Faulted], frozen=True):
    """Start an episode: load, construct, reset. Observed is turn 0. Refused: the env-runner is overloaded."""

    episode: str
    source: str
    seed: int
    max_turns: int


class StepEpisode(Request[Observed | Faulted], frozen=True):
    """One action; `turn` counts from 1: a repeated request is answered from memory."""

    episode: str
    turn: int
    action: str


class CloseEpisode(Request[Done], frozen=True):
    """The episode is over. Idempotent."""

    episode: str


class Stage(Wire, frozen=True):
    """One stage of admission."""

    name: str
    passed: bool
    reason: str = ""
    seconds: float = 0.0


class Verdict(Wire, frozen=True):
    """The stages in the order they ran, the last one failed where `passed` is False.

    `name` is the class's name, `reads` the form in which plays send actions to the program.
    """

    passed: bool
    stages: tuple[Stage, ...]
    name: str = ""
    seed_sensitive: bool = False
    first_observation: str = ""
    reads: Form = "inside"


class Validate(Request[Verdict], frozen=True):
    """Admit a candidate or say why not. `seed` keys the secret instance seeds."""

    source: str
    seed: int
