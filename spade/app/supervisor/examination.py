"""A policy measured on suites: a small run without learner and designers, which ends when all samples are recorded.

It has a replay service of its own, engines and env-runners. This process publishes the pinned weights once, and plays
and records the samples itself, so that more engines may join as in any run.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext, suppress
from functools import partial
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, NamedTuple

import trio

from actors.suites import Suite
from actors.text.conversation import Talk
from spade.app.rundir import RunDir
from spade.app.supervisor import launches
from spade.app.supervisor.pinned_run import pinned_settings, published
from spade.app.supervisor.policies import PinnedPolicy
from spade.app.supervisor.up import keep_up
from spade.config import Config, load
from spade.errors import RunError
from spade.evaluations import EvaluationPlan, Protocol, RecordFile, SuiteItem, folder_of, open_folder
from spade.transport import Client

if TYPE_CHECKING:
    from actors.roles.session import Session

PROCESSES = "processes"
LOAD_S, STEP_S = 60.0, 30.0  # a busy machine is no error of an item
_DIGITS = 16  # of a digest in a folder's name
_TOLD = 8  # times that progress is told, for each evaluation

Say = Callable[[str], None]


class Exam(NamedTuple):
    """An evaluation, and where it is kept: `root`/evaluations/… `talks` makes the talk of each play."""

    root: Path
    suite: Suite
    plan: EvaluationPlan
    talks: Callable[[], Talk]

    @property
    def folder(self) -> Path:
        """The folder of its records."""
        return folder_of(self.root, self.plan.rules)


def settings(
    base: str,
    overrides: Sequence[str],
    model: Path,
    dtype: str,
    exams: Sequence[tuple[Suite, Protocol]],
    context: int,
    others: Mapping[str, object],
) -> Config:
    """The config of the processes: that of the run or recipe `base`, as far as it is about sampling and playing.

    `others`: settings of its own.

    Raises ConfigError.
    """
    from actors.roles.manner import patient

    given = load(base)
    patiently = patient(given, max(protocol.sampling.max_tokens for _, protocol in exams))
    libraries = sorted({suite.library for suite, _ in exams if suite.library} | set(given.sandbox.libraries))
    samples_at_once = given.engine.rows * max(given.actors.engines_bounds[0], 1)
    own = {
        "play.lease_s": patiently.play.lease_s,
        # Of weights that small the records are to be the same beside any other samples.
        "engine.arithmetic": "float64" if dtype == "float32" and given.engine.kind == "torch" else "model",
        "engine.request_deadline_s": patiently.engine.request_deadline_s,
        "evaluation.in_flight": min(samples_at_once, given.sandbox.episodes * max(given.actors.runners, 1)),
        "sandbox.libraries": libraries,
        "sandbox.load_s": max(given.sandbox.load_s, LOAD_S),
        "sandbox.step_s": max(given.sandbox.step_s, STEP_S),
        **others,
    }
    return pinned_settings(base, overrides, model, dtype, context, own)


def measure(place: Path, config: Config, policy: PinnedPolicy, exams: Sequence[Exam], say: Say) -> None:
    """Play and record what is missing of these evaluations of one policy.

    Their processes have a run directory below `place`, which is deleted when all is recorded. Raises RunError, also
    where a signal came first.
    """
    with ExitStack() as stack:
        records = [stack.enter_context(open_folder(exam.root, exam.plan.rules, exam.plan.scheduled)) for exam in exams]
        # The records are this command's alone now, and with them the run directories that a kill has left.
        for exam in exams:
            _forget(_processes(place, exam))
        missing = [(exam, kept) for exam, kept in zip(exams, records, strict=True) if kept.missing]
        if not missing:
            return
        if policy.folder is None:
            raise RunError(f"{exams[0].root}: the weights of policy {policy.digest} are gone, so it cannot be measured")
        run = _processes(place, missing[0][0])
        run.create(config)
        say(f"measuring {policy.digest[:_DIGITS]} ({policy.name}); its processes are those of {run.path}")
        body = partial(_examine, run, config, policy, missing, say)
        actor = partial(launches.actor, run, config, run.replay_address, "")
        services = [launches.replay(run, config, "")]
        trio.run(partial(keep_up, run, config, ("replay",), launches=services, actor=actor, body=body))
        if left := sum(len(kept.missing) for kept in records):
            raise RunError(f"stopped with {left} samples to play; the same command goes on from here")
        _forget(run)


def _processes(place: Path, exam: Exam) -> RunDir:
    """The run directory of the processes of a command whose first evaluation this is."""
    return RunDir(place / PROCESSES / exam.plan.rules.digest[:_DIGITS])


def _forget(run: RunDir) -> None:
    """Delete the run directory, of which nobody else reads: all that is kept of an evaluation is its records."""
    if run.path.is_dir():
        rmtree(Path(run.socket("replay").removeprefix("ipc://")).parent)
        rmtree(run.path)
        with suppress(OSError):  # it is not empty: another command is measuring
            run.path.parent.rmdir()


async def _examine(
    run: RunDir, config: Config, policy: PinnedPolicy, exams: Sequence[tuple[Exam, RecordFile]], say: Say, _: Client
) -> None:
    """Publish the weights and play, one evaluation after the other."""
    from actors.roles.session import Session, attend

    async def work(session: Session) -> None:
        for exam, kept in exams:
            await _play(session, exam, kept, say)

    sampled_here = nullcontext() if config.endpoint.url else published(run, config, policy)
    async with sampled_here:
        await attend(launches.evaluator(run, config), config, config.play.lease_s, lambda: None, work)


async def _play(session: "Session", exam: Exam, kept: RecordFile, say: Say) -> None:
    """Play and record what one evaluation lacks."""
    from actors.roles.examiner import Examined, Examiner
    from actors.roles.manner import Manner, manner_of_suite

    rules, told = exam.plan.rules, _progress(exam, kept, say)

    async def manner(_: SuiteItem) -> Manner:
        return manner_of_suite(exam.suite, rules.protocol, exam.talks, session.config)

    def over(examined: Examined) -> None:
        kept.add(examined.record)
        told()

    samples = [(exam.plan.items[name], number) for name, number in kept.missing]
    await Examiner(session, rules.suite, rules.seed, manner).examine(samples, over)


def _progress(exam: Exam, kept: RecordFile, say: Say) -> Callable[[], None]:
    """Tells a few times how many samples have their record."""
    rules, all_of_them = exam.plan.rules, len(exam.plan.scheduled)
    step = max(1, all_of_them // _TOLD)

    def told() -> None:
        if len(kept.records) % step == 0 or len(kept.records) == all_of_them:
            say(f"{rules.suite}@{rules.protocol.name}: {len(kept.records)} of {all_of_them} samples")

    return told
