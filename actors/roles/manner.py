"""The manner of a play, and what was said in it."""

from dataclasses import dataclass, field

from actors.roles.session import Session
from actors.text.conversation import Talk
from spade.evaluations import Sampling
from spade.protocol import EndedPlay, Form, Needs


@dataclass(frozen=True)
class Manner:
    """The way that a play is talked, sampled and bounded.

    context_tokens  that a turn may read and sample
    needs           of its program beyond the env-runner's own limits
    """

    talk: Talk
    sampling: Sampling
    max_turns: int
    context_tokens: int
    needs: Needs


def manner_of_run(session: Session, reads: Form) -> Manner:
    """The manner of the run's own plays, the only one of which anything is trained on."""
    play = session.config.play
    sampling = Sampling(temperature=play.temperature, max_tokens=play.max_turn_tokens)
    return Manner(session.talk(reads), sampling, play.max_turns, play.context_tokens, Needs())


@dataclass
class WordsOfPlay:
    """The model's side of a play.

    prompt   tokens of the first prompt, little-endian int32; empty where there was none
    said     the text of each turn
    answer   the last action that the program was sent, or would have been
    finish   the reason why the last turn's sampling ended
    read     tokens of prompts, each counted once; `sampled`: those of the turns
    unfit    the first prompt does not fit the context
    """

    prompt: bytes = b""
    said: list[str] = field(default_factory=list)
    answer: str = ""
    finish: str = ""
    read: int = 0
    sampled: int = 0
    unfit: bool = False


@dataclass(frozen=True)
class Played:
    """A play that is over: as it is handed in, and what was said."""

    ended: EndedPlay
    transcript: WordsOfPlay
