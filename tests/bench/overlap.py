"""Asynchronous against synchronous: the same code and the same budget. Synchronous is lag bound 0 and no overlap.

    python -m tests.bench.overlap simulated [--steps 8] [--ratios 1 1.25 1.5 2] [--out overlap.json]
    python -m tests.bench.overlap nano [--minutes 2.5] [--rounds 2] [--out overlap.json]

`simulated` stands for a GPU that samples and one that trains: a turn takes a log-normal time (sigma 1), a learner step
a fixed one, which is `ratio` times what sampling a batch takes with all episodes in flight busy. Replay service, agent
and env-runner are the real processes; designs are handed in after the time of a turn, new weights are in use at once.
Both modes run at the same time, for they mostly wait. `nano` is `spade up` on this machine, where sampling and
training share the cores, in turns. The first steps, which fill the pipe, do not count.
"""

import math
import random
import subprocess
import tempfile
from pathlib import Path
from statistics import fmean

import trio

from actors.links.leasing import keep_busy
from replay.client import ReplayClient
from spade.codec import pack_floats, pack_ids
from spade.config import Config, compute_digest, load
from spade.policy.model_folder import NANO
from spade.protocol import Batch, DesignJob, Generated, StepMetrics, SubmitEnvironment, Trajectory
from spade.tokens import Tokenizer
from spade.transport import IncomingRequest, Server, serve
from tests.bench.harness import columns, command, conclude, in_turns, medians
from tests.bench.nano_runs import steps, up
from tests.peers import joined, orders, supervised
from tests.replay.everyone import everyone

Results = dict[str, dict[str, float]]  # by mode

MODES = {"asynchronous": ("learner.agent_lag=4",), "synchronous": ("learner.agent_lag=0",)}
WARM = 4  # steps
TURNS, TURN_S = 4, 0.5  # of an episode; median of a turn
SLOTS, GROUP, CHUNKS, BATCH, IN_FLIGHT = 16, 8, 4, 64, 64
PROGRAM = f"""
class CoinEnv:
    def __init__(self, max_turns={TURNS}):
        self.left = {TURNS}
        self.win = 0.0

    def reset(self, seed):
        self.win = float(seed & 1)
        return "Go on.", {{}}

    def step(self, action):
        self.left -= 1
        return "Go on.", 0.0 if self.left else self.win, not self.left, False, {{}}
"""


def step_s(ratio: float) -> float:
    """A learner step: `ratio` times what sampling a batch and its share of hinted twins takes with all in flight."""
    episode_s = TURNS * TURN_S * math.exp(0.5)
    return ratio * BATCH * (1 + 1 / CHUNKS) * episode_s / IN_FLIGHT


def settings(mode: str) -> Config:
    return load("nano", (
        *MODES[mode], f"design.active_environments={SLOTS}", f"design.round_jobs={GROUP}", "design.active_skills=1",
        f"play.group_size={GROUP}", f"play.window_chunks={CHUNKS}", f"learner.batch_sequences={BATCH}",
        f"actors.episodes_in_flight={IN_FLIGHT}", f"play.max_turns={TURNS}", "play.lease_s=600", "design.lease_s=600",
        "play.window_deadline_s=3600", "play.chunk_wait_s=3600", "audit.replays=0", "audit.random_plays=0",
    ))  # fmt: skip


# ---------------------------------------------------------------- simulated


