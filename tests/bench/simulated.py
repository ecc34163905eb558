"""Simulated actors for benches of the replay service: real connections and requests, but no model and no program.

Agents lease a play, sleep for a log-normal time and hand in a trajectory of that many tokens. Designers hand in
programs that nobody runs. A learner takes batches and publishes weights that nobody made. All of them live in few
processes. Each agent has a connection of its own, as an agent's process has.
"""

import logging
import math
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from random import Random

import msgspec
import trio
import zmq

from replay.client import ReplayClient
from spade.config import Config, load
from spade.errors import BusError
from spade.protocol import Batch, StepMetrics
from tests.bench.harness import clocked
from tests.bench.ingest import ended, trajectory
from tests.peers import joined
from tests.replay.replay_world import environment

DESIGNERS = 4
SPREAD = 1.0  # sigma of a play's duration
PROGRAM = "# a line of a program that nobody runs\n" * 100
SOCKETS = 16_384  # of a process; ZeroMQ's default has room for a few hundred agents


class Work(msgspec.Struct, frozen=True):
    """The work of a process of agents."""

    address: str
    """Address of the replay service."""
    config: str
    """File with the run's settings."""
    name: str
    """Beginning of its agents' names."""
    agents: int
    play_s: float
    """Mean duration of a play."""
    tokens: int
    """Tokens of a trajectory."""
    acknowledged: str = ""
    """File for the ids of acknowledged plays, one a line. "" keeps none."""


class AgentFigures(msgspec.Struct):
    """The figures of one agent."""

    acks_ms: list[float] = []
    """Time of each acknowledgement."""
    failed: list[str] = []
    """Requests that were refused or got no answer."""


