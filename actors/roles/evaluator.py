"""The evaluator process: measures the newest policy on the same held-out items, without hints, again and again.

Items, instance seeds and sampling seeds are the same each time. So two evaluations differ only by the policy. The items
are not trained on, and only their figures are kept.

The process also measures the diversity of the newest programs (`actors/roles/diversity.py`).
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import trio

from actors.play.examiner import WIN, Examiner, SampleResult
from actors.play.play_settings import PlaySettings, extend_deadlines, make_run_play_settings, make_suite_play_settings
from actors.play.session import Session, attend
from actors.roles.diversity import DiversityMeter
from actors.suites import Suite
from actors.suites.held_out import HeldOut, read_held_out
from actors.text.measures.diversity import load_embedding
from spade.config import Config
from spade.disk import hold
from spade.estimates import ItemTally, compute_share, group_by_category
from spade.evaluations import Protocol, SuiteItem
from spade.policy import best
from spade.policy.manifest import PARAMETERS
from spade.processes.entry import Launch, main
from spade.protocol import MOST_CATEGORIES, Evaluation, Validate, Verdict
from spade.seeds import derive

log = logging.getLogger(__name__)


PlaySettingsOf = Callable[[SuiteItem], Awaitable[PlaySettings]]


def summarise_samples(
    examined: Sequence[SampleResult], categories: Mapping[str, str], held_out: HeldOut, step: int, seconds: float
) -> Evaluation | None:
    """Return the figures of an evaluation, or None if no answer was sampled from published weights.

    `categories` has the category of each item. An error counts as a wrong answer, so that no policy looks better for
    the faults that it provokes.
    """
    versions = frozenset[int]().union(*(each.versions for each in examined))
    if not versions:
        return None
    right: dict[str, list[bool]] = {}
    for each in examined:
        right.setdefault(each.record.item, []).append(each.record.correct)
    tallies = {item: ItemTally(len(won), sum(won)) for item, won in right.items()}
    found, parts = compute_share(list(tallies.values())), group_by_category(tallies, categories)
    return Evaluation(
        step=step,
        oldest=min(versions),
        newest=max(versions),
        plays=len(examined),
        voids=sum(each.record.error is not None for each in examined),
        win_rate=found.mean,
        error=found.error or 0.0,
        seconds=seconds,
        suite=held_out.suite,
        categories={name: part.mean for name, part in parts.items()} if len(parts) <= MOST_CATEGORIES else {},
        measure=held_out.measure,
    )


class Evaluator:
    """Evaluates published policies. Gauges: the examiner's, and `evaluations` made."""

    def __init__(self, session: Session, held_out: HeldOut, run: Path) -> None:
        """Prepare to play the suite. Raises RunError if the checkpoint cannot play it."""
        self._session = session
        self._held_out = held_out
        self._run = run
        self._config = session.config
        self._replay = session.replay
        self._examiner = _make_examiner(session, held_out)
        self._gauges = session.gauges
        self._gauges.update(evaluations=0)

    async def work(self) -> None:
        """Make one evaluation after the other until cancelled. Weights published meanwhile are skipped."""
        due = 0
        while True:
            weights = await self._replay.weights_after(due)
            folder = self._run / "weights" / weights.digest
            async with _hold_weights(folder / PARAMETERS) as here:
                evaluation = await self._evaluate(weights.step)
                if evaluation is not None and here:
                    await self._keep_best(evaluation, weights.digest, folder)
            if evaluation is not None:
                await self._session.hand_in(partial(self._replay.evaluated, evaluation))
                self._gauges["evaluations"] += 1
            due = weights.step + self._config.evaluation.every_steps

    async def _keep_best(self, made: Evaluation, digest: str, folder: Path) -> None:
        """Keep the policy if its evaluation is the best so far.

        The policy is kept before the evaluation is handed in, so that a kill does not lose it.
        """
        new = best.Best(made.step, digest, self._held_out.measure, made.win_rate, made.error, made.plays)
        if await trio.to_thread.run_sync(best.keep, self._run / best.FOLDER, folder, new):
            log.info("the best policy so far: %s", new)

    async def _evaluate(self, step: int) -> Evaluation | None:
        examined, began = list[SampleResult](), trio.current_time()
        await self._examiner.examine(self._held_out.samples, examined.append)
        categories = {item.name: item.category for item, _ in self._held_out.samples}
        made = summarise_samples(examined, categories, self._held_out, step, trio.current_time() - began)
        if made is None:
            last = examined[-1].record.detail
            log.warning("each of %d samples ended in an error, the last in: %s", len(examined), last)
        return made


