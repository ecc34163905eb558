"""Settings that say what a run is: its domain, its skills, its model."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from spade.config.domains import DOMAINS, DomainName, Skill
from spade.config.sections.bounds import CountOrZero, SecondsOrZero, Section


class Run(Section, frozen=True):
    """The domain, the skills and the seed of a run. A resume with other values is refused."""

    domain: DomainName = "games"
    """The kind of environments that designers write. `games` are played by actions. In `tools`, the player calls the
    tools of a simulated service."""

    skills: tuple[Skill, ...] = ()
    """The skills that design jobs ask for. Rounds take them in this order. An empty list means the six skills of the
    domain, which for games are the paper's."""

    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] | None = None
    """The number from which the run's secret is derived. Two runs with the same number hand out the same work. Without
    a number the secret is random, so that no program can foresee its instances."""

    def __post_init__(self) -> None:
        if not self.skills:
            msgspec.structs.force_setattr(self, "skills", DOMAINS[self.domain].skills)


class Limits(Section, frozen=True):
    """The length of a run. The first limit that is reached ends the run. A resume may set other limits.

    Without a limit, a run goes on until it is stopped (docs/durability.md, "The end of a run").
    """

    steps: CountOrZero = 0
    """Learner steps, counted from the run's beginning. The run takes exactly this number. The
    weights of the last step are published and saved in a checkpoint. 0 sets no limit."""

    rollouts: CountOrZero = 0
    """Rollouts as the paper counts them (its main runs have 400), each a chunk of every active environment:
    `design.active_environments` · `play.group_size` finished unhinted plays. 0 sets no limit."""

    seconds: SecondsOrZero = 0.0
    """Seconds for which the run was up, over all resumes. 0 sets no limit."""


class Model(Section, frozen=True):
    """The model that is both the agent and the designer. A resume with other values is refused."""

    path: str = "nano"
    """A Hugging Face checkpoint folder, a name on the hub, or a model that ships with the package: `nano` plays games,
    `nano-tools` calls tools."""

    profile: Literal["nano", "full"] = "full"
    """The prompts that fit the model: `nano` for the nano model, `full` for instruct models."""

    dtype: Literal["float32", "bfloat16"] = "bfloat16"
    """The number format in which engines hold the parameters and the learner does its arithmetic."""

    thinking: bool = False
    """True renders the chat template with its thinking mode on, for models that have one (Qwen3-8B in the paper)."""
