"""The lines of a run without a terminal."""

import os
import signal

import trio

from spade import config
from spade.app.screen.observe import NO_ANSWER, narrate
from tests.peers import connected, pid_of, supervised


async def test_a_service_that_stops_answering_gets_one_line(tmp_path):
    settings = config.load("nano", ("bus.heartbeat_s=0.1",))
    send, receive = trio.open_memory_channel(9)
    async with (
        supervised(tmp_path, settings, "replay") as supervisor,
        connected(f"ipc://{tmp_path}/replay", settings, "observer") as client,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(narrate, client, send.send_nowait)
        service = pid_of(supervisor, "replay")
        with trio.fail_after(60):
            assert "step 0" in await receive.receive()
            os.kill(service, signal.SIGSTOP)
            try:
                assert await receive.receive() == NO_ANSWER
            finally:
                os.kill(service, signal.SIGCONT)
        nursery.cancel_scope.cancel()
