"""Chaos: `spade serve nano` under parallel clients, with an engine killed (SIGKILL) again and again.

    python -m tests.chaos.serving --minutes 10 --clients 64 --every 60 --out runs/chaos-serving

No client tries anything twice, and each waits for its answer before it asks again. Exit code 1 where a request was
lost: it had no answer, an error, or one that cannot be.
"""

import sys
import time
from collections import Counter
from itertools import count
from pathlib import Path

import trio

from tests.actors.roles.gateway.clients import Line, free_port
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
                line = Line(await trio.open_tcp_stream("127.0.0.1", port))
                if (await line.ask("completions", {"prompt": OBSERVATION}))[0] == 200:
                    return
            except (OSError, EOFError, trio.BrokenResourceError):
                await trio.sleep(0.5)
    raise AssertionError(f"it ended with {serving.code}: {serving.tail()}")


class Clients:
    """All clients: `answers` they got, `lost` requests by reason, and `slowest_s`."""

    def __init__(self, port: int, until: float) -> None:
        self._port = port
        self._until = until
        self._seeds = count(1)
        self.answers = 0
        self.lost: Counter[str] = Counter()
        self.slowest_s = 0.0
        self.weights: Counter[str] = Counter()

    async def run(self) -> None:
        """One client: one request after the other, on one connection as long as that holds."""
        line = Line(await trio.open_tcp_stream("127.0.0.1", self._port))
        while time.monotonic() < self._until:
            began = time.monotonic()
            try:
                with trio.fail_after(PATIENCE_S):
                    self._note(*await line.ask("chat/completions", self._body()))
            except (OSError, EOFError, trio.BrokenResourceError, trio.TooSlowError) as error:
                self.lost[f"{type(error).__name__}: {error}"] += 1
                line = Line(await trio.open_tcp_stream("127.0.0.1", self._port))
            self.slowest_s = max(self.slowest_s, time.monotonic() - began)

    def _body(self) -> dict[str, object]:
        messages = [{"role": "user", "content": OBSERVATION}]
        return {"messages": messages, "max_tokens": 24, "seed": next(self._seeds), "n": 2}

    def _note(self, status: int, told: dict[str, object]) -> None:
        choices = told.get("choices", [])
        if status != 200 or [choice["finish_reason"] in ("stop", "length") for choice in choices] != [True, True]:
            self.lost[f"{status}: {str(told)[:200]}"] += 1
            return
        self.answers += 1
        self.weights[str(told["system_fingerprint"])] += 1


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


async def disturbed(serving: Command, port: int, minutes: float, clients: int, every_s: float) -> bool:
    """True where nothing was lost."""
    await until_ready(serving, port)
    until = time.monotonic() + 60 * minutes
    asking, kills = Clients(port, until), 0
    async with trio.open_nursery() as nursery:
        for _ in range(clients):
            nursery.start_soon(asking.run)
        kills = await kill_engines(serving, every_s, until)
    print(
        f"{clients} clients, {minutes:g} min, {kills} kills: {asking.answers} answers, {asking.lost.total()} lost, "
        f"the slowest after {asking.slowest_s:.1f} s, weights {dict(asking.weights)}"
    )
    for why, times in asking.lost.most_common(10):
        print(f"lost {times} times: {why}")
    return not asking.lost and bool(asking.answers) and bool(kills)


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
    return fine and code == 0


if __name__ == "__main__":
    given = command(__doc__, minutes=10.0, clients=64, every=60.0, out=Path("runs/chaos-serving")).parse_args()
    adopt_orphans()
    sys.exit(0 if main(given.minutes, given.clients, given.every, given.out) else 1)
