"""A role process as it is, with a client of the replay service that writes down what was acknowledged to it.

One line of JSON an acknowledgement, in RUN/acknowledged/NAME.jsonl, written in one call after the service's answer; so
the record outlives SIGKILL and never claims more than was acknowledged.
"""

import hashlib
import os
import runpy
import sys
from pathlib import Path

import msgspec

import replay.client
from replay.client import ReplayClient
from spade import protocol
from spade.app.supervisor.launches import MODULES
from spade.process import Launch

FOLDER = "acknowledged"


def fingerprint(trajectory: protocol.Trajectory) -> str:
    """Of everything in a trajectory."""
    return hashlib.blake2b(msgspec.msgpack.encode(trajectory), digest_size=8).hexdigest()


def _note(path: Path):
    path.parent.mkdir(exist_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    return lambda **fields: os.write(file, msgspec.json.encode(fields) + b"\n")


class Recording(ReplayClient):
    """Every call whose acknowledgement means something durable."""

    note = staticmethod(lambda **fields: 0)

    async def submit_plays(self, plays: tuple[protocol.EndedPlay, ...]) -> None:
        await super().submit_plays(plays)
        for play in plays:
            trajectory = play.trajectory
            self.note(kind="play", id=play.id, trajectory=None if trajectory is None else fingerprint(trajectory))

    async def submit_environment(self, environment: protocol.SubmitEnvironment) -> None:
        await super().submit_environment(environment)
        self.note(kind="design", job=environment.job, trajectory=fingerprint(environment.trajectory))

    async def reject_candidate(self, rejected: protocol.RejectCandidate) -> None:
        await super().reject_candidate(rejected)
        key = f"{rejected.job}/{rejected.lease:03d}/{rejected.attempt:03d}"
        self.note(kind="reject", key=key, trajectory=fingerprint(rejected.trajectory))

    async def take_batch(self, step: int, wait_s: float) -> protocol.Batch | protocol.NotYet:
        answer = await super().take_batch(step, wait_s)
        if isinstance(answer, protocol.Batch):
            members = [[fingerprint(trajectory) for trajectory in group.trajectories] for group in answer.groups]
            self.note(kind="take", pid=os.getpid(), step=step, groups=[g.id for g in answer.groups], members=members)
        return answer

    async def publish(self, step: int, digest: str, path: str, metrics: protocol.StepMetrics) -> protocol.Weights:
        weights = await super().publish(step, digest, path, metrics)
        self.note(kind="publish", step=step, digest=digest, version=weights.version)
        return weights

    async def checkpointed(self, step: int) -> None:
        await super().checkpointed(step)
        self.note(kind="checkpointed", pid=os.getpid(), step=step)


if __name__ == "__main__":
    launch = msgspec.json.decode(sys.argv[1], type=Launch)
    Recording.note = staticmethod(_note(Path(launch.run) / FOLDER / f"{launch.name}.jsonl"))
    replay.client.ReplayClient = Recording
    runpy.run_module(MODULES[launch.role], run_name="__main__", alter_sys=True)
