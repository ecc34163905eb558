"""The manner of a play, and what was said in it."""

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from actors.roles.session import Session
from actors.roles.voices import Voice
from actors.roles.voices.tokens import TokenVoice
from actors.suites import Suite
from actors.text.conversation import Talk
from spade.config import ENGINE_KINDS, Config
from spade.evaluations import Protocol, Sampling
from spade.protocol import EndedPlay, Form, Needs

LEAST_S = 600.0  # for a sample: the first of a suite waits while its library is loaded


@dataclass(frozen=True)
class Manner:
    """The way that one play is talked, sampled and bounded.

    voice  the model that plays
    needs  of its program beyond the env-runner's own limits
    """

    talk: Talk
    voice: Voice
    max_turns: int
    needs: Needs = field(default_factory=Needs)


def manner_of_run(session: Session, reads: Form, single_turn: bool) -> Manner:
    """Return the manner of the run's own plays, the only plays that are trained on."""
    play, talk = session.config.play, session.talk(reads, single_turn)
    sampling = Sampling(temperature=play.temperature, max_tokens=play.max_turn_tokens)
    return Manner(talk, TokenVoice(session, sampling, play.context_tokens, talk.marks), play.max_turns)


def manner_of_suite(suite: Suite, protocol: Protocol, talks: Callable[[], Talk], session: Session) -> Manner:
    """The manner of a sample of a suite; temperature 0 becomes the lowest that the engines have."""
    config, talk = session.config, talks()
    coldest = ENGINE_KINDS[config.engine.kind].temperatures[0]
    temperature = max(protocol.sampling.temperature, coldest)
    sampling = msgspec.structs.replace(protocol.sampling, temperature=temperature)
    context_tokens = protocol.context_tokens(config.engine.context_tokens)
    return Manner(talk, TokenVoice(session, sampling, context_tokens, talk.marks), protocol.turns, suite.needs)


def patient(config: Config, max_tokens: int) -> Config:
    """The config with deadlines of a play and its requests that turns of so many tokens can keep."""
    slower = max(1.0, max_tokens / config.play.max_turn_tokens)
    replace = msgspec.structs.replace
    play = replace(config.play, lease_s=max(config.play.lease_s * slower, LEAST_S))
    engine = replace(config.engine, request_deadline_s=config.engine.request_deadline_s * slower)
    return replace(config, play=play, engine=engine)


@dataclass
class WordsOfPlay:
    """The model's side of a play.

    prompt   the first prompt, as TurnSaid has it; empty where there was none
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
