"""The samples that measure a run during training: from the items of a suite, or from the programs of a folder."""

import hashlib
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from actors.suites import SUITES, Suite, check_sizes, resolve
from actors.suites.rows import LONGEST_ID
from actors.suites.suite import compute_items_digest
from spade.config import Config, SuiteChoice
from spade.disk import list_folder, read, refuse_outside
from spade.errors import ConfigError, RunError, SpadeError, format_reason
from spade.evaluations import EvaluationPlan, Protocol, SuiteItem
from spade.seeds import INSTANCE_MASK, derive
from spade.text import as_line

_POLICY = "newest"  # stands for any policy of the run in `Rules`, so that all of them have one digest of the measure


class HeldOut(NamedTuple):
    """The samples of each evaluation of a run, in order of play."""

    played_by: tuple[Suite, Protocol] | None
    """The suite and its protocol. None for a folder of programs, which are played like the run's environments."""

    samples: tuple[tuple[SuiteItem, int], ...]
    """Items, each with the number of its sample."""

    measure: str
    """A digest of everything that affects the figures, except the policy. Compare only figures with equal digests."""

    @property
    def suite(self) -> str:
        """Return the suite's name, or "" for a folder."""
        return self.played_by[0].name if self.played_by else ""

    @property
    def items(self) -> int:
        """Return the number of items with at least one sample."""
        return len({item.name for item, _ in self.samples})


def read_held_out(config: Config) -> HeldOut | None:
    """Read the samples that the config names. Returns None if it names neither a suite nor a folder.

    Raises ConfigError or RunError, in one line, if they cannot be read.
    """
    if not config.evaluation.suite:
        return None
    measured = config.evaluation.measured
    if not measured.name:
        return _plan_folder(config, Path(measured.path))
    try:
        return _plan_suite(config, SUITES[measured.name], measured)
    except SpadeError as error:
        raise type(error)(f"evaluation.suite: {error}") from None


def _plan_suite(config: Config, suite: Suite, measured: SuiteChoice) -> HeldOut:
    seed = config.run.seed or 0
    protocol = suite.with_examples(suite.protocol(measured.protocol), config.play.examples)
    longest, context_tokens = protocol.sampling.max_tokens, config.engine.context_tokens
    if longest >= context_tokens:
        raise ConfigError(
            f"suite {suite.name}: its turns of {longest} tokens do not fit engine.context_tokens = {context_tokens}"
        )
    conditions = {"context_tokens": str(protocol.context_tokens(context_tokens)), "thoughts": config.play.thoughts}
    data = Path(measured.path) if measured.path else None
    plan = resolve(suite, protocol, _POLICY, seed, data, conditions=conditions)
    check_sizes(f"suite {suite.name}", plan.items.values(), config)
    samples = _choose_samples(plan, seed, config.evaluation.plays)
    return HeldOut((suite, protocol), samples, _measure(plan.rules, [(item.name, number) for item, number in samples]))


def _choose_samples(plan: EvaluationPlan, seed: int, plays: int) -> tuple[tuple[SuiteItem, int], ...]:
    """Choose `plays` samples, or all samples if `plays` is 0. Take the items in turn, in an order drawn from the seed.

    In this order, the first n items have each category in proportion to its size, except for rounding.
    """
    drawn = sorted(plan.items.values(), key=lambda item: (derive(b"", "evaluation: item", seed, item.name), item.name))
    sizes, ranks = Counter(item.category for item in drawn), Counter[str]()
    places = dict[str, float]()
    for item in drawn:
        places[item.name] = (ranks[item.category] + 0.5) / sizes[item.category]
        ranks[item.category] += 1
    # The sort is stable, so items with equal places keep their drawn order.
    order = sorted(drawn, key=lambda item: places[item.name])
    wanted = plays or len(plan.scheduled)
    return tuple((order[number % len(order)], number // len(order)) for number in range(wanted))


def _plan_folder(config: Config, folder: Path) -> HeldOut:
    """Read the *.py files of a folder. The plays take the programs in turn, sorted by name, each on a new instance."""
    try:
        files = [folder / name for name in list_folder(folder) if name.endswith(".py")]
    except RunError as error:
        raise ConfigError(f"evaluation.suite: {error}") from None
    if not files:
        raise ConfigError(f"evaluation.suite: {folder} has no environment program (*.py); give another, or a suite")
    for file in files:
        if len(file.stem) > LONGEST_ID or not file.stem.isprintable():
            raise ConfigError(
                f"evaluation.suite: {folder}: {as_line(file.stem, 60)!r} is not a valid name of a program"
            )
        refuse_outside(file)
    try:
        sources = [read(file).decode() for file in files]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"evaluation.suite: {folder} cannot be read ({format_reason(error)})") from None
    seed, items = config.run.seed or 0, list[SuiteItem]()
    for number in range(config.evaluation.plays or len(files)):
        turn, place = divmod(number, len(files))
        instance = derive(b"", "evaluation: instance", seed, number) & INSTANCE_MASK
        items.append(SuiteItem(f"{files[place].stem}/{turn}", files[place].stem, sources[place], instance))
    check_sizes(f"evaluation.suite: {folder}", items, config)
    return HeldOut(None, tuple((item, 0) for item in items), _measure(config.play, seed, compute_items_digest(items)))


def _measure(*made_of: Any) -> str:
    return hashlib.blake2b(msgspec.json.encode(made_of, order="sorted"), digest_size=16).hexdigest()
