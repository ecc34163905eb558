"""The cost of the store as it grows, the speed of sampling batches from it, and the time the service takes to start.

    python -m tests.bench.store [--most 1000000] [--rounds 300] [--out store.json]

Real ledgers and stores live through runs of plays of 200 tokens: designs, leases, messages of 64 plays, batches,
publications, checkpoints, until they have 10^3, 10^4 … trajectories. Then they take turns, and each request is timed
with its commit ("nosync", so that the disk is not what is measured); batches of the longest run are sampled in random
order, against a bare cursor over the same bytes; the service is started over it. Prints medians.
"""

import random
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import lmdb
import trio

from replay.ledger.keys import make_batch_key
from replay.ledger.ledger import Ledger
from replay.ledger.records import BatchRecord
from replay.store import Store, open_reader, open_store
from replay.store.load import open_run
from replay.store.past_batches import read_packed_batch
from spade.codec import decode_request, encode
from spade.config import Config, load
from spade.protocol import AnyRequest, Checkpointed, LeaseDesigns, LeasePlays, SubmitPlays, TakeBatch
from tests.bench.harness import command, conclude, sections
from tests.bench.ingest import ended, stored_bytes, trajectory
from tests.peers import connected, supervised
from tests.replay.replay_world import environment, weights

TOKENS = 200
TOGETHER = 64  # plays of a lease and of a message
KINDS = ("ingest", "lease", "take batch")
SETTINGS = (
    "replay.durability=nosync", "design.active_environments=12", "design.round_jobs=12", "play.group_size=64",
    "play.window_chunks=2", "learner.batch_sequences=128", "learner.agent_lag=1000",
    "play.lease_s=1e6", "play.window_deadline_s=1e6", "learner.group_deadline_s=1e6", "design.round_deadline_s=1e6",
    "design.lease_s=1e6", "audit.replays=0", "audit.random_plays=0",
)  # fmt: skip


class Run:
    """The loop of a run without its bus: every request takes effect and is committed, as the service does."""

    def __init__(self, store: Store, config: Config) -> None:
        self.store = store
        self.ledger = Ledger(open_run(store, config).state)
        self.trajectories = 0
        self.timed: dict[str, list[float]] = {}
        self._said = trajectory(TOKENS)
        self.ask("publish", weights(0))

    def ask(self, kind: str, request: AnyRequest) -> object:
        """Serve an encoded request and time it, to the commit; a batch, to the bytes of its answer."""
        data = encode(request)
        began = time.perf_counter()
        answer = self.ledger.apply(decode_request(data), "agent/1", 0.0, 0)
        self.ledger.advance(0.0)
        self.store.commit(self.store.encode(self.ledger.state.changes()))
        if isinstance(answer, BatchRecord):
            read_packed_batch(self.store, answer)
        if answer is not None:
            self.timed.setdefault(kind, []).append(time.perf_counter() - began)
        return answer

    def turn(self) -> None:
        """Designs for free slots, one lease of plays, their end in one message, and a learner step if there is one."""
        version = self.ledger.state.version
        if jobs := self.ask("lease designs", LeaseDesigns(12, 0.0)):
            for job in jobs.jobs:
                self.ask("design", environment(job, version))
        if leased := self.ask("lease", LeasePlays(TOGETHER, 0.0)):
            plays = tuple(ended(play.id, self._said, float(i % 2)) for i, play in enumerate(leased.plays))
            self.ask("ingest", SubmitPlays(plays))
            self.trajectories += len(plays)
        step = self.ledger.state.counters.taken_step + 1
        if self.ask("take batch", TakeBatch(step, 0.0)):
            self.ask("publish", weights(step))
            self.ask("checkpoint", Checkpointed(step))


def growth(runs: dict[int, Run], rounds: int) -> dict[str, dict[str, float]]:
    """Median ms of the requests that come next, by how many trajectories there are already; the runs take turns."""
    for size, run in runs.items():
        while run.trajectories < size:
            run.turn()
        run.timed.clear()
        print(f"{size:,} trajectories are there", flush=True)
    for _ in range(rounds):
        for run in runs.values():
            run.turn()
    return {f"{size:,}": {kind: 1000 * median(run.timed[kind]) for kind in KINDS} for size, run in runs.items()}


def sampling(path: Path, rounds: int) -> dict[str, float]:
    """MB/s of recorded batches read and encoded as they are sent, and of a cursor over the bytes of others.

    Each has batches of its own to read: who comes second to the same pages finds them mapped already.
    """
    rates: dict[str, list[float]] = {"ours MB/s": [], "cursor MB/s": []}
    with open_reader(path) as store:
        steps = len(store.scan("batches", BatchRecord))
        order = random.Random(1)
        for step, other in zip(order.sample(range(steps), rounds), order.sample(range(steps), rounds), strict=True):
            record, bare = (store.get("batches", make_batch_key(one + 1), BatchRecord) for one in (step, other))
            began = time.perf_counter()
            size = len(read_packed_batch(store, record))
            rates["ours MB/s"].append(size / (time.perf_counter() - began) / 1e6)
            keys = [member.trajectory.encode() for group in bare.groups for member in group.members]
            rates["cursor MB/s"].append(walked(store, keys))
    figures = {name: median(values) for name, values in rates.items()}
    return figures | {"of the cursor": figures["ours MB/s"] / figures["cursor MB/s"]}


def walked(store: Store, keys: list[bytes]) -> float:
    """MB/s of a bare cursor that is put on each value of the log in turn."""
    environment: lmdb.Environment = store._environment
    index, log = environment.open_db(b"trajectories", create=False), environment.open_db(b"log", create=False)
    with environment.begin() as transaction:
        places = [transaction.get(key, db=index)[:8] for key in keys]
        began = time.perf_counter()
        with transaction.cursor(db=log) as cursor:
            values = [cursor.get(place) for place in places]
        return sum(map(len, values)) / (time.perf_counter() - began) / 1e6


async def start(run: Path, config: Config) -> dict[str, float]:
    """Seconds from starting the service's process to its first answer, and those that opening the run takes of them."""
    began = time.perf_counter()
    async with supervised(run, config, "replay"), connected(f"ipc://{run}/replay", config, "observer"):
        answered = time.perf_counter() - began
    began = time.perf_counter()
    with open_store(run / "store", "nosync") as store:
        open_run(store, config)
        opened = time.perf_counter() - began
    return {"first answer s": answered, "run opened s": opened}


def main() -> None:
    arguments = command(__doc__, most=1_000_000, rounds=300, out=Path("store.json")).parse_args()
    config = load("nano", SETTINGS)
    sizes = [size for size in (1_000, 10_000, 100_000, 1_000_000) if size <= arguments.most]
    with tempfile.TemporaryDirectory() as folder:
        with ExitStack() as stack:
            runs = {}
            for size in sizes:
                store = stack.enter_context(open_store(Path(folder, str(size), "store"), "nosync"))
                runs[size] = Run(store, config)
            table = growth(runs, arguments.rounds)
        path, count = Path(folder, str(sizes[-1])), runs[sizes[-1]].trajectories
        figures = {
            **{f"{size} trajectories, ms": row for size, row in table.items()},
            "dearest over cheapest": {
                kind: max(row[kind] for row in table.values()) / min(row[kind] for row in table.values())
                for kind in KINDS
            },
            "sampling": sampling(path / "store", arguments.rounds),
            "start": trio.run(start, path, config),
            "store": {"bytes/token": stored_bytes(path / "store") / (count * TOKENS)},
        }
    conclude(arguments.out, figures, sections(figures))


if __name__ == "__main__":
    main()
