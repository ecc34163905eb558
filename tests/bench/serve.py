"""Tokens a second of `spade serve nano` through HTTP, beside those of the bus with the same requests, in turns.

    python -m tests.bench.serve --clients 64 --requests 512 --rounds 3

Exit code 1 where HTTP has less than 0.7 of the bus.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import trio

from actors.links.pool import Pool, open_pool
from spade.app.rundir import RunDir
from spade.codec import pack_ids
from spade.protocol import Generate
from tests.actors.gateway.clients import Line, free_port
from tests.bench.harness import command
from tests.chaos.processes import Command, adopt_orphans
from tests.chaos.serving import SETTLE_S, until_ready
from tests.peers import connected

LEAST = 0.7
PROMPT, TOKENS = list(range(100, 140)), 64


async def rate(clients: int, requests: int, ask: Callable[[int], Awaitable[int]]) -> float:
    """Tokens a second of so many requests, by seed, `clients` of them at once."""
    seeds, sampled = iter(range(requests)), 0
    began = time.monotonic()

    async def one() -> None:
        nonlocal sampled
        for seed in seeds:
            sampled += await ask(seed)

    async with trio.open_nursery() as nursery:
        for _ in range(clients):
            nursery.start_soon(one)
    return sampled / (time.monotonic() - began)


async def by_bus(pool: Pool, clients: int, requests: int) -> float:
    async def ask(seed: int) -> int:
        reply = await pool.call(Generate(pack_ids(PROMPT), TOKENS, 1.0, seed), 600)
        return len(reply.ids) // 4

    return await rate(clients, requests, ask)


async def by_http(port: int, clients: int, requests: int) -> float:
    free = [Line(await trio.open_tcp_stream("127.0.0.1", port)) for _ in range(clients)]

    async def ask(seed: int) -> int:
        line = free.pop()
        body = {"prompt": PROMPT, "max_tokens": TOKENS, "seed": seed, "logprobs": 1, "return_token_ids": True}
        status, told = await line.ask("completions", body)
        assert status == 200, told
        free.append(line)
        return int(told["usage"]["completion_tokens"])

    return await rate(clients, requests, ask)


async def main(clients: int, requests: int, rounds: int) -> bool:
    """True where HTTP is fast enough."""
    with tempfile.TemporaryDirectory() as name:
        port, folder = free_port(), Path(name)
        serving = Command(("spade.app.cli", "serve", "nano", "--port", str(port)), folder / "said", folder)
        rates: dict[str, list[float]] = {"bus": [], "http": []}
        try:
            await until_ready(serving, port)
            (run,) = (RunDir(path) for path in (folder / "serving").glob("serve-*"))
            settings = run.config()
            async with (
                connected(run.replay_address, settings, "gateway", "bench") as client,
                open_pool("engine", client, client.hello, bus=settings.bus) as pool,
            ):
                assert await pool.available(60)
                for _ in range(rounds):
                    rates["bus"].append(await by_bus(pool, clients, requests))
                    rates["http"].append(await by_http(port, clients, requests))
            serving.stop(SETTLE_S)
        except BaseException:
            serving.abandon()
            raise
    bus, http = (statistics.median(rates[name]) for name in ("bus", "http"))
    print(f"{clients} at once: bus {bus:.0f} tokens/s, HTTP {http:.0f} tokens/s, {http / bus:.2f} of it")
    return http >= LEAST * bus


if __name__ == "__main__":
    given = command(__doc__, clients=64, requests=512, rounds=3).parse_args()
    adopt_orphans()
    sys.exit(0 if trio.run(main, given.clients, given.requests, given.rounds) else 1)
