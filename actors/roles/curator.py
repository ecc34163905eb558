"""The curator process, which replaces the designer: brings the programs of a pool that the replay service asks for.

The curator asks no engine. A program goes through admission like a designer's program. Admission also finds the form of
its actions. A program that fails is rejected with its stage and reason. A program of a library or a server is admitted
if one episode opens. If a program in the run's copy of the pool was changed, the process ends with one line.
"""

from collections.abc import Callable
from pathlib import Path

import trio
from msgspec.structs import replace

from actors.links.connected import ActorConnections, attend
from actors.roles.jobs import JobWork
from spade.codec import compute_program_digest
from spade.config import ONE_ANSWER, Config
from spade.errors import RunError
from spade.pools import POOL, PoolProgram, read_list, read_program, set_level
from spade.pools.served import read_served
from spade.processes.entry import Launch, main
from spade.protocol import DesignJob, RejectCandidate, SubmitEnvironment, Verdict


class Curator(JobWork):
    """Brings programs from `folder`, which holds the pool with digest `pool`. Gauges: JobWork's."""

    def __init__(self, connected: ActorConnections, folder: Path, pool: str) -> None:
        super().__init__(connected, pool)
        self._folder = folder
        self._verdicts: dict[str, Verdict] = {}  # kept, since each pass would give the same verdict

    async def _fulfil(self, job: DesignJob) -> SubmitEnvironment | RejectCandidate:
        program = await trio.to_thread.run_sync(read_program, self._folder, job.program)
        if compute_program_digest(program.source) != job.digest:
            raise RunError(f"{self._folder}: {job.program}.py was changed since the run started; restore it")
        library = self._config.pool.library
        if library or read_served(program.source, self._config.sandbox.servers):
            leveled = replace(program, source=set_level(program.source, job.level)) if program.levels else program
            opened = await self._admission(leveled.source, job.sampler, plays=False)
            return _close_job(job, leveled, replace(opened, single_turn=library in ONE_ANSWER))
        if job.digest not in self._verdicts:
            self._verdicts[job.digest] = await self._admission(program.source, job.sampler)
        return _close_job(job, program, self._verdicts[job.digest])


def _close_job(job: DesignJob, program: PoolProgram, verdict: Verdict) -> SubmitEnvironment | RejectCandidate:
    if not verdict.passed:
        failed = verdict.stages[-1]
        return RejectCandidate(
            job=job.id,
            lease=job.lease,
            attempt=1,
            document=program.name,
            completion=program.source,
            stage=failed.name,
            reason=failed.reason,
            trajectory=None,
            last=True,
        )
    return SubmitEnvironment(
        job=job.id,
        lease=job.lease,
        attempt=1,
        document=program.name,
        name=verdict.name,
        source=program.source,
        hint=program.hint,
        seed_sensitive=verdict.seed_sensitive,
        first_observation=verdict.first_observation,
        trajectory=None,
        reads=verdict.reads,
        repairs=verdict.repairs,
        measures=verdict.measures,
        single_turn=verdict.single_turn,
    )


async def run(launch: Launch, config: Config, ready: Callable[[], None]) -> None:
    """Run a curator process until cancelled. Raises RunError if a program cannot be read."""
    folder = Path(launch.run) / POOL
    pool = read_list(folder).digest

    await attend(
        launch, config, ("env-runner",), config.design.lease_s, ready,
        lambda connected: Curator(connected, folder, pool).work(),
    )  # fmt: skip


if __name__ == "__main__":
    main(run)
