"""The sections of a run's configuration, in one module for each part of the framework.

If the paper gives a number for games (Qwen3-4B and Qwen3-30B-A3B), the default is this number.
"""

from spade.config.sections.actors import PATIENCE, Actors, Design, Evaluation, Play, Pool, PoolLibrary, Sandbox, Tier
from spade.config.sections.bounds import Section
from spade.config.sections.engines import Endpoint, Engine, Serve
from spade.config.sections.learner import Learner, Loss
from spade.config.sections.place import Place, PlacedRole
from spade.config.sections.processes import (
    LONGEST_WAIT_S,
    TRACKER_KINDS,
    Bus,
    Supervise,
    Track,
    TrackerChoice,
    TrackerKind,
)
from spade.config.sections.replay import Audit, Replay, Reward
from spade.config.sections.run import Limits, Model, Run
from spade.config.sections.tools import ToolUse
from spade.config.suites import SUITE_TRAITS, Library

__all__ = [
    "LONGEST_WAIT_S", "PATIENCE", "TRACKER_KINDS",
    "Actors", "Audit", "Bus", "Config", "Design", "Endpoint", "Engine", "Evaluation", "Learner", "Limits", "Loss",
    "Model", "Place", "PlacedRole", "Play", "Pool", "PoolLibrary", "Replay", "Reward", "Run", "Sandbox", "Section",
    "Serve", "Supervise", "Tier", "ToolUse", "Track", "TrackerChoice", "TrackerKind",
]  # fmt: skip


class Config(Section, frozen=True):
    """The whole configuration of a run."""

    run: Run = Run()
    limits: Limits = Limits()
    model: Model = Model()
    design: Design = Design()
    pool: Pool = Pool()
    play: Play = Play()
    tools: ToolUse = ToolUse()
    reward: Reward = Reward()
    loss: Loss = Loss()
    learner: Learner = Learner()
    actors: Actors = Actors()
    evaluation: Evaluation = Evaluation()
    engine: Engine = Engine()
    endpoint: Endpoint = Endpoint()
    serve: Serve = Serve()
    sandbox: Sandbox = Sandbox()
    audit: Audit = Audit()
    replay: Replay = Replay()
    bus: Bus = Bus()
    supervise: Supervise = Supervise()
    place: Place = Place()
    track: Track = Track()

    @property
    def uses_regret(self) -> bool:
        """True if the regret rewards trained designers, or chooses the environments that prompts show."""
        used = self.design.train or self.design.memory_seeds > 0
        return used and self.reward.kind in ("regret", "progress", "finding") and self.design.source == "model"

    @property
    def ranks_by_regret(self) -> bool:
        """True if the memory ranks environments by their regret, False if by the designer's reward.

        Under "progress" and "finding" an environment of high regret may have a low reward, and is then no good example.
        """
        return self.hinted and self.reward.kind not in ("progress", "finding")

    @property
    def hinted(self) -> bool:
        """True if environments that have a hint are also played with it."""
        return self.uses_regret if self.play.hinted == "auto" else self.play.hinted

    @property
    def libraries(self) -> tuple[Library, ...]:
        """The libraries that env-runners load: the listed libraries, and the library of the evaluation's suite."""
        listed, suite = self.sandbox.libraries, self.evaluation.measured.name
        needed = SUITE_TRAITS[suite].library if suite else None
        return listed if needed is None or needed in listed else (*listed, needed)
