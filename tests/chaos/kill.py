"""Chaos: a real nano run whose processes are killed (SIGKILL) at random instants, then everything checked.

    python -m tests.chaos.kill --kills 100 --out runs/chaos

The instants and victims come from --seed; every role is a victim, the supervisor included, which is started again.
Prints a row a role; the figures go to OUT/kill.json, the run stays in OUT/run. Exit code 1 where anything is wrong.
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from random import Random

from replay.ledger.records import PlayRecord, RunCounters
from replay.store import open_reader
from spade.app.rundir import RunDir
from tests.chaos.checks import check, steps_repeated
from tests.chaos.processes import SUPERVISOR, Up, adopt_orphans

ROLES = ("replay", "engine", "env-runner", "learner", "designer", "agent", "evaluator", SUPERVISOR)
SETTLE_S = 600.0
Costs = dict[str, Counter[str]]
SMALL = (
    "design.active_environments=6", "design.round_jobs=3", "design.round_deadline_s=60", "design.lease_s=20",
    "play.group_size=4", "play.window_chunks=2", "play.window_deadline_s=90", "play.lease_s=20", "play.chunk_wait_s=10",
    "learner.batch_sequences=16", "learner.checkpoint_every=3", "learner.group_deadline_s=120", "bus.silence_s=3",
    "actors.agents=2", "evaluation.plays=24", "supervise.restarts=10000",
    "supervise.ready_s=600", "supervise.drain_s=60",
)  # fmt: skip


def kill_at_random(up: Up, victims: Iterable[str], every_s: float, within_s: float, random: Random) -> Costs:
    """SIGKILL one process of each role in turn, `every_s` apart in the mean, until `within_s`; what it cost by role.

    Whatever is counted before the next kill is put down to the last one.
    """
    costs: Costs = {}
    until = time.monotonic() + within_s
    before = figures(up.run)
    for number, role in enumerate(victims, 1):
        if role == SUPERVISOR:
            up.kill_supervisor(SETTLE_S)
            # A child that was never ready is not worth a restart budget, so the next life is not killed before it is.
            up.until(_complete, SETTLE_S)
        else:
            up.kill(random.choice(up.processes(role, SETTLE_S)))
        print(f"kill {number}: {role}", flush=True)
        time.sleep(random.uniform(0.0, 2 * every_s))
        after = figures(up.run)
        met = costs.setdefault(role, Counter())
        met.update(kills=1, **{name: after[name] - before[name] for name in after})
        before = after
        if time.monotonic() > until:
            break
    return costs


def draw(kills: int, roles: tuple[str, ...], random: Random) -> list[str]:
    """Victims at random; the supervisor less often, since all die with it and to resume the whole run takes long."""
    return random.choices(roles, [1 if role == SUPERVISOR else 4 for role in roles], k=kills)


def _complete(status) -> bool:
    return status.processes != () and all(process.state == "ready" for process in status.processes)


def unexpected_ends(up: Up) -> list[str]:
    """The supervisor's lines on children that ended by anything but our SIGKILL, and every traceback."""
    said = up.output.read_text(errors="replace").splitlines()
    ends = [line for line in said if "starting it again" in line and "killed by SIGKILL" not in line]
    logs = [*(up.run / "logs").glob("*.log"), up.output]
    return ends + [f"{log.name} has a traceback" for log in logs if "Traceback" in log.read_text(errors="replace")]


def figures(run: Path) -> dict[str, int]:
    """The cost of the kills: work done twice, and work that never came to anything."""
    with open_reader(run / "store") as store:
        counters = store.get("meta", "counters", RunCounters)
        plays = store.scan("plays", PlayRecord)
    return {
        "learner_steps": counters.taken_step,
        "steps_repeated": steps_repeated(run),
        "plays": counters.plays,
        "plays_leased_again": sum(play.lease > 1 for play in plays),
        "expired_leases": counters.expired_leases,
        "released_leases": counters.released_leases,
        "late_plays": counters.late_plays,
        "wasted": counters.wasted,
    }


def chaos(
    out: Path, victims: Iterable[str], every_s: float, within_s: float, random: Random, settings: tuple[str, ...]
) -> dict:
    """The whole of it; `wrong` lists what is."""
    up = Up(out / "run", (*SMALL, *settings))
    try:
        up.until(lambda status: status.learner_step >= 1 and _complete(status), SETTLE_S)
        costs = kill_at_random(up, victims, every_s, within_s, random)
        killed = time.monotonic()
        before = up.until(_complete, SETTLE_S)
        up.until(lambda status: status.learner_step >= before.learner_step + 3, SETTLE_S)
        recovered_s = time.monotonic() - killed
        up.stop(SETTLE_S)
    finally:
        up.abandon()
    wrong = check(up.run, RunDir(up.run).config()) + unexpected_ends(up)
    return {"by_role": costs, "recovered_s": recovered_s, "total": figures(up.run), "wrong": wrong}


def table(found: dict) -> str:
    """A row a role, a column a figure, then the whole run and what is wrong with it."""
    names = ["kills", *found["total"]]
    rows = [*found["by_role"].items(), ("the run", found["total"])]
    lines = [" " * 12 + "".join(f"{name:>20}" for name in names)]
    lines += [f"{role:<12}" + "".join(f"{row.get(name, ''):>20}" for name in names) for role, row in rows]
    return "\n".join(
        [*lines, f"recovered within {found['recovered_s']:.0f} s", *(found["wrong"] or ["nothing is wrong"])]
    )


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.kill", description="Kill processes of a nano run.")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--each", action="store_true", help="every role once, in order, instead")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--every", type=float, default=5.0, help="mean seconds between two kills")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="leave it at the kills made by then")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--roles", nargs="+", choices=ROLES, default=ROLES)
    parser.add_argument("--set", nargs="+", default=(), metavar="K=V", help="settings of the run")
    given = parser.parse_args()
    adopt_orphans()
    random = Random(given.seed)
    victims = given.roles if given.each else draw(given.kills, tuple(given.roles), random)
    found = chaos(given.out, victims, given.every, 60 * given.minutes, random, tuple(given.set))
    (given.out / "kill.json").write_text(json.dumps(found, indent=2) + "\n")
    print(table(found))
    return 1 if found["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
