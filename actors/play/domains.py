"""The model's side of each domain: the designers' prompts, and the talk (the format of a play)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from actors.nano.worlds import WORLDS
from actors.text.conversation import CallFormat, GameTalk, Talk, ToolTalk
from actors.text.profile import Profile
from actors.text.prompts import FullProfile
from actors.text.toolcalls import DIALECTS, find_dialect
from actors.text.tools.prompts import ToolProfile
from spade.config import Config, DomainName
from spade.errors import ConfigError, RunError
from spade.protocol import Form
from spade.tokens import Tokenizer

Talks = Callable[[Form, bool], Talk]
"""Makes the talk of a play, given `reads` and `single_turn` of its program's Verdict."""


@dataclass(frozen=True)
class Domain:
    """One domain on the model's side."""

    profiles: Mapping[str, Callable[[Config], Profile]]
    """The prompts, by model.profile."""
    talks: Callable[[Config, Tokenizer], Talks]
    """Makes the talks of a checkpoint's plays. Raises RunError if the checkpoint does not support them."""


def load_profile(config: Config) -> Profile:
    """Load the prompts of the run's domain and model. Raises ConfigError if the domain lacks prompts for the model."""
    profiles = DOMAINS[config.run.domain].profiles
    if config.model.profile not in profiles:
        raise ConfigError(
            f"model.profile: {config.model.profile!r} has no prompts for designers of run.domain = "
            f"{config.run.domain!r}; the domain has prompts for {', '.join(profiles) or 'none yet'}"
        )
    return profiles[config.model.profile](config)


def load_talks(config: Config, tokenizer: Tokenizer) -> Talks:
    """Return the factory of talks of the run's domain.

    Raises RunError if the checkpoint does not support these talks.
    """
    return DOMAINS[config.run.domain].talks(config, tokenizer)


def _make_game_talks(config: Config, _: Tokenizer) -> Talks:
    opening = load_profile(config).play
    examples = config.play.examples
    return lambda reads, single_turn: GameTalk(partial(opening, single_turn=single_turn), reads, examples)


def _make_tool_talks(config: Config, tokenizer: Tokenizer) -> Talks:
    try:
        dialect = find_dialect(tokenizer, DIALECTS, config.model.path)
    except RunError as error:
        raise RunError(f"run.domain = 'tools': {error}") from None
    call_format = CallFormat(dialect, tokenizer.opens_thought())
    opening = load_profile(config).play
    return lambda *_: ToolTalk(opening, call_format, config.tools.calls_per_turn)


DOMAINS: Mapping[DomainName, Domain] = {
    "games": Domain(
        {"nano": lambda _: WORLDS["games"].profile, "full": lambda config: FullProfile(config.design, config.play)},
        _make_game_talks,
    ),
    "tools": Domain(
        {
            "nano": lambda _: WORLDS["tools"].profile,
            "full": lambda config: ToolProfile(config.design, config.play, config.tools),
        },
        _make_tool_talks,
    ),
}
