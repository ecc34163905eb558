"""A typed client of the replay service, for every process that calls it. Needs no access to the store."""

from collections.abc import Sequence

import trio

from spade import protocol
from spade.transport import Client


class ReplayClient:
    """Calls the replay service over one connection. When a call returns, the service has committed its effect.

    Every call raises BusError if the service refuses, or does not answer within `call_deadline_s`. A call with a wait
    has `wait_s` seconds more.
    """

    def __init__(self, client: Client, call_deadline_s: float) -> None:
        self.client = client
        self._call_deadline_s = call_deadline_s
        # By request type, if its last answer was "none yet": the time at which the wait began.
        self._unserved: dict[str, float] = {}

    async def lease_designs(self, count: int, wait_s: float, pool: str = "") -> tuple[protocol.DesignJob, ...]:
        """Lease up to `count` design jobs. Returns () if no job comes within `wait_s`.

        `pool` is the digest of a curator's pool, "" for a designer.
        """
        return (await self._call(protocol.LeaseDesigns(count, wait_s, pool), wait_s)).jobs

    async def similarity(self, source: str) -> protocol.Similarity:
        """Compare an admitted program with earlier programs."""
        return await self._call(protocol.CompareProgram(source))

    async def reject_candidate(self, rejected: protocol.RejectCandidate) -> None:
        """Report an attempt that failed admission. The service keeps it."""
        await self._call(rejected)

    async def submit_environment(self, environment: protocol.SubmitEnvironment) -> None:
        """Submit an admitted program."""
        await self._call(environment)

    async def release_design(self, job: protocol.DesignJob) -> None:
        """Give a design job back undone."""
        await self._call(protocol.ReleaseDesign(job.id, job.lease))

    async def lease_plays(self, count: int, wait_s: float) -> tuple[protocol.PlayLease, ...]:
        """Lease up to `count` plays. Returns () if no play comes within `wait_s`."""
        return (await self._call(protocol.LeasePlays(count, wait_s), wait_s)).plays

    async def program(self, digest: str) -> str:
        """Return the program with this digest. Raises RefusedError if no active environment has it."""
        return (await self._call(protocol.GetProgram(digest))).source

    async def submit_plays(self, plays: tuple[protocol.EndedPlay, ...]) -> None:
        """Submit episodes that ended. Raises RefusedError if some make no sense. The service accepts all others."""
        await self._call(protocol.SubmitPlays(plays))

    async def release_play(self, play: protocol.PlayLease, *, suspect: bool = False) -> None:
        """Give a play back, to be leased again on the same seed. `suspect`: a service crashed while it served the play.

        A play that is given back as suspect twice becomes void.
        """
        await self._call(protocol.ReleasePlay(play.id, play.lease, suspect))

    async def lease_audit(self, wait_s: float) -> tuple[protocol.AuditJob, ...]:
        """Lease at most one audit. Returns () if no audit comes within `wait_s`."""
        return (await self._call(protocol.LeaseAudit(wait_s), wait_s)).jobs

    async def audited(self, outcome: protocol.Audited) -> None:
        """Submit the outcome of an audit."""
        await self._call(outcome)

    async def take_batch(self, step: int, wait_s: float) -> protocol.Batch | protocol.NotYet:
        """Take the batch of learner step `step`. Returns the reason if none is ready within `wait_s`."""
        return await self._call(protocol.TakeBatch(step, wait_s), wait_s)

    async def publish(self, step: int, digest: str, path: str, metrics: protocol.StepMetrics) -> protocol.Weights:
        """Announce new weights. If they were announced for the same step before, they keep their version."""
        return (await self._call(protocol.Publish(step, digest, path, metrics))).weights

    async def retire(self, digests: Sequence[str]) -> tuple[str, ...]:
        """Ask which of these weights no engine holds, at most MOST_RETIRED at once. Their folders may be deleted."""
        return (await self._call(protocol.RetireWeights(tuple(digests[: protocol.MOST_RETIRED])))).digests

    async def checkpointed(self, step: int) -> None:
        """Report a durable checkpoint of `step`."""
        await self._call(protocol.Checkpointed(step))

    async def evaluated(self, evaluation: protocol.Evaluation) -> None:
        """Submit an evaluation."""
        await self._call(protocol.Evaluated(evaluation))

    async def newest_programs(self, count: int) -> tuple[str, ...]:
        """Return the sources of the newest admitted programs, the oldest first."""
        return (await self._call(protocol.GetNewestPrograms(count))).sources

    async def measured_diversity(self, diversity: protocol.Diversity) -> None:
        """Submit a measured diversity."""
        await self._call(protocol.MeasuredDiversity(diversity))

    async def weights_after(self, step: int) -> protocol.Weights:
        """Wait for weights of learner step `step` or later, and return the newest."""
        pulse = self.client.pulse
        while pulse.weights is None or pulse.weights.step < step:
            pulse = await self.client.wait_pulse()
        return pulse.weights

    async def enroll(self) -> int:
        """Return a number for a new supervisor, greater than the number of any earlier supervisor."""
        return (await self._call(protocol.Enroll())).number

    async def report_processes(
        self, supervisor: str, processes: tuple[protocol.Process, ...], wanted: dict[protocol.Role, int] | None = None
    ) -> protocol.Orders:
        """Report a supervisor's processes, and the number of actors of each role that it keeps running.

        Returns the changes that the supervisor has to make. `wanted` is None if the supervisor keeps no actors.
        """
        return await self._call(protocol.ReportProcesses(supervisor, processes, wanted))

    async def order(self, orders: protocol.Orders) -> None:
        """Change the number of actors that a supervisor keeps running, or make it drain some."""
        await self._call(orders)

    async def stop(self) -> None:
        """Make every supervisor drain its processes and exit."""
        await self._call(protocol.StopRun())

    async def status(self) -> protocol.Status:
        """Return the status of the run."""
        return await self._call(protocol.GetStatus())

    async def _call(self, request: protocol.Request[protocol.Reply], wait_s: float = 0.0) -> protocol.Reply:
        # A request of the same type after the answer "none yet" continues the same wait.
        name = type(request).__name__
        since = self._unserved.pop(name, trio.current_time())
        with self.client.waits.on("replay", name, since):
            reply = await self.client.call(request, wait_s + self._call_deadline_s)
        if reply in (protocol.Plays(), protocol.Designs()) or isinstance(reply, protocol.NotYet):
            self._unserved[name] = since
        return reply
