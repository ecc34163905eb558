"""A day's plays in an hour: simulated agents, kills throughout, and what grows meanwhile.

    python -m tests.bench.soak [--for 3600] [--kill-s 20] [--samples 12] [--out soak.json]

A day of `games-4b` has about 62,000 plays (a learner step of 192 sequences every 331 s, and the hinted arm). Agents
play as many in an hour, 17 a second of 4,096 tokens. Every `--kill-s` the replay service, a process of agents, or the
process of designers and learner is killed (SIGKILL), in turns, and begins again. Retention keeps the newest
`--retain-mb` of trajectories.

Each sample has the memory of each process, the size of the store, the processor time of `spade status` and of `spade
replay verify`, and the seconds from the last start of the service to its first answer. At the end the store is
verified. Every play whose agent was told that it is taken must be there. Exit code 1 if anything is wrong.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from itertools import cycle
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from signal import SIGKILL

import msgspec
import trio

from replay.inspect.contents import read_contents
from replay.inspect.verify import find_problems
from replay.ledger.records import PlayRecord, RunCounters
from replay.store import open_reader
from spade.config import Config
from spade.processes.supervise import Supervisor
from tests.bench.actors import read_resident_mb
from tests.bench.harness import columns, command, conclude
from tests.bench.ingest import stored_bytes
from tests.bench.simulated import Crew, Work, make_settings
from tests.peers import connected, pid_of, supervised

AGENTS, PLAY_S, TOKENS = 350, 20.0, 4096
ROWS = {
    "plays": ("plays", ".0f"),
    "learner steps": ("steps", ".0f"),
    "kills": ("kills", ".0f"),
    "replay MB": ("replay MB", ".1f"),
    "agents MB, each process": ("agents MB", ".1f"),
    "designers, learner MB": ("loop MB", ".1f"),
    "store MB, the file": ("file MB", ".0f"),
    "start to first answer, s": ("start s", ".2f"),
    "status, CPU s": ("status s", ".2f"),
    "verify, CPU s": ("verify s", ".2f"),
}


class Soak:
    """A run under kills. Who holds `calm` meets no process between two lives."""

    def __init__(self, run: Path, config: Config, supervisor: Supervisor) -> None:
        self._run, self._config, self._supervisor = run, config, supervisor
        self._address = f"ipc://{run}/replay"
        works = [
            Work(self._address, str(run / "config.toml"), f"agent-{number}", AGENTS // 2, PLAY_S, TOKENS,
                 acknowledged=str(run / f"acknowledged-{number}"))
            for number in range(2)
        ]  # fmt: skip
        self._crews = {"loop": Crew("loop", msgspec.structs.replace(works[0], name="loop"))}
        self._crews |= {work.name: Crew("agents", work) for work in works}
        self.calm = trio.Lock()
        self.kills, self.start_s, self.unanswered = 0, 0.0, 0

    async def kill(self, victim: str) -> None:
        """Kill a process, and wait until its next life is there."""
        self.kills += 1
        if victim == "replay":
            await trio.to_thread.run_sync(self._kill_service)
            began = time.monotonic()
            async with connected(self._address, self._config, "observer"):
                self.start_s = time.monotonic() - began
        else:
            crew = self._crews[victim]
            crew.kill()
            self._crews[victim] = Crew(crew.part, crew.work)
            await trio.to_thread.run_sync(self._crews[victim].wait_ready)

    def _kill_service(self) -> None:
        """Kill the service, and wait until its next life begins. The supervisor waits longer after each end."""
        os.kill(killed := pid_of(self._supervisor, "replay"), SIGKILL)
        while pid_of(self._supervisor, "replay") in (killed, 0):
            time.sleep(0.01)

    def sample(self) -> dict[str, float]:
        """Return the figures of this moment."""
        status_s, status = self._time_command("status", self._address, "--json")
        verify_s, verified = self._time_command("replay", "verify", str(self._run), "--json")
        problems = json.loads(verified)["problems"]
        # Nobody made the files of weights and checkpoints.
        found = [line for line in problems if "/weights/" not in line and not line.startswith("checkpoints")]
        assert not found, found
        memory = {name: read_resident_mb(crew.pid) for name, crew in self._crews.items()}
        return {
            "plays": json.loads(status)["plays"], "steps": json.loads(status)["learner_step"], "kills": self.kills,
            "replay MB": read_resident_mb(pid_of(self._supervisor, "replay")),
            "agents MB": max(memory["agent-0"], memory["agent-1"]), "loop MB": memory["loop"],
            "file MB": stored_bytes(self._run / "store") / 1e6, "start s": self.start_s,
            "status s": status_s, "verify s": verify_s,
        }  # fmt: skip

    def _time_command(self, *words: str) -> tuple[float, str]:
        """Return the processor time of a command, and its output."""
        before = getrusage(RUSAGE_CHILDREN)
        done = subprocess.run([sys.executable, "-m", "spade", *words], capture_output=True, text=True, check=False)
        assert done.stdout, done.stderr
        after = getrusage(RUSAGE_CHILDREN)
        return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, done.stdout

    def abandon(self) -> None:
        """Kill the processes that are left."""
        for crew in self._crews.values():
            crew.kill()

    def finish(self) -> None:
        """End the actors in order."""
        self.unanswered = sum(len(each.failed) for crew in self._crews.values() for each in crew.finish())


async def soak(run: Path, seconds: float, kill_s: float, samples: int, retain_mb: int) -> dict[str, dict[str, float]]:
    """Run it. Returns the figures by the time that has passed."""
    config = make_settings(AGENTS, "sync", f"replay.retain_bytes={retain_mb * 1_000_000}", "supervise.restarts=100000")
    figures: dict[str, dict[str, float]] = {}
    async with supervised(run, config, "replay") as supervisor:
        it = Soak(run, config, supervisor)
        try:
            await trio.sleep(PLAY_S)
            began = time.monotonic()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(kill_on, it, kill_s)
                for number in range(1, samples + 1):
                    await trio.sleep(max(began + number * seconds / samples - time.monotonic(), 0.0))
                    async with it.calm:
                        taken = await trio.to_thread.run_sync(it.sample)
                    figures[f"{(time.monotonic() - began) / 60:.1f} min"] = taken
                    print(list(figures.items())[-1], flush=True)
                nursery.cancel_scope.cancel()
            await trio.to_thread.run_sync(it.finish)
        finally:
            it.abandon()
    figures["end"] = {**list(figures.values())[-1], "unanswered": it.unanswered}
    return figures


async def kill_on(it: Soak, kill_s: float) -> None:
    """Kill a process every `kill_s`, for ever."""
    for victim in cycle(("replay", "agent-0", "loop", "replay", "agent-1")):
        await trio.sleep(kill_s)
        async with it.calm:
            await it.kill(victim)


def check(run: Path) -> dict[str, object]:
    """Return everything that is wrong with a run that is down, and what was counted."""
    told = {id for file in run.glob("acknowledged-*") for id in file.read_text().splitlines()}
    with open_reader(run / "store") as store:
        wrong = find_problems(read_contents(store))
        plays = {play.id: play for play in store.scan("plays", PlayRecord)}
        counters = store.get("meta", "counters", RunCounters)
    lost = [id for id in told if id not in plays or plays[id].state in ("open", "leased")]
    wrong += [f"{id} was acknowledged and is lost" for id in lost]
    return {
        "wrong": wrong, "acknowledged plays": len(told), "of them lost": len(lost),
        "late (their window had closed)": counters.late_plays, "expired leases": counters.expired_leases,
        "wasted": counters.wasted, "trained": counters.trained,
    }  # fmt: skip


def main() -> None:
    parser = command(__doc__, kill_s=20.0, samples=12, retain_mb=128, out=Path("soak.json"))
    parser.add_argument("--for", dest="seconds", type=float, default=3600.0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        each = arguments.seconds, arguments.kill_s, arguments.samples, arguments.retain_mb
        figures = trio.run(soak, Path(folder), *each)
        found = check(Path(folder))
    rows = {name: row for name, row in figures.items() if name != "end"}
    table = columns(rows, ROWS, wide=10)
    conclude(arguments.out, {"samples": figures, **found}, "\n".join([table, *(f"{k}: {v}" for k, v in found.items())]))
    if found["wrong"]:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
