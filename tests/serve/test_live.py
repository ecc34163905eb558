"""`spade serve --live` in a run that learns: answers come from newer weights as they are published."""

import time

import trio

from tests.actors.gateway.clients import Line, free_port
from tests.chaos.processes import Command
from tests.chaos.serving import OBSERVATION, SETTLE_S, until_ready
from tests.recipes.small_runs import SMALL

LEARNS_S = 900


async def versions(port: int) -> set[int]:
    """The versions of the weights that sample, until there are two or more."""
    found: set[int] = set()
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        line, until = Line(stream), time.monotonic() + LEARNS_S
        while len(found) < 2 and time.monotonic() < until:
            status, told = await line.ask("completions", {"prompt": OBSERVATION})
            assert status == 200, told
            found |= {int(each.partition("-")[0]) for each in told["system_fingerprint"].split(",")}
            await trio.sleep(0.5)
    return found


async def test_a_live_run_is_followed(tmp_path):
    port, run = free_port(), tmp_path / "run"
    small = [word for setting in SMALL for word in ("--set", setting)]
    words = ("spade.app.cli", "up", "nano", "--headless", "--run", str(run), *small)
    up = Command(words, tmp_path / "up", tmp_path)
    try:
        with trio.fail_after(LEARNS_S):
            while not (run / "run.json").exists():
                assert up.code is None, up.tail()
                await trio.sleep(0.2)
        serving = Command(
            ("spade.app.cli", "serve", str(run), "--live", "--port", str(port)), tmp_path / "said", tmp_path
        )
        try:
            await until_ready(serving, port)
            assert len(await versions(port)) >= 2
        finally:
            serving.die()
    finally:
        up.end_all(SETTLE_S)
