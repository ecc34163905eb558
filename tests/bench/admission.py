"""Admission and audit: processes, processor time and time of one program.

    python -m tests.bench.admission [--programs 30] [--out admission.json]

Programs are nano's games, drawn from its world by number, so two commits get the same ones: run both in turns. An audit
has four recorded plays of a player that does nothing, sixteen random plays, and four instances that nobody won.
Processor time is that of this process and of the sandbox's processes, also of those that have ended.
"""

import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import fmean

import trio

from actors.corpus import load
from actors.environments.admission import validate
from actors.environments.audit import audit
from actors.nano.games import GAMES
from actors.sandbox import Sandbox, open_sandbox
from actors.sandbox.process import ChildProcess
from spade.codec import answer_digest
from spade.config import SKILLS
from spade.config import Sandbox as Limits
from spade.protocol import AuditJob, Faulted, RecordedPlay, Recording
from tests.actors.odd_programs import offspring
from tests.bench.harness import columns, command, conclude

MS = 1000.0
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
TURNS = 8
RANDOM_PLAYS = 16
LUCKY_WINS = 13
NANO = Limits(random_win_share=0.5)


def used_s() -> float:
    """Return the processor seconds of this process, its children and theirs, living and ended."""
    seconds = 0.0
    for pid in (os.getpid(), *offspring(os.getpid())):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        seconds += TICK_S * sum(map(int, fields[11:15]))
    return seconds


async def recorded(sandbox: Sandbox, source: str, seed: int) -> RecordedPlay:
    """Record a play of a player that does nothing."""
    name, actions = f"play-{seed}", 0
    answers = [await sandbox.open(name, source, seed, TURNS)]
    while actions < TURNS and not isinstance(answers[-1], Faulted) and not answers[-1].terminated:
        actions += 1
        answers.append(await sandbox.step(name, actions, ""))
    sandbox.close(name)
    return RecordedPlay(name, seed, Recording(("",) * actions, b"".join(map(answer_digest, answers)), TURNS))


async def measured(sandbox: Sandbox, sources: list[str]) -> dict[str, dict[str, float]]:
    """Return the means of one admission and of one audit."""
    started = 0
    begin = ChildProcess.__init__

    def counted(*given: object, **named: object) -> None:
        nonlocal started
        started += 1
        begin(*given, **named)  # type: ignore[arg-type]

    ChildProcess.__init__ = counted  # type: ignore[method-assign]
    rows: dict[str, list[dict[str, float]]] = {"admission": [], "audit": []}

    async def row(name: str, work: Callable[[], object]) -> None:
        nonlocal started
        started, used, began = 0, used_s(), time.perf_counter()
        await work()  # type: ignore[misc]
        wall = time.perf_counter() - began
        rows[name].append({"processes": started, "cpu_ms": MS * (used_s() - used), "wall_ms": MS * wall})

    for number, source in enumerate(sources):
        await row("admission", lambda source=source, number=number: validate(sandbox, source, number, NANO))
        replays = tuple([await recorded(sandbox, source, seed) for seed in (3, 5, 8, 13)])
        seeds = tuple(range(20, 20 + RANDOM_PLAYS))
        job = AuditJob(
            "e000001", 1, source, replays, seeds, LUCKY_WINS, 1.0, TURNS, number, 60.0, lost=(40, 41, 42, 43)
        )
        await row("audit", lambda job=job: audit(sandbox, job))
        print(f"program {number + 1} of {len(sources)}", file=sys.stderr, flush=True)
    ChildProcess.__init__ = begin  # type: ignore[method-assign]
    return {name: {key: fmean(each[key] for each in of) for key in of[0]} for name, of in rows.items()}


def main() -> None:
    arguments = command(__doc__, programs=30, out=None).parse_args()
    rng, documents = random.Random(0), load("builtin")
    sources = [
        GAMES.draw(rng, documents[index % len(documents)], SKILLS[index % len(SKILLS)]).source
        for index in range(arguments.programs)
    ]

    async def run() -> dict[str, dict[str, float]]:
        async with open_sandbox(NANO) as sandbox:
            await validate(sandbox, sources[0], 0, NANO)  # the zygotes are there then
            return await measured(sandbox, sources)

    figures = trio.run(run)
    rows = {"processes": ("processes", ".1f"), "processor time, ms": ("cpu_ms", ".0f"), "time, ms": ("wall_ms", ".0f")}
    conclude(arguments.out, figures, columns(figures, rows))


if __name__ == "__main__":
    main()
