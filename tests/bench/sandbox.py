"""The sandbox: how fast it spawns and steps, what an episode costs, and against two peers.

    python -m tests.bench.sandbox [--tier auto] [--rounds 200] [--out sandbox.json]

The peers, interleaved with ours: `exec` in the host's own process, which contains nothing, and one interpreter under
bubblewrap for each episode. Prints a table; the figures go to --out as JSON.
"""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import quantiles

import trio

from actors.sandbox import Sandbox, open_sandbox
from actors.sandbox.inside import calls
from actors.sandbox.inside.given import GIVEN
from actors.sandbox.tiers import make_bubblewrap_command
from spade.config import Sandbox as Limits
from spade.protocol import Faulted, Observed
from tests.actors.odd_programs import DOOR, dead, offspring, program, zygotes_of, zygotes_started
from tests.actors.tool_programs import TICKETS, call
from tests.bench.harness import clocked, command, conclude, spread
from tests.hostile.time_and_memory import LOOPS

MS = 1000.0
LIVE = 64
CALLS = (call("find", '{"status": "open", "urgent": true}'), call("view", '{"number": 1}'))
ENDLESS = program(result='f"the {action} door", 0.25, False, False, {}')
INTERPRETER = """
import sys
names = {}
exec(sys.stdin.read(), names)
print(names["DoorEnv"]().reset(1)[0], flush=True)
"""
HOST = """
import sys, trio
from actors.sandbox import open_sandbox
from spade.config import Sandbox
from tests.actors.odd_programs import DOOR

async def main():
    async with open_sandbox(Sandbox(tier=sys.argv[1])) as sandbox:
        for index in range(16):
            await sandbox.open(str(index), DOOR, 1, 9)
        print("up", flush=True)
        await trio.sleep_forever()

trio.run(main)
"""


async def spawns(sandbox: Sandbox, rounds: int) -> dict[str, dict[str, float]]:
    """Source to first observation: ours, and the peers; every tenth round for the slow one."""
    ours: list[float] = []
    executed: list[float] = []
    interpreters: list[float] = []
    command = [*make_bubblewrap_command(), sys.executable, "-P", "-s", "-B", "-S", "-c", INTERPRETER]
    for index in range(rounds):
        with clocked(ours):
            assert isinstance(await sandbox.open("e", DOOR, index, 9), Observed)
        sandbox.close("e")
        with clocked(executed):
            names: dict[str, object] = dict(GIVEN)
            exec(compile(DOOR, "door", "exec"), names)
            names["DoorEnv"]().reset(index)  # type: ignore[operator]
        if index % 10 == 0:
            with clocked(interpreters):
                said = first_observation(command)
            assert said.startswith("Which door?")
    return {"spawn": spread(ours), "exec in the host": spread(executed), "bubblewrap each": spread(interpreters)}


def first_observation(command: Sequence[str]) -> str:
    """The output of an interpreter of its own."""
    return subprocess.run(command, input="import random\n" + DOOR, capture_output=True, text=True, check=True).stdout


async def steps(sandbox: Sandbox, rounds: int) -> dict[str, float]:
    """One episode's steps, alone."""
    taken: list[float] = []
    await sandbox.open("e", ENDLESS, 1, 10**6)
    for turn in range(1, 10 * rounds + 1):
        with clocked(taken):
            await sandbox.step("e", turn, "?")
    return spread(taken)


async def messages(sandbox: Sandbox, rounds: int) -> dict[str, float]:
    """Messages with two calls of tools, in turns with steps of a game; compared by their quickest tenths."""
    games: list[float] = []
    taken: list[float] = []
    await sandbox.open("game", ENDLESS, 1, 10**6)
    await sandbox.open("tools", TICKETS, 1, 10**6)
    for turn in range(1, 10 * rounds + 1):
        with clocked(games):
            await sandbox.step("game", turn, "?")
        with clocked(taken):
            await sandbox.step("tools", turn, "", CALLS)
    return {**spread(taken), "times a step": quantiles(taken, n=10)[0] / quantiles(games, n=10)[0]}


async def beside_hostile(sandbox: Sandbox, seconds: float) -> dict[str, float]:
    """Steps beside eight programs that loop, each started again when it is killed; `wrong` answers must be none."""
    taken: list[float] = []
    wrong = 0
    async with trio.open_nursery() as nursery:

        async def attack(index: int) -> None:
            while True:
                await sandbox.open(f"hostile {index}", LOOPS[index % 4].source, index, 9)
                await sandbox.step(f"hostile {index}", 1, "go")

        for index in range(8):
            nursery.start_soon(attack, index)
        await sandbox.open("e", ENDLESS, 1, 10**6)
        end, turn = time.perf_counter() + seconds, 0
        while time.perf_counter() < end:
            turn += 1
            with clocked(taken):
                answer = await sandbox.step("e", turn, str(turn))
            wrong += answer != Observed(f"the {turn} door", 0.25)
            await trio.sleep(0.002)
        nursery.cancel_scope.cancel()
    return {**spread(taken), "wrong": wrong, "steps": turn}