class Engine:
    """Takes the time of a turn and says the same thing every time, at the version that was newest when it began."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.version = 1
        self._said = [*tokenizer.encode("\\boxed{1}"), *tokenizer.end_ids]

    async def run(self, server: Server) -> None:
        async with trio.open_nursery() as nursery:
            while True:
                nursery.start_soon(self._turn, server, await server.receive())

    async def _turn(self, server: Server, incoming: IncomingRequest) -> None:
        request = incoming.message
        version, count = self.version, len(self._said)
        await trio.sleep(turn_s(request.seed))
        said = pack_ids(self._said), pack_floats([-0.5] * count)
        await server.reply(incoming, Generated(*said, ((version, count),), "stop"))


def turn_s(seed: int) -> float:
    return TURN_S * math.exp(random.Random(seed).gauss(0.0, 1.0))


async def designs(replay: ReplayClient, engine: Engine) -> None:
    """A designer that needs one turn for a program."""

    async def lease(count: int) -> tuple[DesignJob, ...]:
        return await replay.lease_designs(count, 5.0)

    async def design(job: DesignJob) -> None:
        version = engine.version
        await trio.sleep(turn_s(job.sampler))
        said = Trajectory(pack_ids([1, 2]), (1, 1), pack_floats([-1.0]), ((version, 1),), 1.0)
        texts = ("document", "CoinEnv", PROGRAM, "")
        await replay.submit_environment(SubmitEnvironment(job.id, job.lease, 1, *texts, True, "Go on.", said))

    await keep_busy(SLOTS, SLOTS, lease, design, trio.Event())


async def learn(replay: ReplayClient, engine: Engine, steps: int, ratio: float) -> dict[str, float]:
    """Steps of a fixed length; how the time went between the end of the warm steps and that of the last."""
    waits, trained = [], 0
    began = trio.current_time()
    for step in range(1, WARM + steps + 1):
        if step == WARM + 1:
            began, waits, trained = trio.current_time(), [], 0
        asked = trio.current_time()
        while not isinstance(batch := await replay.take_batch(step, 60.0), Batch):
            pass
        waits.append(trio.current_time() - asked)
        trained += sum(len(group.trajectories) for group in batch.groups)
        await trio.sleep(step_s(ratio))
        engine.version = (await replay.publish(step, f"{step:032x}", "/simulated", StepMetrics())).version
    seconds = trio.current_time() - began
    status = await replay.status()
    assert status.counts.voids == 0, "the program has a fault"
    return {
        "seconds_a_step": seconds / steps, "trained_per_s": trained / seconds, "learner_idle": sum(waits) / seconds,
        "wasted": status.counts.wasted_share, "lag": status.counts.lag_mean or 0.0,
    }  # fmt: skip


async def simulate(mode: str, steps: int, ratio: float, root: Path) -> dict[str, float]:
    config = settings(mode)
    at, mine = f"ipc://{root}/replay", f"ipc://{root}/engine"
    async with (
        supervised(root, config, "replay") as supervisor,
        serve(mine, digest=compute_digest(config), bus=config.bus) as server,
        joined(at, config, "engine", serves=mine),
        everyone(at, config) as replay,
        trio.open_nursery() as nursery,
    ):
        engine = Engine(Tokenizer.load(NANO))
        await replay.publish(0, f"{0:032x}", "/simulated", StepMetrics())
        for role in ("env-runner", "agent"):
            await supervisor.add(orders(root, config, role))
        nursery.start_soon(engine.run, server)
        nursery.start_soon(designs, replay, engine)
        found = await learn(replay, engine, steps, ratio)
        nursery.cancel_scope.cancel()
    return found


async def simulated(steps: int, ratio: float) -> Results:
    results: Results = {}

    async def run(mode: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            results[mode] = await simulate(mode, steps, ratio, Path(folder))

    async with trio.open_nursery() as nursery:
        for mode in MODES:
            nursery.start_soon(run, mode)
    return {mode: results[mode] for mode in MODES}


# ---------------------------------------------------------------- nano


def nano(minutes: float, rounds: int) -> Results:
    """Medians of so many runs of each mode, in turns."""
    taken = in_turns({mode: lambda _, mode=mode: real_run(mode, minutes) for mode in MODES}, rounds)
    return {mode: medians(rows) for mode, rows in taken.items()}


def real_run(mode: str, minutes: float) -> dict[str, float]:
    """`spade up` for so long."""
    with tempfile.TemporaryDirectory() as folder:
        up("nano", Path(folder), minutes, MODES[mode], stdout=subprocess.DEVNULL)
        rows = steps(Path(folder))
    first, last, counted = rows[WARM - 1], rows[-1], rows[WARM:]
    seconds = last["time"] - first["time"]
    trained = sum(row["agent_sequences"] + row["designer_sequences"] for row in counted)
    return {
        "seconds_a_step": seconds / len(counted), "trained_per_s": trained / seconds,
        "learner_idle": sum(row["wait_s"] for row in counted) / seconds, "wasted": last["wasted_share"],
        "lag": fmean(row["lag_mean"] for row in counted),
    }  # fmt: skip


def table(results: Results) -> str:
    rows = {
        "s a step": ("seconds_a_step", ".2f"), "sequences trained /s": ("trained_per_s", ".1f"),
        "learner idle": ("learner_idle", ".1%"), "wasted": ("wasted", ".1%"), "mean lag, versions": ("lag", ".2f"),
    }  # fmt: skip
    faster = results["asynchronous"]["trained_per_s"] / results["synchronous"]["trained_per_s"]
    return f"{columns(results, rows)}\nasynchronous trains {faster:.2f} times the sequences"


def main() -> None:
    ratios = [1.0, 1.25, 1.5, 2.0]
    parser = command(__doc__, steps=8, ratios=ratios, minutes=2.5, rounds=2, out=Path("overlap.json"))
    parser.add_argument("what", choices=("simulated", "nano"))
    arguments = parser.parse_args()
    found: dict[str, Results] = {}
    if arguments.what == "nano":
        found["nano"] = nano(arguments.minutes, arguments.rounds)
    else:
        for ratio in arguments.ratios:
            found[f"simulated, ratio {ratio:g}"] = trio.run(simulated, arguments.steps, ratio)
    conclude(arguments.out, found, "\n".join(f"{name}\n{table(results)}\n" for name, results in found.items()))


if __name__ == "__main__":
    main()
