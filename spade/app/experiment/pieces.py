"""One run of an experiment, from its pool to its results, by commands of `spade`.

If a command is repeated, it resumes its earlier work. The commands drain and end with this process, also if it is
killed. Until then they keep the run's folder locked, so the next experiment stops them before it repeats a command.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import trio

import spade
from actors.suites import SUITES
from replay.inspect.environments import find_newest_weights
from replay.inspect.journal import JournalRows, read_journal
from replay.inspect.plays import count_trained
from spade.app.experiment.designed import count_top_families, group_by_level, read_levelled_programs
from spade.app.experiment.folder import ExperimentFolder, refuse_left
from spade.app.experiment.plan import Piece
from spade.app.experiment.results import (
    MOST_EVALUATIONS,
    MOST_ROWS,
    RunResult,
    choose_rows,
)
from spade.app.rundir import RunDir
from spade.disk import list_folder, open_to_append
from spade.errors import RunError
from spade.evaluations import Summary, find_evaluations
from spade.pools import MADE, list_names
from spade.text import as_line

DRAIN_S = 120.0
"""Most seconds that a command may take to drain after it is told to end."""
# A guarded command ends with its starter. -P: a folder replay/ in the working directory must not shadow our package.
_SPADE = (sys.executable, "-P", "-m", "spade.app.door.guarded")
_TAIL = 4_096
_AGAIN = "delete the run and its pool to make them anew, or choose another --out"


async def make(place: ExperimentFolder, piece: Piece, reference: RunResult | None) -> RunResult:
    """Bring a run to its end and measure its last policy. `reference` is the result of the run's match.

    Raises RunError if a command fails.
    """
    run, arm = place.run(piece), place.experiment.arms[piece.arm]
    log = place.folder / f"{piece}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    await _stop_left(place, piece, log)
    refuse_left(place, piece)
    if arm.pool:
        await _make_pool(place, piece, log)
    if reference is None:
        await _reach(place, piece, log)
    else:
        await _match(place, piece, reference.agent, log)
    suite, protocol = place.experiment.suite, place.experiment.protocol
    await _run_spade(["eval", "run", str(run.path), "--suite", suite, "--protocol", protocol], log)
    return _collect_result(place, piece)


async def _make_pool(place: ExperimentFolder, piece: Piece, log: Path) -> None:
    arm = place.experiment.arms[piece.arm]
    writer = place.writer(piece)
    count, recipe = str(arm.pool), place.experiment.arms[writer.arm].recipe
    words = ["pool", "make", recipe, "-o", str(place.pool(piece)), "--count", count]
    await _run_spade([*words, *_make_set_options(place.experiment.overrides(writer))], log)
    if (there := len(list_names(place.pool(piece)))) != arm.pool:
        raise RunError(f"{place.pool(piece)}: has {there} programs, not {arm.pool}; {_AGAIN}")


async def _reach(place: ExperimentFolder, piece: Piece, log: Path) -> None:
    """Continue the run to the experiment's last step."""
    steps = place.experiment.steps
    rows = await _play_until(place, piece, steps, log)
    if (had := rows.steps[-1].learner_step) > steps:
        raise RunError(f"{place.run(piece).path}: has made {had} learner steps, over {steps}; {_AGAIN}")


async def _play_until(place: ExperimentFolder, piece: Piece, steps: int, log: Path) -> JournalRows:
    """Continue the run until it has made `steps` learner steps. Return the rows of its journal."""
    run, recipe = place.run(piece), place.experiment.arms[piece.arm].recipe
    words = ["up", recipe, "--run", str(run.path), "--headless"]
    await _run_spade([*words, *_make_set_options([*place.settings(piece), f"limits.steps={steps}"])], log)
    rows = _read_rows(run)
    if not rows.steps or rows.steps[-1].learner_step < steps:
        raise RunError(f"{run.path}: ended before step {steps}; {log} says more")
    return rows


async def _match(place: ExperimentFolder, piece: Piece, wanted: int, log: Path) -> None:
    """Continue the run until the number of agent trajectories it has trained on is within half a batch of `wanted`."""
    batch = place.experiment.config(piece).learner.batch_sequences
    steps = had = 0
    while wanted - had >= batch / 2 or not steps:
        rows = await _play_until(place, piece, steps + max(1, round((wanted - had) / batch)), log)
        steps = rows.steps[-1].learner_step
        had, _ = count_trained(place.run(piece).store, steps)
    if had - wanted >= batch:  # an earlier plan trained the run for longer
        raise RunError(
            f"{place.run(piece).path}: trained on {had:,} trajectories of the agent, over the {wanted:,} of its match; "
            f"{_AGAIN}"
        )