async def throughput(sandbox: Sandbox, seconds: float) -> float:
    """Steps a second of many episodes at once, through one host process."""
    count = 0
    async with trio.open_nursery() as nursery:

        async def play(name: str) -> None:
            nonlocal count
            await sandbox.open(name, ENDLESS, 1, 10**6)
            turn = 0
            while True:
                turn += 1
                await sandbox.step(name, turn, "?")
                count += 1

        for index in range(16):
            nursery.start_soon(play, f"t{index}")
        await trio.sleep(seconds / 2)
        first, began = count, time.perf_counter()
        await trio.sleep(seconds)
        rate = (count - first) / (time.perf_counter() - began)
        nursery.cancel_scope.cancel()
    for index in range(16):
        sandbox.close(f"t{index}")
    return rate


VERIFYING = program(
    step="import math_verify\nmath_verify.verify(math_verify.parse('$1/2$'), math_verify.parse('$0.5$'))"
)
SOURCES = {"light": ENDLESS, "heavy": "import numpy\n" + ENDLESS, "math_verify ran": VERIFYING}


async def density(sandbox: Sandbox, source: str) -> float:
    """Live episodes a GiB, by proportional shares of their memory after two steps."""
    await zygotes_started(sandbox, source)  # they are not counted
    before = offspring(os.getpid())
    for index in range(LIVE):
        await sandbox.open(f"d{index}", source, index, 9)
        answer = await sandbox.step(f"d{index}", 1, "?")
        assert not isinstance(answer, Faulted), answer
    shares = sum(proportional(pid) for pid in offspring(os.getpid()) - before) / LIVE
    for index in range(LIVE):
        sandbox.close(f"d{index}")
    return 2**30 / shares


def proportional(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def cpu() -> float:
    """Processor seconds of this process, its zygotes, and the children that those have reaped."""
    ticks = 0
    for zygote in zygotes_of(os.getpid()):
        ticks += sum(map(int, Path(f"/proc/{zygote}/stat").read_text().rsplit(")", 1)[1].split()[11:15]))
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


async def cpu_per_spawn(sandbox: Sandbox, rounds: int) -> float:
    """Milliseconds, of all processes."""
    began = cpu()
    for index in range(rounds):
        await sandbox.open("e", DOOR, index, 9)
    return MS * (cpu() - began) / rounds


def killed_host(tier: str) -> float:
    """Seconds from the host's SIGKILL until nothing of the sandbox is left."""
    host = subprocess.Popen([sys.executable, "-c", HOST, tier], stdout=subprocess.PIPE)
    with host:
        assert host.stdout.readline() == b"up\n"
        family = offspring(host.pid)
        assert len(family) > 16
        began = time.perf_counter()
        host.kill()
        trio.run(dead, *family)
        return time.perf_counter() - began


async def measure(limits: Limits, rounds: int) -> dict[str, object]:
    async with open_sandbox(limits) as sandbox:
        await zygotes_started(sandbox)
        return {
            "tier": sandbox.tier,
            **await spawns(sandbox, rounds),
            "CPU per spawn": await cpu_per_spawn(sandbox, rounds),
            "step": await steps(sandbox, rounds),
            "message of two calls": await messages(sandbox, rounds),
            "step beside 8 hostile": await beside_hostile(sandbox, rounds / 20),
            "steps per second": await throughput(sandbox, rounds / 40),
            "episodes per GiB": {name: await density(sandbox, source) for name, source in SOURCES.items()},
        }


GOALS = {
    "spawn": "p50 ≤ 10, p99 ≤ 30 ms", "step": "p50 ≤ 0.1, p99 ≤ 1 ms", "message of two calls": "≤ 1.3 times a step",
    "step beside 8 hostile": "p99 ≤ 50 ms, 0 wrong",
    "steps per second": "≥ 5000", "episodes per GiB": "≥ 250, ≥ 100 once math_verify ran", "CPU per spawn": "≤ 10 ms",
    "system calls": "≤ 65", "host killed": "≤ 1 s",
}  # fmt: skip


def main() -> None:
    arguments = command(__doc__, tier="auto", rounds=200, out=Path("sandbox.json")).parse_args()
    limits = Limits(tier=arguments.tier, step_s=1.0, load_s=1.0)
    tables = (calls.ALLOWED, calls.HELD)
    figures = trio.run(measure, limits, arguments.rounds) | {
        "system calls": sum(len(calls.number_calls(table, os.uname().machine)) for table in tables),
        "host killed": killed_host(arguments.tier),
    }
    lines = []
    for name, value in figures.items():
        shown = value if isinstance(value, dict) else {"": value}
        cells = "  ".join(f"{key} {number:.4g}".strip() for key, number in shown.items())
        lines.append(f"{name:<24}{cells:<56}{GOALS.get(name, '')}")
    conclude(arguments.out, figures, "\n".join(lines))


if __name__ == "__main__":
    main()
