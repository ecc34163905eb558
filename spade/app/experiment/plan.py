"""An experiment's file: arms, each a recipe with its seeds, and the pairs of arms that are compared."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from spade.app.report.arms import list_arm_settings
from spade.config import SUITE_TRAITS, Config, ProtocolName, load, read_toml
from spade.errors import ConfigError, format_reason
from spade.text import as_line

LONGEST_SEED = 2**63 - 1
_Name = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9-]{0,39}\Z")]
_Seed = Annotated[int, Meta(ge=0, le=LONGEST_SEED)]
_Count = Annotated[int, Meta(ge=1, le=1 << 31)]


class ArmPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One arm of an experiment."""

    recipe: str
    """A recipe's name or a TOML file."""

    seeds: Annotated[tuple[_Seed, ...], Meta(min_length=1, max_length=64)]
    """`run.seed` of each of its runs."""

    set: tuple[str, ...] = ()
    """Settings that differ from the recipe, as in `--set`."""

    matched: str = ""
    """Another arm. A run trains on as many agent trajectories as that arm's run of the same seed. If "", the
    experiment's `steps` decide."""

    pool: Annotated[int, Meta(ge=0, le=65_536)] = 0
    """Number of programs in the pool that is played. The first policy of the matched arm writes them. 0 plays no
    pool."""


class Experiment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An experiment: the grid of runs, and the comparisons of its arms."""

    steps: _Count
    """Learner steps of each run that is not matched with another."""

    suite: str
    """The suite that measures the last policy of each run."""

    reference: str
    """The arm with which every other arm is compared. These comparisons are exploratory."""

    arms: Annotated[dict[_Name, ArmPlan], Meta(min_length=1, max_length=32)]
    """The arms by name."""

    primary: tuple[tuple[str, str], ...] = ()
    """Pairs of arms. Their differences answer the experiment's question."""

    protocol: ProtocolName = "paper"
    """The suite's protocol."""

    set: tuple[str, ...] = ()
    """Settings of all arms. An arm's own settings come after them."""

    @property
    def pieces(self) -> list["Piece"]:
        """Return every run. Arms of primary pairs come first, seed by seed. Within a seed, matched runs come last."""
        pieces = [Piece(name, seed) for name, arm in self.arms.items() for seed in arm.seeds]
        asked = {name for pair in self.primary for name in pair}
        return sorted(pieces, key=lambda piece: (piece.arm not in asked, piece.seed, self.match(piece) is not None))

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Return the pairs of arms to compare, the primary ones first."""
        asked = {frozenset(pair) for pair in self.primary}
        others = [(self.reference, name) for name in self.arms if name != self.reference]
        return [*self.primary, *(pair for pair in others if frozenset(pair) not in asked)]

    def match(self, piece: "Piece") -> "Piece | None":
        """Return the run with which this one is matched. None if the experiment's steps decide its length."""
        name = self.arms[piece.arm].matched
        return Piece(name, piece.seed) if name else None

    def overrides(self, piece: "Piece") -> tuple[str, ...]:
        """Return the settings of a run, as in `--set`, without its pool and its limit."""
        return (*self.set, *self.arms[piece.arm].set, f"run.seed={piece.seed}")

    def config(self, piece: "Piece") -> Config:
        """Load the config of a run, without its pool and its limit."""
        return load(self.arms[piece.arm].recipe, self.overrides(piece))

    def digest(self, piece: "Piece") -> str:
        """Return a digest of everything in the plan that decides a run's result, 32 hex digits.

        The held-out items, the first checkpoint and the version of spade are not in the plan.
        """
        pool, match = self.arms[piece.arm].pool, self.match(piece)
        length = self.digest(match) if match else self.steps
        made_of = list_arm_settings(self.config(piece)), piece.seed, length, pool, self.suite, self.protocol
        return hashlib.blake2b(msgspec.json.encode(made_of, order="sorted"), digest_size=16).hexdigest()


class Piece(NamedTuple):
    """One run of the grid."""

    arm: str
    """The arm's name."""

    seed: int
    """`run.seed` of the run."""

    def __str__(self) -> str:
        return f"{self.arm}-{self.seed}"


def read_experiment(file: Path) -> Experiment:
    """Read an experiment from a TOML file.

    Raises ConfigError, OSError or RunError with one line that explains the fault.
    """
    tree = read_toml(file)
    try:
        experiment = msgspec.convert(tree, Experiment)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{file}: {error}") from None
    if why := _find_fault(experiment):
        raise ConfigError(f"{file}: {why}")
    return experiment


def _find_fault(experiment: Experiment) -> str:
    """Return the first fault of the file as a whole, or "". Raises ConfigError if settings are wrong."""
    arms, suite = experiment.arms, experiment.suite
    if suite not in SUITE_TRAITS:
        return f"suite {as_line(suite, 60)!r}: unknown suite; take one of {', '.join(SUITE_TRAITS)}"
    if SUITE_TRAITS[suite].given:
        return f"suite {suite!r}: needs a data file, which an experiment cannot give; take another suite"
    for name in (experiment.reference, *(name for pair in experiment.primary for name in pair)):
        if name not in arms:
            return f"{as_line(name, 60)!r}: unknown arm; the arms are {', '.join(arms)}"
    if why := _find_pair_fault(experiment.primary, arms):
        return f"primary: {why}"
    faults = ((name, _find_arm_fault(experiment, name)) for name in arms)
    return next((f"arms.{name}: {why}" for name, why in faults if why), "")


def _find_pair_fault(primary: Sequence[tuple[str, str]], arms: dict[str, ArmPlan]) -> str:
    if alone := next((one for one, other in primary if one == other), ""):
        return f"{alone} is compared with itself"
    if len({frozenset(pair) for pair in primary}) < len(primary):
        return "a pair of arms occurs twice"
    disjoint = (pair for pair in primary if set(arms[pair[0]].seeds).isdisjoint(arms[pair[1]].seeds))
    return next((f"{one} and {other} have no seed in common" for one, other in disjoint), "")


def _find_arm_fault(experiment: Experiment, name: str) -> str:
    arm = experiment.arms[name]
    if len(set(arm.seeds)) < len(arm.seeds):
        return "a seed occurs twice"
    if any(setting.partition("=")[0].strip() == "run.seed" for setting in (*experiment.set, *arm.set)):
        return "remove run.seed from `set`; `seeds` gives it"
    if not arm.recipe.isprintable():
        return f"recipe {as_line(arm.recipe, 60)!r}: holds unprintable characters"
    if why := _find_match_fault(arm, experiment.arms):
        return why
    try:
        config = experiment.config(Piece(name, arm.seeds[0]))
    except (ConfigError, OSError) as error:
        return format_reason(error)
    if (config.design.source == "pool") != bool(arm.pool):
        return "give `pool` to an arm if its recipe plays a pool, and only then"
    return ""


def _find_match_fault(arm: ArmPlan, arms: dict[str, ArmPlan]) -> str:
    if not arm.matched:
        return "an arm with a pool needs `matched`, the arm that writes the pool" if arm.pool else ""
    other = arms.get(arm.matched)
    if other is None or other.matched:
        return f"`matched` names {as_line(arm.matched, 60)!r}, an unknown arm or an arm with `matched` itself"
    if missing := set(arm.seeds) - set(other.seeds):
        return f"it is matched with {arm.matched}, which lacks the seed {min(missing)}"
    return ""
