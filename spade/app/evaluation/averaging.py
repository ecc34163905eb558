"""`spade eval average`: average the measured suites of a policy, and compare it with another policy."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from spade.app.evaluation.measuring import Subject, find_suites
from spade.app.evaluation.policies import check_asked, choose_kept_policy
from spade.app.rundir import RunDir
from spade.app.supervisor.kept import compute_sound_digest
from spade.config import ProtocolName
from spade.errors import ConfigError, RunError
from spade.evaluations import KeptEvaluation, SuiteAverage, average_suites, find_evaluations
from spade.text import SHORT_DIGEST, as_line, quote

_HEX = re.compile(r"[0-9a-f]+")


class AverageOptions(NamedTuple):
    """The options of `spade eval average`, as they were typed."""

    where: Path
    """A run directory, or the folder in which models were measured."""

    suites: str
    """Names of suites or tables, separated by commas."""

    policy: str
    """The policy to average. "" takes the only measured policy besides the base."""

    against: str
    """The base of the comparison: another run, or a policy that was measured in `where`. "" compares with nothing."""

    protocol: ProtocolName
    """The protocol of the evaluations."""

    seed: int
    """The seed of the evaluations."""


def compute_averages(asked: AverageOptions) -> SuiteAverage:
    """Return the average of the suites.

    Raises ConfigError or RunError if an evaluation is missing, or if two evaluations are not comparable.
    """
    names = [suite.name for suite in find_suites(asked.suites)]
    kept = _find_measured(asked.where, asked)
    base, before = "", None
    if asked.against and RunDir(Path(asked.against)).exists:
        other = _find_measured(Path(asked.against), asked)
        before = _choose_evaluations(Path(asked.against), other, names, _find_only_policy(Path(asked.against), other))
    elif asked.against:
        base = find_policy(asked.where, kept, asked.against, "")
        before = _choose_evaluations(asked.where, kept, names, base)
    now = _choose_evaluations(asked.where, kept, names, find_policy(asked.where, kept, asked.policy, base))
    return average_suites(now, before)


def _find_measured(where: Path, asked: AverageOptions) -> list[KeptEvaluation]:
    """Return the evaluations of a folder with the requested protocol and seed."""
    kept = [
        each
        for each in find_evaluations(where)
        if (each.rules.protocol.name, each.rules.seed) == (asked.protocol, asked.seed)
    ]
    if not kept:
        raise RunError(f"{where}: no measurement by the protocol {asked.protocol} with the seed {asked.seed}")
    return kept


def find_policy(where: Path, kept: Sequence[KeptEvaluation], asked: str, base: str) -> str:
    """Return the digest of the policy `asked`. If it is "", return the only measured policy other than `base`."""
    measured = sorted({each.rules.policy for each in kept})
    there = _format_digests(measured)
    if not asked:
        others = [digest for digest in measured if digest != base]
        if not others:
            raise RunError(f"{where}: only the base {there} was measured here; measure another policy by `spade eval`")
        if len(others) > 1:
            raise ConfigError(f"{where}: choose a policy that was measured here, by --policy: {there}")
        return others[0]
    check_asked(asked)
    digests = [digest for digest in measured if digest.startswith(asked)]
    if len(digests) > 1:
        raise ConfigError(f"policy {as_line(asked, 60)}: several digests begin with it: {', '.join(digests[:3])}")
    if digests:
        return digests[0]
    run = RunDir(where)
    if not run.exists or _HEX.fullmatch(asked):
        raise RunError(f"{where}: policy {as_line(asked, 60)} was not measured here; these were: {there}")
    if asked != "start":
        return compute_sound_digest(choose_kept_policy(run, asked))
    with Subject.of(str(where), None).pinned(asked) as policy:
        return policy.digest


def _find_only_policy(other: Path, kept: Sequence[KeptEvaluation]) -> str:
    """Return the digest of the only measured policy of another run. Raises ConfigError if it has several."""
    measured = sorted({each.rules.policy for each in kept})
    if len(measured) > 1:
        raise ConfigError(
            f"{other}: has several measured policies, but --against takes a run with one: "
            f"{_format_digests(measured)}; move the evaluations of the others away"
        )
    return measured[0]


def _format_digests(digests: Sequence[str]) -> str:
    return ", ".join(digest[:SHORT_DIGEST] for digest in digests)


def _choose_evaluations(
    where: Path, kept: Sequence[KeptEvaluation], names: Sequence[str], policy: str
) -> list[KeptEvaluation]:
    """Return the policy's evaluation of each suite. Raises RunError unless each suite has exactly one."""
    chosen = []
    protocol, seed = kept[0].rules.protocol.name, kept[0].rules.seed  # the same in all of `kept`
    rules = "" if (protocol, seed) == ("paper", 0) else f" --protocol {protocol} --seed {seed}"
    for name in names:
        found = [each for each in kept if (each.rules.suite, each.rules.policy) == (name, policy)]
        if not found:
            raise RunError(
                f"{where}: suite {name} was not measured for the policy {policy[:SHORT_DIGEST]}; "
                f"play it: spade eval {quote(where)} --suite {name} --policy {policy[:SHORT_DIGEST]}{rules}"
            )
        if len(found) > 1:
            folders = ", ".join(str(each.folder) for each in found)
            raise RunError(f"suite {name}: has several evaluations; move all but one of these folders away: {folders}")
        chosen += found
    return chosen
