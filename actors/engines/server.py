"""The engine process: requests in over the bus, tokens out, newest weights always.

The engine itself runs in a thread of its own (`loop`). Between it and the bus stand a queue of orders and a channel of
results, both bounded by the number of requests accepted at once.
"""

import itertools
import logging
import os
import queue
from collections.abc import Callable
from contextlib import closing
from functools import partial

import torch
import trio
from trio.lowlevel import current_trio_token

from actors.engines.base import Engine
from actors.engines.loop import Cancel, Order, Results, Stop, Submit, work
from actors.engines.torch import TorchEngine
from spade import config as configuration
from spade.errors import BusError
from spade.process import Launch, main
from spade.protocol import PROTOCOL_VERSION, Generate, Hello, Refused, Weights
from spade.transport import Client, Incoming, Server, connect, serve

log = logging.getLogger(__name__)

_ROWS_AHEAD = 4  # requests accepted at once, in multiples of the engine's rows


async def run(launch: Launch, config: configuration.Config, ready: Callable[[], None]) -> None:
    """Serve Generate requests at `launch.bind` until cancelled. Raises BusError where no weights come in time."""
    assert launch.bind is not None, "an engine needs an address to serve on"
    if config.engine.threads:
        torch.set_num_threads(config.engine.threads)
    digest = configuration.digest(config)
    async with serve(launch.bind, digest=digest, bus=config.bus) as server:
        hello = Hello(PROTOCOL_VERSION, digest, "engine", launch.name, os.getpid(), server.address)
        async with connect(launch.replay, hello, bus=config.bus) as replay:
            weights = await _first_weights(replay, config.supervise.ready_s)
            engine = await trio.to_thread.run_sync(_load, config, weights)
            log.info("serving policy version %d at %s", engine.version, server.address)
            ready()
            with closing(engine):
                await Desk(server, replay, engine, config).run()


def _load(config: configuration.Config, weights: Weights) -> Engine:
    settings = config.engine
    if settings.kind == "vllm":
        from actors.engines.vllm import VllmEngine

        return VllmEngine(weights, settings, dtype=config.model.dtype)
    return TorchEngine(
        weights,
        rows=settings.rows,
        context_tokens=settings.context_tokens,
        dtype=config.model.dtype,
        device=settings.device,
    )


async def _first_weights(replay: Client, deadline_s: float) -> Weights:
    """The newest published weights, waiting for the learner's first."""
    if replay.pulse.weights is None:
        log.info("waiting for the first published weights")
    with trio.move_on_after(deadline_s), replay.waits.on("learner", "the first weights"):
        while replay.pulse.weights is None:
            await replay.wait_pulse()
    if replay.pulse.weights is None:
        raise BusError(f"no weights were published within supervise.ready_s = {deadline_s:g} s; is a learner running?")
    return replay.pulse.weights


class Desk:
    """The trio half: keeps account of who asked for what."""

    def __init__(self, server: Server, replay: Client, engine: Engine, config: configuration.Config) -> None:
        room = _ROWS_AHEAD * config.engine.rows
        self._server = server
        self._replay = replay
        self._engine = engine
        self._beat_s = config.bus.heartbeat_s
        self._room = trio.Semaphore(room)
        # Bounded by the room: one order to sample and one to forget for each request accepted. Weights are few.
        self._orders: queue.SimpleQueue[Order] = queue.SimpleQueue()
        self._ended, self._results = trio.open_memory_channel[Results](room)
        self._open: dict[int, Incoming] = {}
        self._numbers: dict[tuple[bytes, int], int] = {}
        self._count = itertools.count(1)
        self._version = engine.version

    async def run(self) -> None:
        """Until cancelled; then the thread finishes its step and leaves."""
        torch_loop = partial(work, self._engine, self._orders, self._ended.send_nowait, current_trio_token())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, torch_loop)
            try:
                async with trio.open_nursery() as desk:
                    for task in (self._accept, self._answer, self._forget, self._measure):
                        desk.start_soon(task)
                    if self._engine.version:
                        desk.start_soon(self._pushed)
                        desk.start_soon(self._pulsed)
            finally:
                self._orders.put(Stop())

    async def _accept(self) -> None:
        while True:
            await self._room.acquire()
            if not await self._begin(await self._server.receive()):
                self._room.release()

    async def _begin(self, incoming: Incoming) -> bool:
        """Pass a request on to torch; False where it takes no room."""
        match incoming.message:
            case Generate() as request:
                reason = self._engine.refusal(request)
            case other:
                reason = f"an engine does not serve {type(other).__name__}"
        if reason is not None:
            await self._server.reply(incoming, Refused(reason))
            return False
        key = (incoming.peer, incoming.id)
        if key in self._numbers:
            return False  # sent again after a new handshake; its reply is to come
        number = self._numbers[key] = next(self._count)
        self._open[number] = incoming
        self._orders.put(Submit(number, request))
        return True

    def _close(self, number: int) -> Incoming | None:
        """Strike a request off the account; None where that was done before."""
        incoming = self._open.pop(number, None)
        if incoming is not None:
            del self._numbers[incoming.peer, incoming.id]
            self._room.release()
        return incoming

    async def _answer(self) -> None:
        async for results in self._results:
            for number, result in results:
                incoming = self._close(number)
                if incoming is not None:
                    await self._server.reply(incoming, result)

    async def _forget(self) -> None:
        """Cancel what peers that are gone have asked for. One that is back by now still wants it."""
        async for peer, _ in self._server.gone:
            if peer in self._server.peers:
                continue
            for number in [number for number, incoming in self._open.items() if incoming.peer == peer]:
                self._close(number)
                self._orders.put(Cancel(number))

    async def _pushed(self) -> None:
        async for message in self._replay.pushes:
            if isinstance(message, Weights):
                self._follow(message)

    async def _pulsed(self) -> None:
        """Pulses carry the newest weights too: a push may be lost with its connection."""
        pulse = self._replay.pulse
        while True:
            if pulse.weights is not None:
                self._follow(pulse.weights)
            pulse = await self._replay.wait_pulse()

    def _follow(self, weights: Weights) -> None:
        if weights.version > self._version:
            self._version = weights.version
            self._orders.put(weights)

    async def _measure(self) -> None:
        """Figures for the next heartbeat; their names are in docs/metrics.md."""
        engine, sampled, since = self._engine, self._engine.sampled, trio.current_time()
        while True:
            await trio.sleep(self._beat_s)
            now = trio.current_time()
            self._replay.gauges.update(
                rows_active=engine.active,
                queue=engine.queued,
                tokens_per_s=(engine.sampled - sampled) / (now - since),
                policy_version=engine.version,
            )
            sampled, since = engine.sampled, now


if __name__ == "__main__":
    main(run)
