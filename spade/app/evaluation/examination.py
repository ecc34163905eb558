"""Measure a policy on suites by a small run without learner and designers. It ends when all samples are recorded.

The run has its own replay service, engines and env-runners. More engines may join, as in any run. This process
publishes the pinned weights once, and plays and records the samples itself.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext, suppress
from functools import partial
from pathlib import Path

import trio

from actors.suites import Suite
from actors.suites.harnesses import Harness
from spade.app.evaluation.planned import Missing, PlannedEvaluation, Say
from spade.app.evaluation.policies import PinnedPolicy
from spade.app.evaluation.run import delete_run, derive_pinned_settings, publish_policy
from spade.app.evaluation.servers import Servers, wait_for_gateway
from spade.app.rundir import RunDir
from spade.app.supervisor import launches
from spade.app.supervisor.up import keep_up
from spade.config import Config, load
from spade.disk import refuse_linked_folders
from spade.errors import RunError
from spade.evaluations import Protocol, is_finished, open_folder
from spade.text import SHORT_DIGEST
from spade.transport import Client

PROCESSES = "processes"
LOAD_S, STEP_S = 60.0, 30.0  # seconds; generous, so that a busy machine does not cause errors of items


def derive_settings(
    base: str,
    overrides: Sequence[str],
    model: Path,
    dtype: str,
    exams: Sequence[tuple[Suite, Protocol]],
    context: int,
    others: Mapping[str, object],
) -> Config:
    """Derive the config of the processes. `base`, a run or recipe, gives the settings for sampling and playing.

    `others` are further settings. Raises ConfigError if a setting is invalid.
    """
    from actors.play.play_settings import extend_deadlines

    given = load(base)
    patiently = extend_deadlines(given, max(protocol.sampling.max_tokens for _, protocol in exams))
    libraries = sorted({suite.library for suite, _ in exams if suite.library} | set(given.sandbox.libraries))
    samples_at_once = given.engine.rows * max(given.actors.engines_bounds[0], 1)
    own = {
        "play.lease_s": patiently.play.lease_s,
        # For float32 weights, compute in float64. So a record does not depend on the samples beside it in a batch.
        "engine.arithmetic": "float64" if dtype == "float32" and given.engine.kind == "torch" else "model",
        "engine.request_deadline_s": patiently.engine.request_deadline_s,
        "evaluation.in_flight": min(samples_at_once, given.sandbox.episodes * max(given.actors.runners, 1)),
        "sandbox.libraries": libraries,
        **({"actors.runners": 0} if all(isinstance(suite, Harness) for suite, _ in exams) else {}),
        "sandbox.load_s": max(given.sandbox.load_s, LOAD_S),
        "sandbox.step_s": max(given.sandbox.step_s, STEP_S),
        **others,
    }
    return derive_pinned_settings(base, overrides, model, dtype, context, own)


def measure(
    place: Path,
    config: Config,
    policy: PinnedPolicy,
    exams: Sequence[PlannedEvaluation],
    say: Say,
    servers: Servers,
) -> None:
    """Play and record the missing samples of `exams`, which all measure `policy`.

    The processes have a run directory below `place`, which is deleted when all samples are recorded. Raises RunError if
    the weights are gone, if a signal ended the work, or if a folder in `place` is a link.
    """
    refuse_linked_folders(place)
    finished = [exam for exam in exams if is_finished(exam.root, exam.plan.rules, exam.plan.scheduled)]
    for exam in finished:
        with suppress(OSError):  # nothing can be written here
            delete_run(_make_run_directory(place, exam))  # left by a command that was killed just before its end
    exams = [exam for exam in exams if exam not in finished]
    with ExitStack() as stack:
        records = [stack.enter_context(open_folder(exam.root, exam.plan.rules, exam.plan.scheduled)) for exam in exams]
        # The records now belong to this command alone. So do the run directories that a killed command left.
        for exam in exams:
            delete_run(_make_run_directory(place, exam))
        missing = [(exam, kept) for exam, kept in zip(exams, records, strict=True) if kept.missing]
        if not missing:
            return
        if policy.folder is None:
            raise RunError(f"{exams[0].root}: the weights of policy {policy.digest} are gone, so it cannot be measured")
        run = _make_run_directory(place, missing[0][0])
        run.create(config)
        say(f"measuring {policy.digest[:SHORT_DIGEST]} ({policy.name}); its processes run in {run.path}")
        body = partial(_examine, run, config, policy, missing, say, servers)
        actor = partial(launches.make_actor_launch, run, config, run.replay_address, "")
        services = [launches.make_replay_launch(run, config, "")]
        if servers.policy is None and any(isinstance(exam.suite, Harness) for exam, _ in missing):
            services.append(launches.make_gateway_launch(run, config, run.replay_address, ""))
        with run.lock("replay"):
            trio.run(partial(keep_up, run, config, launches=services, actor=actor, body=body))
        if left := sum(len(kept.missing) for kept in records):
            raise RunError(f"stopped with {left} samples to play; the same command goes on from here")
        delete_run(run)


def _make_run_directory(place: Path, exam: PlannedEvaluation) -> RunDir:
    """Return the run directory for the processes of a command, named by its first evaluation."""
    return RunDir(place / PROCESSES / exam.plan.rules.digest[:SHORT_DIGEST])


async def _examine(
    run: RunDir,
    config: Config,
    policy: PinnedPolicy,
    missing: Missing,
    say: Say,
    servers: Servers,
    client: Client,
) -> None:
    """Play one evaluation after another. If our engines sample, publish the weights first."""
    from spade.app.evaluation.harnessed import play_by_harness
    from spade.app.evaluation.plays import play_by_chats, play_by_tokens

    programs = [each for each in missing if not isinstance(each[0].suite, Harness)]
    harnessed = [each for each in missing if isinstance(each[0].suite, Harness)]
    published = nullcontext() if servers.policy else publish_policy(run, config, policy)
    async with published:
        if programs and servers.policy and not servers.tokens:
            await play_by_chats(run, config, programs, say, servers.policy)
        elif programs:
            await play_by_tokens(run, config, programs, say)
        if harnessed:
            agent = servers.policy or await wait_for_gateway(config, client)
            await play_by_harness(harnessed, config, run.logs, agent, servers.user, say)
