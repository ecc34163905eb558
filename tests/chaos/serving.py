"""Chaos: `spade serve nano` under parallel clients, with an engine killed (SIGKILL) again and again.

    python -m tests.chaos.serving --minutes 10 --clients 64 --every 60 --out runs/chaos-serving

No client tries anything twice, and each waits for its answer before it asks again. Exit code 1 where a request was
lost: it had no answer, an error, or one that cannot be. A refused one was told to come later (429): there was no room.
It prints the number of requests, of those lost and refused, of choices that were sampled again since their engine was
killed, and latencies.
"""

import sys
import time
from collections import Counter
from contextlib import suppress
from itertools import count
from pathlib import Path
from statistics import quantiles

import trio

from spade.app.rundir import RunDir
from spade.app.screen.observe import read_status
from spade.app.screen.reach import reach
from tests.actors.gateway.clients import Line, free_port
from tests.bench.harness import command
from tests.chaos.processes import Command, adopt_orphans

READY_S, SETTLE_S = 600.0, 240.0
DEADLINE_S, PATIENCE_S = 600, 700.0  # on a busy machine an engine takes minutes to come back
OBSERVATION = "Lights: a b c. Actions: a b c"


async def until_ready(serving: Command, port: int) -> None:
    """Wait until it answers."""
    with trio.fail_after(READY_S):
        while serving.code is None:
            try:
                async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                    if (await Line(stream).ask("completions", {"prompt": OBSERVATION}))[0] == 200:
                        return
            except (OSError, EOFError, trio.BrokenResourceError):
                await trio.sleep(0.5)
    raise AssertionError(f"it ended with {serving.code}: {serving.tail()}")


class ConnectionEndedError(Exception):
    """A connection ended under a request."""


class Clients:
    """All clients: the seconds after which they had answers, `lost` requests by reason, and `refused` ones."""

    def __init__(self, port: int, until: float) -> None:
        self._port = port
        self._until = until
        self._seeds = count(1)
        self.seconds: list[float] = []
        self.refused = 0
        self.lost: Counter[str] = Counter()
        self.weights: Counter[str] = Counter()

    async def run(self) -> None:
        """One client: one request after the other, on one connection as long as that holds."""
        while time.monotonic() < self._until:
            with suppress(ConnectionEndedError):
                async with await trio.open_tcp_stream("127.0.0.1", self._port) as stream:
                    line = Line(stream)
                    while time.monotonic() < self._until:
                        await self._ask(line)

    async def _ask(self, line: Line) -> None:
        """Raises ConnectionEndedError where the request was lost with its connection."""
        began = time.monotonic()
        try:
            with trio.fail_after(PATIENCE_S):
                status, told = await line.ask("chat/completions", self._body())
        except (OSError, EOFError, trio.BrokenResourceError, trio.TooSlowError) as error:
            self.lost[f"{type(error).__name__}: {error}"] += 1
            raise ConnectionEndedError from None
        self._note(status, told, time.monotonic() - began)

    def _body(self) -> dict[str, object]:
        messages = [{"role": "user", "content": OBSERVATION}]
        return {"messages": messages, "max_tokens": 24, "seed": next(self._seeds), "n": 2}

    def _note(self, status: int, told: dict[str, object], seconds: float) -> None:
        choices = told.get("choices", [])
        if status == 429:
            self.refused += 1
        elif status != 200 or [choice["finish_reason"] in ("stop", "length") for choice in choices] != [True, True]:
            self.lost[f"{status}: {str(told)[:200]}"] += 1
        else:
            self.seconds.append(seconds)
            self.weights[str(told["system_fingerprint"])] += 1

    def figures(self) -> str:
        """Requests, their fates, and the latencies of those that were answered."""
        requests = len(self.seconds) + self.refused + self.lost.total()
        spread = quantiles(self.seconds, n=100, method="inclusive") if len(self.seconds) > 1 else [0.0] * 99
        latency = ", ".join(f"p{at} {spread[at - 1]:.2f} s" for at in (50, 95, 99))
        slowest = max(self.seconds, default=0.0)
        return (
            f"{requests} requests, {self.lost.total()} lost, {self.refused} refused; "
            f"latency {latency}, the slowest {slowest:.1f} s"
        )


async def kill_engines(serving: Command, every_s: float, until: float) -> int:
    """Kill an engine, and again; the number of kills."""
    kills = 0
    while time.monotonic() + every_s < until:
        await trio.sleep(every_s)
        for pid in serving.roles().get("engine", [])[:1]:
            serving.kill(pid)
            kills += 1
            print(f"killed engine {pid}", flush=True)
    return kills


async def resampled(serving: Command) -> float:
    """Choices that the gateway has had sampled again, by its last word."""
    assert serving.folder is not None
    (run,) = (serving.folder / "serving").iterdir()
    status = await read_status(reach(RunDir(run)))
    return sum(process.gauges.get("requests_resampled", 0) for process in status.processes)


async def disturbed(serving: Command, port: int, minutes: float, clients: int, every_s: float) -> bool:
    """True where nothing was lost."""
    await until_ready(serving, port)
    until = time.monotonic() + 60 * minutes
    asking, kills = Clients(port, until), 0
    async with trio.open_nursery() as nursery:
        for _ in range(clients):
            nursery.start_soon(asking.run)
        kills = await kill_engines(serving, every_s, until)
    again = await resampled(serving)
    print(f"{clients} clients, {minutes:g} min, {kills} kills: {asking.figures()}")
    print(f"{again:g} choices were sampled again; weights {dict(asking.weights)}")
    for why, times in asking.lost.most_common(10):
        print(f"lost {times} times: {why}")
    return not asking.lost and bool(asking.seconds) and bool(kills)


def main(minutes: float, clients: int, every_s: float, out: Path) -> bool:
    """True where nothing was lost, and the command ended in order."""
    port = free_port()
    out.mkdir(parents=True, exist_ok=True)
    words = ("serve", "nano", "--port", str(port), "--set", f"engine.request_deadline_s={DEADLINE_S}")
    serving = Command(("spade.app.cli", *words), out.absolute() / "said", out)
    try:
        fine = trio.run(disturbed, serving, port, minutes, clients, every_s)
        code = serving.interrupt(SETTLE_S)
    except BaseException:
        serving.abandon()
        raise
    print(f"exit code {code}")
    return fine and code == 130


if __name__ == "__main__":
    given = command(__doc__, minutes=10.0, clients=64, every=60.0, out=Path("runs/chaos-serving")).parse_args()
    adopt_orphans()
    sys.exit(0 if main(given.minutes, given.clients, given.every, given.out) else 1)
