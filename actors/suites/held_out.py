"""The samples by which a run is measured while it trains: of the items of a suite, or of the programs of a folder."""

import hashlib
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from actors.suites import SUITES, Suite, check_sizes, resolve
from actors.suites.rows import LONGEST_ID
from actors.suites.suite import items_digest
from spade.config import Config
from spade.disk import read, refuse_outside
from spade.errors import ConfigError, SpadeError, reason
from spade.evaluations import EvaluationPlan, Protocol, SuiteItem
from spade.seeds import INSTANCE_MASK, derive
from spade.text import line

_POLICY = "newest"  # of the rules: it moves, and is no part of what is measured


class HeldOut(NamedTuple):
    """The samples of each evaluation of a run, in the order in which they are played.

    played_by  the suite and its protocol; None of a folder, whose programs are played as the run's own are
    samples    items, each with the number of its sample
    measure    digest of all that they are made of: with another one the figure means something else
    """

    played_by: tuple[Suite, Protocol] | None
    samples: tuple[tuple[SuiteItem, int], ...]
    measure: str

    @property
    def suite(self) -> str:
        """The suite's name; "" of a folder."""
        return self.played_by[0].name if self.played_by else ""

    @property
    def items(self) -> int:
        """The number of items of which there is a sample."""
        return len({item.name for item, _ in self.samples})


def read_held_out(config: Config) -> HeldOut | None:
    """The samples that this config names; None where it names none.

    Raises ConfigError or RunError, in one line, where they cannot be had.
    """
    if config.evaluation.suite:
        try:
            return _of_suite(config, SUITES[config.evaluation.suite])
        except SpadeError as error:
            raise type(error)(f"evaluation.suite: {error}") from None
    return _of_folder(config, Path(config.evaluation.programs)) if config.evaluation.programs else None


def _of_suite(config: Config, suite: Suite) -> HeldOut:
    evaluation, seed = config.evaluation, config.run.seed or 0
    protocol = suite.with_examples(suite.protocol(evaluation.protocol), config.play.examples)
    longest, context_tokens = protocol.sampling.max_tokens, config.engine.context_tokens
    if longest >= context_tokens:
        raise ConfigError(
            f"suite {suite.name}: its turns of {longest} tokens do not fit engine.context_tokens = {context_tokens}"
        )
    conditions = {"context_tokens": str(protocol.context_tokens(context_tokens)), "thoughts": config.play.thoughts}
    data = Path(evaluation.data) if evaluation.data else None
    plan = resolve(suite, protocol, _POLICY, seed, data, conditions=conditions)
    check_sizes(f"suite {suite.name}", plan.items.values(), config)
    samples = _chosen(plan, seed, evaluation.plays)
    return HeldOut((suite, protocol), samples, _measure(plan.rules, [(item.name, number) for item, number in samples]))


def _chosen(plan: EvaluationPlan, seed: int, plays: int) -> tuple[tuple[SuiteItem, int], ...]:
    """So many samples over the items in turn, in an order that the seed draws; all where `plays` is 0.

    Of each category the order's first items are its share of them, but for rounding.
    """
    drawn = sorted(plan.items.values(), key=lambda item: (derive(b"", "evaluation: item", seed, item.name), item.name))
    sizes, ranks = Counter(item.category for item in drawn), Counter[str]()
    places = dict[str, float]()
    for item in drawn:
        places[item.name] = (ranks[item.category] + 0.5) / sizes[item.category]
        ranks[item.category] += 1
    order = sorted(drawn, key=lambda item: places[item.name])  # stable: as drawn, where places are equal
    wanted = plays or len(plan.scheduled)
    return tuple((order[number % len(order)], number // len(order)) for number in range(wanted))


def _of_folder(config: Config, folder: Path) -> HeldOut:
    """The *.py of a folder in the order of their names, in turn, each time on another instance."""
    files = sorted(folder.glob("*.py"))
    if not files:
        raise ConfigError(
            f"evaluation.programs: {folder} has no environment program (*.py); give another, or evaluation.suite"
        )
    for file in files:
        if len(file.stem) > LONGEST_ID or not file.stem.isprintable():
            raise ConfigError(f"evaluation.programs: {folder}: {line(file.stem, 60)!r} is no name of a program")
        refuse_outside(file)
    try:
        sources = [read(file).decode() for file in files]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"evaluation.programs: {folder} cannot be read ({reason(error)})") from None
    seed, items = config.run.seed or 0, list[SuiteItem]()
    for number in range(config.evaluation.plays or len(files)):
        turn, place = divmod(number, len(files))
        instance = derive(b"", "evaluation: instance", seed, number) & INSTANCE_MASK
        items.append(SuiteItem(f"{files[place].stem}/{turn}", files[place].stem, sources[place], instance))
    check_sizes(f"evaluation.programs: {folder}", items, config)
    return HeldOut(None, tuple((item, 0) for item in items), _measure(config.play, seed, items_digest(items)))


def _measure(*made_of: Any) -> str:
    return hashlib.blake2b(msgspec.json.encode(made_of, order="sorted"), digest_size=16).hexdigest()
