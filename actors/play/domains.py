"""The model's side of each domain: the designers' prompts, and the chat format of a play."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from actors.nano.worlds import WORLDS
from actors.text.conversation import CallFormat, ChatFormat, GameChatFormat, ToolChatFormat
from actors.text.profile import Profile
from actors.text.prompts import FullProfile
from actors.text.toolcalls import DIALECTS, find_dialect
from actors.text.tools.prompts import ToolProfile
from spade.config import Config, DomainName
from spade.errors import ConfigError, RunError
from spade.protocol import Form
from spade.tokens import Tokenizer

ChatFormats = Callable[[Form, bool], ChatFormat]
"""Makes the chat format of a play, given `reads` and `single_turn` of its program's Verdict."""


@dataclass(frozen=True)
class Domain:
    """The functions with which the model designs and plays programs of one domain."""

    profiles: Mapping[str, Callable[[Config], Profile]]
    """Makes the prompts, by the value of the setting model.profile."""
    chat_formats: Callable[[Config, Tokenizer], ChatFormats]
    """Makes the chat formats of a checkpoint's plays. Raises RunError if the checkpoint does not support them."""


def load_profile(config: Config) -> Profile:
    """Load the prompts of the run's domain and model. Raises ConfigError if the domain lacks prompts for the model."""
    profiles = DOMAINS[config.run.domain].profiles
    if config.model.profile not in profiles:
        raise ConfigError(
            f"model.profile: {config.model.profile!r} has no prompts for designers of run.domain = "
            f"{config.run.domain!r}; the domain has prompts for {', '.join(profiles) or 'none yet'}"
        )
    return profiles[config.model.profile](config)


def load_chat_formats(config: Config, tokenizer: Tokenizer) -> ChatFormats:
    """Return the function that makes the chat formats of the run's domain.

    Raises RunError if the checkpoint does not support them.
    """
    return DOMAINS[config.run.domain].chat_formats(config, tokenizer)


def _make_game_chat_formats(config: Config, _: Tokenizer) -> ChatFormats:
    opening = load_profile(config).play
    examples = config.play.examples
    return lambda reads, single_turn: GameChatFormat(partial(opening, single_turn=single_turn), reads, examples)


def _make_tool_chat_formats(config: Config, tokenizer: Tokenizer) -> ChatFormats:
    try:
        dialect = find_dialect(tokenizer, DIALECTS, config.model.path)
    except RunError as error:
        raise RunError(f"run.domain = 'tools': {error}") from None
    call_format = CallFormat(dialect, tokenizer.opens_thought())
    opening = load_profile(config).play
    return lambda *_: ToolChatFormat(opening, call_format, config.tools.calls_per_turn)


DOMAINS: Mapping[DomainName, Domain] = {
    "games": Domain(
        {"nano": lambda _: WORLDS["games"].profile, "full": lambda config: FullProfile(config.design, config.play)},
        _make_game_chat_formats,
    ),
    "tools": Domain(
        {
            "nano": lambda _: WORLDS["tools"].profile,
            "full": lambda config: ToolProfile(config.design, config.play, config.tools),
        },
        _make_tool_chat_formats,
    ),
}