def _make_examiner(session: Session, held_out: HeldOut) -> Examiner:
    """Make the examiner.

    It plays samples of a suite as the suite says, and samples of a folder of programs like the run's own plays.
    """
    play, seed = session.config.play, session.config.run.seed or 0
    if held_out.played_by is None:
        patiently = replace(session, config=extend_deadlines(session.config, play.max_turn_tokens))
        return Examiner(patiently, "programs", seed, _FolderPlaySettings(patiently).play_settings, play.win_return)
    suite, protocol = held_out.played_by
    patiently = replace(session, config=extend_deadlines(session.config, protocol.sampling.max_tokens))
    return Examiner(patiently, suite.name, seed, _bind_suite_play_settings(patiently, suite, protocol), WIN)


def _bind_suite_play_settings(session: Session, suite: Suite, protocol: Protocol) -> PlaySettingsOf:
    chat_formats = suite.chat_formats(protocol, session.tokenizer)

    async def play_settings(_: SuiteItem) -> PlaySettings:
        return make_suite_play_settings(suite, protocol, chat_formats, session)

    return play_settings


class _FolderPlaySettings:
    """Makes the settings of plays of programs in a user's folder. Admission examines each program once, before its
    first play."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._verdicts: dict[str, Verdict] = {}
        self._finding: dict[str, trio.Lock] = {}

    async def play_settings(self, item: SuiteItem) -> PlaySettings:
        """Return the settings of a program's plays. Raises BusError if no env-runner examines the program."""
        verdict = await self._fetch_verdict(item)
        return make_run_play_settings(self._session, verdict.reads, verdict.single_turn)

    async def _fetch_verdict(self, item: SuiteItem) -> Verdict:
        """Return the verdict of admission on a program. It says how to play the program, even if the program fails."""
        source, config = item.program, self._session.config
        async with self._finding.setdefault(source, trio.Lock()):
            if source not in self._verdicts:
                seed = derive(b"", "evaluation: form", config.run.seed or 0, item.category)
                self._verdicts[source] = await self._session.runners.call(Validate(source, seed), config.play.lease_s)
            return self._verdicts[source]


@asynccontextmanager
async def _hold_weights(file: Path) -> AsyncIterator[bool]:
    """Keep published weights from being pruned during the block. Yields False if they are not on this machine."""
    try:
        held = await trio.to_thread.run_sync(hold, file)
    except FileNotFoundError:
        log.warning("%s is not here, so the policy of this evaluation cannot be kept", file)
        yield False
        return
    with held:
        yield True


async def run(launch: Launch, config: Config, ready: Callable[[], None]) -> None:
    """Run an evaluator process until cancelled.

    Raises ConfigError or RunError if its items or its embedding cannot be loaded.
    """
    settings = config.evaluation
    held_out = read_held_out(config)
    embedding = load_embedding(settings.embedding) if settings.diversity_programs else None

    async def work(session: Session) -> None:
        async with trio.open_nursery() as nursery:
            if held_out is not None:
                nursery.start_soon(Evaluator(session, held_out, Path(launch.run)).work)
            if embedding is not None:
                nursery.start_soon(DiversityMeter(session, embedding).work)

    await attend(launch, config, config.play.lease_s, ready, work)


if __name__ == "__main__":
    main(run)
