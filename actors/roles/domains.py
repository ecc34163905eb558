"""The model's side of each domain: the prompts of its designers, and how its plays are talked. Chosen by run.domain."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from actors.nano.prompts import NanoProfile
from actors.text.conversation import GameTalk, Talk
from actors.text.profile import Profile
from actors.text.prompts import FullProfile
from spade.config import Config
from spade.protocol import Form
from spade.tokens import Tokenizer

Talks = Callable[[Form], Talk]
"""The talk of a play whose program reads actions in this form."""


@dataclass(frozen=True)
class Domain:
    """One domain on the model's side.

    profiles  the prompts, by model.profile
    talks     the talks of a checkpoint's plays. Raises RunError for a checkpoint that cannot have them.
    """

    profiles: Mapping[str, Callable[[Config], Profile]]
    talks: Callable[[Config, Tokenizer], Talks]


def load_profile(config: Config) -> Profile:
    """The prompts of the run's domain and model."""
    return DOMAINS[config.run.domain].profiles[config.model.profile](config)


def load_talks(config: Config, tokenizer: Tokenizer) -> Talks:
    """The talks of the run's domain. Raises RunError for a checkpoint that cannot have them."""
    return DOMAINS[config.run.domain].talks(config, tokenizer)


def _game_talks(config: Config, _: Tokenizer) -> Talks:
    opening = load_profile(config).play
    return lambda reads: GameTalk(opening, reads)


DOMAINS: Mapping[str, Domain] = {
    "games": Domain(
        {"nano": lambda _: NanoProfile(), "full": lambda config: FullProfile(config.design, config.play)}, _game_talks
    )
}
