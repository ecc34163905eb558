"""A typed client of the replay service, for designers, agents, env-runners and the learner. Needs no store."""

import trio

from spade.protocol import (
    Audited,
    AuditJob,
    Batch,
    Checkpointed,
    DesignJob,
    Designs,
    EndedPlay,
    Evaluated,
    Evaluation,
    GetProgram,
    GetStatus,
    LeaseAudit,
    LeaseDesigns,
    LeasePlays,
    NotYet,
    Orders,
    PlayLease,
    Plays,
    Process,
    Publish,
    RejectCandidate,
    ReleaseDesign,
    ReleasePlay,
    Reply,
    ReportProcesses,
    Request,
    Role,
    Status,
    StepMetrics,
    SubmitEnvironment,
    SubmitPlays,
    TakeBatch,
    Weights,
)
from spade.transport import Client


class ReplayClient:
    """The replay service over one connection. When a call returns, the service has committed what it says.

    Every call raises BusError if the service refuses, or does not answer within the bus's deadline (which counts
    from the end of the wait, where a call may wait).
    """

    def __init__(self, client: Client, call_deadline_s: float) -> None:
        self.client = client
        self._call_deadline_s = call_deadline_s
        self._unserved: dict[str, float] = {}  # the start of each wait, by name; later requests of the name continue it

    async def lease_designs(self, count: int, wait_s: float, pool: str = "") -> tuple[DesignJob, ...]:
        """Up to `count` design jobs; empty if there is none within `wait_s`. `pool`: digest of a curator's list."""
        return (await self._call(LeaseDesigns(count, wait_s, pool), wait_s)).jobs

    async def reject_candidate(self, rejected: RejectCandidate) -> None:
        """Keep an attempt that failed admission."""
        await self._call(rejected)

    async def submit_environment(self, environment: SubmitEnvironment) -> None:
        """Hand in an admitted program."""
        await self._call(environment)

    async def release_design(self, job: DesignJob) -> None:
        """Give a design job back undone."""
        await self._call(ReleaseDesign(job.id, job.lease))

    async def lease_plays(self, count: int, wait_s: float) -> tuple[PlayLease, ...]:
        """Up to `count` plays; empty if there is none within `wait_s`."""
        return (await self._call(LeasePlays(count, wait_s), wait_s)).plays

    async def program(self, digest: str) -> str:
        """The source of an active environment, by its digest. Raises RefusedError if none has it."""
        return (await self._call(GetProgram(digest))).source

    async def submit_plays(self, plays: tuple[EndedPlay, ...]) -> None:
        """Hand in episodes that ended. Raises RefusedError if one makes no sense; the others are taken."""
        await self._call(SubmitPlays(plays))

    async def release_play(self, play: PlayLease, *, suspect: bool = False) -> None:
        """Give a play back: it is leased again, on the same seed, unless it was `suspect` before."""
        await self._call(ReleasePlay(play.id, play.lease, suspect))

    async def lease_audit(self, wait_s: float) -> tuple[AuditJob, ...]:
        """At most one audit; empty if there is none within `wait_s`."""
        return (await self._call(LeaseAudit(wait_s), wait_s)).jobs

    async def audited(self, outcome: Audited) -> None:
        """Hand in an audit that is over."""
        await self._call(outcome)

    async def take_batch(self, step: int, wait_s: float) -> Batch | NotYet:
        """The batch of learner step `step`; the reason if there is none within `wait_s`."""
        return await self._call(TakeBatch(step, wait_s), wait_s)

    async def publish(self, step: int, digest: str, path: str, metrics: StepMetrics) -> Weights:
        """Announce new weights; the same weights after the same step keep their version."""
        return (await self._call(Publish(step, digest, path, metrics))).weights

    async def checkpointed(self, step: int) -> None:
        """Report a durable checkpoint of `step`."""
        await self._call(Checkpointed(step))

    async def evaluated(self, evaluation: Evaluation) -> None:
        """Hand in an evaluation."""
        await self._call(Evaluated(evaluation))

    async def report_processes(
        self, supervisor: str, processes: tuple[Process, ...], wanted: dict[Role, int] | None = None
    ) -> Orders:
        """Report a supervisor's children and the number of actors it keeps up; returns the changes it is to make."""
        return await self._call(ReportProcesses(supervisor, processes, wanted))

    async def order(self, orders: Orders) -> None:
        """Change the number of actors that a supervisor keeps up, or drain some."""
        await self._call(orders)

    async def status(self) -> Status:
        """The status of the run."""
        return await self._call(GetStatus())

    async def _call(self, request: Request[Reply], wait_s: float = 0.0) -> Reply:
        # A request after the answer "none yet" continues the same wait.
        name = type(request).__name__
        since = self._unserved.pop(name, trio.current_time())
        with self.client.waits.on("replay", name, since):
            reply = await self.client.call(request, wait_s + self._call_deadline_s)
        if reply in (Plays(), Designs()) or isinstance(reply, NotYet):
            self._unserved[name] = since
        return reply