def _collect_result(place: ExperimentFolder, piece: Piece) -> RunResult:
    """Collect the results of a run that is over and measured. Raises RunError if they are incomplete."""
    run, experiment = place.run(piece), place.experiment
    rows, last_policy = _read_rows(run), find_measured(place, run)
    last = rows.steps[-1]
    written = read_levelled_programs(run, last.learner_step) if experiment.suite == "nano" else None
    agent, designer = count_trained(run.store, last.learner_step)
    return RunResult(
        arm=piece.arm, seed=piece.seed, plan=experiment.digest(piece), spade=spade.__version__,
        origins=place.origins, steps=last.learner_step, agent=agent, designer=designer,
        plays=int(last.plays or 0), environments=int(last.environments or 0),
        held_out=last_policy.categories, rows=choose_rows(rows.steps, MOST_ROWS),
        evaluations=choose_rows(rows.evaluations, MOST_EVALUATIONS),
        diversities=choose_rows(rows.diversities, MOST_EVALUATIONS),
        designed=group_by_level(written or []),
        top_families=None if written is None else count_top_families(written),
    )  # fmt: skip


def find_measured(place: ExperimentFolder, run: RunDir) -> Summary:
    """Return the evaluation of the last policy. Evaluations of other policies or by other rules do not count.

    Raises RunError if the last policy was not evaluated.
    """
    suite = SUITES[place.experiment.suite]
    newest, protocol = find_newest_weights(run.store), suite.protocol(place.experiment.protocol)
    asked = place.origins.world, protocol, 0, None if newest is None else newest.digest
    for each in find_evaluations(run.path, suite.name):
        rules, summary = each.rules, each.summary
        ours = (rules.items_digest, rules.protocol, rules.seed, rules.policy) == asked
        if ours and summary is not None and summary.headline is not None:
            return summary
    raise RunError(f"{run.path}: its last policy was not measured on {suite.name}; the same command measures it")


def _read_rows(run: RunDir) -> JournalRows:
    try:
        return read_journal(run.metrics_path)
    except FileNotFoundError:
        return JournalRows()


def _make_set_options(settings: Sequence[str]) -> list[str]:
    return [word for setting in settings for word in ("--set", setting)]


async def _stop_left(place: ExperimentFolder, piece: Piece, log: Path) -> None:
    """Stop the processes of an earlier experiment, and wait for their end."""
    run, pool = place.run(piece), place.pool(piece)
    evaluating = run.path / "evaluations" / "processes"
    folders = [run.path, pool / MADE, *(evaluating / name for name in list_folder(evaluating))]
    for left in map(RunDir, folders):
        if left.exists and left.holders():
            try:
                await _run_spade(["stop", str(left.path)], log)
            except RunError:
                if left.holders():  # otherwise they ended before the order came
                    raise


async def _run_spade(words: Sequence[str], log: Path) -> None:
    """Run a command of spade and write its output to the log. Sets no deadline, because a run has its own.

    Raises RunError with the last line of its output if it fails.
    """
    with open_to_append(log) as out, _open_lifeline() as lifeline:
        try:
            out.write(f"$ spade {' '.join(words)}\n".encode())
            out.flush()
        except OSError as error:
            error.filename = str(log)  # on a full disk, the error does not name the file
            raise
        done = await trio.run_process(
            [*_SPADE, *words],
            stdin=lifeline,
            stdout=out,
            stderr=subprocess.STDOUT,
            check=False,
            deliver_cancel=_drain,
        )
    if done.returncode:
        ended = "failed" if done.returncode > 0 else f"was killed by signal {-done.returncode}"
        raise RunError(f"`spade {words[0]}` {ended}: {as_line(_read_last_line(log), 300)} ({log} has more)")


@contextmanager
def _open_lifeline() -> Iterator[int]:
    """Yield the standard input of a guarded command. It closes at the end of the block, or of this process."""
    theirs, ours = os.pipe()
    try:
        yield theirs
    finally:
        os.close(theirs)
        os.close(ours)


def _read_last_line(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL))
        return file.read().decode(errors="replace").strip().rpartition("\n")[2]


async def _drain(process: trio.Process) -> None:
    """Let a cancelled command drain. Kill it if that takes too long."""
    process.terminate()
    with trio.move_on_after(DRAIN_S):
        await process.wait()
        return
    process.kill()
