"""A replay service with many simulated agents: its processor time, the time of acknowledgements, fairness, memory.

    python -m tests.bench.actors [--agents 16 64 256 1024 4096] [--seconds 30] [--play-s 20] [--out actors.json]

Each agent has a connection of its own and one play at a time: it leases the play, sleeps for a log-normal time and
hands in 4,096 tokens, half of them sampled. Designers and a learner keep the loop going. An acknowledgement is timed
from the agent's call to its return. "worst agent" is the greatest mean over one agent's acknowledgements, over the mean
of all. With more than `--processes` the agents share these processes.
"""

import tempfile
import time
from pathlib import Path
from statistics import fmean

import trio

from replay.ledger.records import RunCounters
from replay.store import open_reader
from tests.bench.harness import columns, command, conclude, spread
from tests.bench.ingest import cpu_s
from tests.bench.simulated import crews, make_settings
from tests.peers import pid_of, supervised

ROWS = {
    "plays/s": ("plays/s", ".4g"),
    "Mtoken/s": ("Mtoken/s", ".3g"),
    "ack p50 ms": ("ack p50 ms", ".3g"),
    "ack p99 ms": ("ack p99 ms", ".3g"),
    "worst agent, times the mean": ("worst agent", ".3g"),
    "service CPU, share of a core": ("service CPU", ".3f"),
    "service CPU us a play": ("service us/play", ".4g"),
    "service MB": ("service MB", ".4g"),
    "agents' CPU, cores": ("agents CPU", ".3f"),
    "refused or unanswered": ("failed", ".0f"),
    "expired leases": ("expired", ".0f"),
    "wasted trajectories": ("wasted", ".0f"),
    "learner steps": ("steps", ".0f"),
}


async def measure(agents: int, seconds: float, play_s: float, processes: int, tokens: int) -> dict[str, float]:
    """The figures of one number of agents, after every agent has had the time for a play."""
    with tempfile.TemporaryDirectory() as folder:
        run, config = Path(folder), make_settings(agents, "sync")
        async with supervised(run, config, "replay") as supervisor:
            pid = pid_of(supervisor, "replay")

            def watch() -> dict[str, float]:
                with crews(f"ipc://{run}/replay", run / "config.toml", agents, play_s, tokens, processes) as running:
                    time.sleep(play_s)
                    before, began = [cpu_s(pid), *(cpu_s(crew.pid) for crew in running)], time.monotonic()
                    counted = read_counters(run)
                    time.sleep(seconds)
                    after, passed = [cpu_s(pid), *(cpu_s(crew.pid) for crew in running)], time.monotonic() - began
                    done = read_counters(run)
                    memory = read_resident_mb(pid)
                    each = [figures for crew in running for figures in crew.finish()]
                plays = done.plays + done.voids - counted.plays - counted.voids
                cpu = after[0] - before[0]
                waits = [wait for figures in each for wait in figures.acks_ms]
                means = [fmean(figures.acks_ms) for figures in each if figures.acks_ms]
                return {
                    "plays/s": plays / passed, "Mtoken/s": plays * tokens / passed / 1e6,
                    **{f"ack {name} ms": value for name, value in spread(waits).items()},
                    "worst agent": max(means) / fmean(means), "service CPU": cpu / passed,
                    "service us/play": 1e6 * cpu / max(plays, 1), "service MB": memory,
                    "agents CPU": (sum(after[1:]) - sum(before[1:])) / passed,
                    "failed": sum(len(figures.failed) for figures in each), "expired": done.expired_leases,
                    "wasted": done.wasted, "steps": done.taken_step,
                }  # fmt: skip

            return await trio.to_thread.run_sync(watch)


def read_counters(run: Path) -> RunCounters:
    with open_reader(run / "store") as store:
        return store.get("meta", "counters", RunCounters)


def read_resident_mb(pid: int) -> float:
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1000


def main() -> None:
    parser = command(
        __doc__, agents=[16, 64, 256, 1024, 4096], seconds=30.0, play_s=20.0, processes=8, tokens=4096,
        out=Path("actors.json"),
    )  # fmt: skip
    arguments = parser.parse_args()
    figures = {}
    for agents in arguments.agents:
        each = arguments.seconds, arguments.play_s, arguments.processes, arguments.tokens
        figures[f"{agents} agents"] = trio.run(measure, agents, *each)
        print(f"{agents} agents: {figures[f'{agents} agents']}", flush=True)
    conclude(arguments.out, figures, columns(figures, ROWS))


if __name__ == "__main__":
    main()
