"""Resolves a suite and a protocol into one evaluation: its rules, items and samples."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from actors.suites.rows import compute_digest
from actors.suites.suite import Suite, compute_items_digest, schedule_samples
from spade.config import Config
from spade.errors import RunError, format_reason
from spade.evaluations import EvaluationPlan, Protocol, Rules, SuiteItem
from spade.text import as_line


def resolve(
    suite: Suite,
    protocol: Protocol,
    policy: str,
    seed: int,
    data: Path | None = None,
    most: int | None = None,
    conditions: Mapping[str, str] | None = None,
) -> EvaluationPlan:
    """Plan an evaluation on the first `most` items. `policy` is the policy's digest. `conditions`: see Rules.

    Raises ConfigError if data or a package is missing, RunError if the data cannot be read.
    """
    versions = suite.versions(protocol)
    try:
        items = suite.items(protocol, data)[:most]
        # The digest of the items covers everything in a folder that affects the figures.
        files = {suite.name: compute_digest(data)} if data is not None and not data.is_dir() else {}
    except OSError as error:
        raise RunError(f"suite {suite.name}: {data} cannot be read ({format_reason(error)})") from None
    rules = Rules(
        suite=suite.name,
        policy=policy,
        seed=seed,
        protocol=protocol,
        items=len(items),
        items_digest=compute_items_digest(items),
        libraries=versions,
        data=files,
        conditions=conditions or {},
    )
    return EvaluationPlan(rules, {item.name: item for item in items}, schedule_samples(items, protocol))


def check_sizes(where: str, items: Iterable[SuiteItem], config: Config) -> None:
    """Raise RunError if an item's program is too large to send to an env-runner."""
    for item in items:
        if (size := len(item.program.encode())) > config.bus.max_message_bytes // 2:
            name, most = as_line(item.name, 80), "half of bus.max_message_bytes"
            raise RunError(f"{where}: the program of item {name!r} has {size} bytes, over {most}")