def make_settings(agents: int, durability: str, *more: str) -> Config:
    """Return settings under which `agents` plays are always due: windows of games, more of them with more agents."""
    environments = 3 * max(8, -(-agents // 24))  # for three skills; 32 plays of each are due at once
    return load("nano", (
        f"replay.durability={durability}", f"design.active_environments={environments}",
        f"design.round_jobs={environments}", "play.group_size=16", "play.window_chunks=4",
        "learner.batch_sequences=192", "learner.agent_lag=64",
        "play.context_tokens=4096", "engine.context_tokens=8192", "bus.max_message_bytes=1073741824",
        "play.lease_s=600", "play.window_deadline_s=3600", "audit.replays=0", "audit.random_plays=0", *more,
    ))  # fmt: skip


# ---------------------------------------------------------------- the processes


@contextmanager
def crews(
    address: str, config: Path, agents: int, play_s: float, tokens: int, processes: int
) -> Iterator[list["Crew"]]:
    """Run processes of agents, together with one of the designers and the learner. They begin at once."""
    shares = [agents // processes + (index < agents % processes) for index in range(processes)]
    works = [
        Work(address, str(config), f"agent-{index}", share, play_s, tokens)
        for index, share in enumerate(shares) if share
    ]  # fmt: skip
    running = [Crew("loop", msgspec.structs.replace(works[0], name="loop")), *(Crew("agents", work) for work in works)]
    try:
        for crew in running:
            crew.wait_ready()
        yield running
    finally:
        for crew in running:
            crew.kill()


class Crew:
    """A process of simulated actors."""

    def __init__(self, part: str, work: Work) -> None:
        self.part, self.work = part, work
        words = [sys.executable, "-m", "tests.bench.simulated", part, msgspec.json.encode(work).decode()]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_ready(self) -> None:
        """Wait until all actors have greeted the service."""
        assert self._process.stdout.readline() == "ready\n", f"{self.work.name} did not begin"

    def finish(self) -> list[AgentFigures]:
        """End the process in order. Returns the figures of its agents."""
        told = self._process.communicate("")[0].splitlines()
        return msgspec.json.decode(told[-1], type=list[AgentFigures])

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


# ---------------------------------------------------------------- the actors


async def play_on(replay: ReplayClient, work: Work, random: Random, figures: AgentFigures, noted: list[str]) -> None:
    """Play for ever, one play at a time."""
    said, mu = trajectory(work.tokens), math.log(work.play_s) - SPREAD**2 / 2
    while True:
        try:
            for lease in await replay.lease_plays(1, 30.0):
                await trio.sleep(random.lognormvariate(mu, SPREAD))
                version = (await replay.weights_after(0)).version
                whole = msgspec.structs.replace(said, versions=((version, said.sampled),))
                play = msgspec.structs.replace(ended(lease.id, whole, float(random.random() < 0.5)), lease=lease.lease)
                with clocked(figures.acks_ms):
                    await replay.submit_plays((play,))
                noted.append(lease.id)
        except BusError as error:
            figures.failed.append(str(error))


async def act(work: Work) -> list[AgentFigures]:
    """Run the agents of a process until the bench ends."""
    figures = [AgentFigures() for _ in range(work.agents)]
    noted: list[str] = []
    async with AsyncExitStack() as stack:
        config = load(work.config)
        opened = [joined(work.address, config, "agent", f"{work.name}-{number}") for number in range(work.agents)]
        replays = [await stack.enter_async_context(each) for each in opened]
        print("ready", flush=True)
        async with trio.open_nursery() as nursery:
            for number, replay in enumerate(replays):
                nursery.start_soon(play_on, replay, work, Random(f"{work.name}-{number}"), figures[number], noted)
            if work.acknowledged:
                nursery.start_soon(write_acknowledged, Path(work.acknowledged), noted)
            await wait_for_end()
            nursery.cancel_scope.cancel()
    return figures


async def write_acknowledged(path: Path, noted: list[str]) -> None:
    """Append the ids of acknowledged plays to a file, so that they outlive a kill of this process."""
    with path.open("a") as file:
        while True:
            await trio.sleep(0.2)
            file.write("".join(f"{id}\n" for id in noted))
            file.flush()
            noted.clear()


async def design_on(replay: ReplayClient) -> None:
    """Hand in a program for each job, for ever."""
    while True:
        for job in await replay.lease_designs(64, 30.0):
            made = environment(job, (await replay.weights_after(0)).version)
            await replay.submit_environment(msgspec.structs.replace(made, source=f"# {job.id}\n{PROGRAM}"))


async def learn_on(replay: ReplayClient, step: int) -> None:
    """Train each batch in no time, for ever, with a checkpoint after each tenth."""
    while True:
        if isinstance(await replay.take_batch(step, 30.0), Batch):
            await replay.publish(step, f"digest-{step}", f"/weights/{step}", StepMetrics())
            if step % 10 == 0:
                await replay.checkpointed(step)
            step += 1


async def keep_loop(work: Work) -> list[AgentFigures]:
    """Run the designers and the learner of a run until the bench ends."""
    config = load(work.config)
    async with AsyncExitStack() as stack:
        learner = await stack.enter_async_context(joined(work.address, config, "learner"))
        opened = [joined(work.address, config, "designer", f"designer-{number}") for number in range(DESIGNERS)]
        designers = [await stack.enter_async_context(each) for each in opened]
        weights = learner.client.pulse.weights or await learner.publish(0, "digest-0", "/weights/0", StepMetrics())
        print("ready", flush=True)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(learn_on, learner, weights.step + 1)
            for designer in designers:
                nursery.start_soon(design_on, designer)
            await wait_for_end()
            nursery.cancel_scope.cancel()
    return []


async def wait_for_end() -> None:
    """Wait until the bench closes our input, or dies."""
    await trio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)


def main() -> None:
    part, work = sys.argv[1], msgspec.json.decode(sys.argv[2], type=Work)
    logging.disable(logging.WARNING)  # a line for each agent when the service ends
    zmq.Context.instance().set(zmq.MAX_SOCKETS, SOCKETS)
    figures = trio.run(act if part == "agents" else keep_loop, work)
    print(msgspec.json.encode(figures).decode())


if __name__ == "__main__":
    main()
