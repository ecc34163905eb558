"""Read environments, rejected candidates and weights from a store, even while its service is running."""

from pathlib import Path

import msgspec

from replay.ledger.records import Audit, Environment, Publication, Reject, RunCounters, Source
from replay.store import open_reader
from replay.store.load import Header
from spade.errors import RunError
from spade.protocol import Form, Measures, Repairs, Weights


class EnvironmentSummary(msgspec.Struct, frozen=True):
    """An environment of a run. Figures stay None until its window closes."""

    id: str
    """Id of the environment."""
    name: str
    """Name of the program."""
    skill: str
    """Skill of the program."""
    round: int
    """Round of its design."""
    state: str
    """active, closed or quarantined."""
    document: str
    """Document of the corpus that its designer read, or ""."""
    win_rate_unhinted: float | None
    """Win rate without the hint."""
    win_rate_hinted: float | None
    """Win rate with the hint."""
    regret: float | None
    """Mean return with the hint, minus the mean return without."""
    regret_error: float | None
    """Standard error of the regret."""
    reward: float | None
    """Reward of its designer."""
    audit: str
    """The state of its audit, with the finding if there is one. "" before the audit began or without an audit."""
    reward_levels: int
    """Number of distinct rewards that the program gave."""
    measures: Measures
    """Measures of the program."""
    setting: str
    """Setting that its designer was asked for, or ""."""
    variant: str
    """Variant that its designer was asked for, or ""."""


class EnvironmentDetail(EnvironmentSummary, frozen=True):
    """An environment with its program."""

    source: str
    """The program."""
    hint: str
    """The hint."""
    first_observation: str
    """The first observation of the program."""
    reads: Form
    """The form of the actions that plays send to the program."""
    repairs: Repairs
    """Repairs that were needed to find or run the program."""


def read_environments(path: Path) -> list[EnvironmentSummary]:
    """Read all environments, the oldest first. Raises RunError if the store does not exist."""
    with open_reader(path) as store:
        return [_summarise_environment(environment) for environment in store.scan("environments", Environment)]


def read_environment(path: Path, id: str) -> EnvironmentDetail | None:
    """Read one environment, or return None. Raises RunError if the store does not exist."""
    with open_reader(path) as store:
        environment = store.get("environments", id, Environment)
        source = store.get("sources", id, Source)
    return None if environment is None or source is None else _describe_environment(environment, source)


def read_details(path: Path) -> list[EnvironmentDetail]:
    """Read all environments with their programs, the oldest first. Raises RunError if the store does not exist."""
    with open_reader(path) as store, store.pinned():
        environments = store.scan("environments", Environment)
        sources = store.get_many("sources", [each.id for each in environments], Source)
    return [_describe_environment(*each) for each in zip(environments, sources, strict=True)]


def read_rejected(path: Path) -> list[Reject]:
    """Read all rejected candidates, by job. Raises RunError if the store does not exist."""
    with open_reader(path) as store:
        return store.scan("rejects", Reject)


def find_newest_weights(path: Path) -> Weights | None:
    """Return the newest published weights, None before the first. Raises RunError if the store does not exist."""
    with open_reader(path) as store:
        counters = store.get("meta", "counters", RunCounters)
    return None if counters is None or counters.newest is None else counters.newest.weights


def list_published(path: Path) -> list[Weights]:
    """Return all weights that were ever published, the oldest first. Raises RunError if the store does not exist."""
    with open_reader(path) as store:
        return [publication.weights for publication in store.scan("publications", Publication)]


def run_id(path: Path) -> str:
    """Return the run's id. Raises RunError if the store does not exist or holds no run."""
    with open_reader(path) as store:
        header = store.get("meta", "run", Header)
    if header is None:
        raise RunError(f"{path}: no run was ever started in this store")
    return header.id


def _describe_environment(environment: Environment, source: Source) -> EnvironmentDetail:
    return EnvironmentDetail(
        **msgspec.structs.asdict(_summarise_environment(environment)),
        source=source.source,
        hint=source.hint,
        first_observation=source.first_observation,
        reads=source.reads,
        repairs=environment.repairs,
    )


def _summarise_environment(environment: Environment) -> EnvironmentSummary:
    score = environment.score
    return EnvironmentSummary(
        id=environment.id,
        name=environment.name,
        skill=environment.skill,
        round=environment.round,
        state=environment.state,
        document=environment.document,
        win_rate_unhinted=None if score is None else score.win_rate,
        win_rate_hinted=None if score is None else score.win_rate_hinted,
        regret=None if score is None else score.regret,
        regret_error=None if score is None else score.regret_error,
        reward=None if score is None else score.reward,
        audit="" if environment.audit is None else _audit(environment.audit),
        reward_levels=len(environment.levels),
        measures=environment.measures,
        setting=environment.setting,
        variant=environment.variant,
    )


def _audit(audit: Audit) -> str:
    return f"{audit.state}: {audit.finding}" if audit.finding else audit.state
