"""The settings of a play, and its transcript."""

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from actors.play.session import Session
from actors.play.voices import Voice
from actors.play.voices.tokens import TokenVoice
from actors.suites import Suite
from actors.text.conversation import ChatFormat
from spade.config import ENGINE_KINDS, Config
from spade.evaluations import Protocol, Sampling
from spade.protocol import EndedPlay, Form, Needs

LEAST_S = 600.0  # a sample's deadline is never shorter, since the first sample of a suite waits for its library to load


@dataclass(frozen=True)
class PlaySettings:
    """The way to render, sample and bound one play."""

    chat_format: ChatFormat
    """Renders messages and reads actions."""
    voice: Voice
    """The model that plays."""
    max_turns: int
    needs: Needs = field(default_factory=Needs)
    """Wider limits that the program needs, in place of the env-runner's own limits."""


def make_run_play_settings(session: Session, reads: Form, single_turn: bool) -> PlaySettings:
    """Return the settings of the run's own plays, the only plays that are trained on."""
    play, chat_format = session.config.play, session.chat_format(reads, single_turn)
    sampling = Sampling(temperature=play.temperature, max_tokens=play.max_turn_tokens)
    return PlaySettings(
        chat_format, TokenVoice(session, sampling, play.context_tokens, chat_format.marks), play.max_turns
    )


def make_suite_play_settings(
    suite: Suite, protocol: Protocol, chat_formats: Callable[[], ChatFormat], session: Session
) -> PlaySettings:
    """Return the settings of a suite's sample. A temperature of 0 becomes the lowest temperature of the engines."""
    config, chat_format = session.config, chat_formats()
    coldest = ENGINE_KINDS[config.engine.kind].temperatures[0]
    temperature = max(protocol.sampling.temperature, coldest)
    sampling = msgspec.structs.replace(protocol.sampling, temperature=temperature)
    context_tokens = protocol.context_tokens(config.engine.context_tokens)
    return PlaySettings(
        chat_format, TokenVoice(session, sampling, context_tokens, chat_format.marks), protocol.turns, suite.needs
    )


def extend_deadlines(config: Config, max_tokens: int) -> Config:
    """Return the config with play and request deadlines that are long enough for turns of `max_tokens` tokens."""
    slower = max(1.0, max_tokens / config.play.max_turn_tokens)
    replace = msgspec.structs.replace
    play = replace(config.play, lease_s=max(config.play.lease_s * slower, LEAST_S))
    engine = replace(config.engine, request_deadline_s=config.engine.request_deadline_s * slower)
    return replace(config, play=play, engine=engine)


@dataclass
class PlayTranscript:
    """The model's side of a play."""

    prompt: bytes = b""
    """The first prompt (`TurnSaid.prompt`); empty before the first turn."""
    said: list[str] = field(default_factory=list)
    """The text of each turn."""
    answer: str = ""
    """The last action, whether it reached the program or not."""
    finish: str = ""
    """The reason why the last turn's sampling ended."""
    read: int = 0
    """Tokens of prompts, each counted once."""
    sampled: int = 0
    """Tokens of the turns."""
    unfit: bool = False
    """True if the first prompt does not fit the context."""


@dataclass(frozen=True)
class PlayResult:
    """A finished play."""

    ended: EndedPlay
    """The play in the form that the replay service stores."""
    transcript: PlayTranscript
    """The model's texts and token counts."""
