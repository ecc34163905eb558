"""A further rank of a learner: a process that carries out the first rank's commands.

It finds the first rank as engines do. Until it meets the others it may wait for any life of the first rank; from then
on it belongs to that one, and ends when that one is gone, however busy: the checkpoint has all its state. Told to
leave, it stays until the first rank has left, whose last checkpoint needs its part.
"""

import logging
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import torch
import trio

from learner.backends.deepspeed_settings import device_of, dtype, prepare
from learner.backends.meeting import MEET_S, HaltError, find_store, join, unreachable
from learner.backends.ranks import GRACE_S, Command
from learner.backends.zero import Shard
from learner.models.loaded import CPU, policy, reference
from spade.config import Config
from spade.errors import BusError, ConfigError, RefusedError, SpadeError
from spade.processes.entry import Launch, end_within, joined
from spade.protocol import AwaitCommand, Batch, Gather, Load, Meet, Save
from spade.transport import Client, connect

log = logging.getLogger(__name__)


async def serve_rank(launch: Launch, config: Config, ready: Callable[[], None]) -> None:
    """Serve as rank `launch.index` until the first one leaves; `ready` is called once the ranks have met."""
    async with joined(launch, config) as replay:
        models = await trio.to_thread.run_sync(_models, config, abandon_on_cancel=True)
        while True:
            with replay.waits.on("learner", "its command to meet"):
                address = await _address(replay)
            with trio.CancelScope() as waiting:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_until_elsewhere, replay, address, waiting)
                    try:
                        async with connect(address, replay.hello, bus=config.bus) as first:
                            rank = _Rank(first, launch.index, config, models)
                            with replay.waits.on("learner", "its command to meet"):
                                meet = await rank.command()
                            await rank.obey(meet, ready)
                    except RefusedError:
                        raise
                    except BusError as error:
                        log.warning("%s; waiting for another first rank", error)
                        await replay.wait_pulse()
                    nursery.cancel_scope.cancel()


class _Rank:
    """A rank and its connection to the first one, of one life."""

    def __init__(self, first: Client, rank: int, config: Config, models: tuple[Any, Any]) -> None:
        self._first = first
        self._life = first.life
        self._rank = rank
        self._config = config
        self._models = models
        self._done = 0

    async def command(self) -> Command:
        """The next command, as soon as there is one. Raises BusError when the first rank is gone."""
        return await self._first.call(AwaitCommand(self._rank, self._done), math.inf, once=True)

    async def obey(self, meet: Command, ready: Callable[[], None]) -> NoReturn:
        """Carry out commands to the end. Raises SpadeError when the first rank leaves or is gone."""
        if not isinstance(meet, Meet):
            raise BusError(f"{self._first.address}: the first rank begins with {type(meet).__name__}")
        with trio.CancelScope(shield=True):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._until_gone)
                shard = await self._meet(meet)
                ready()
                while (work := self._work(shard, await self._next())) is not None:
                    await _in_thread(work)
                nursery.cancel_scope.cancel()
        await trio.lowlevel.checkpoint()  # leaves in order if it was told to
        raise SpadeError("the learner's first rank has left")

    async def _next(self) -> Command:
        self._done += 1
        try:
            return await self.command()
        except BusError as error:
            raise SpadeError(f"the learner's first rank is gone ({error})") from None

    def _work(self, shard: Shard, command: Command) -> Callable[[], object] | None:
        """The work of a command; None of the last one."""
        match command:
            case Batch():
                return partial(_train, shard, command)
            case Gather(optimizer=optimizer):
                return partial(shard.give, optimizer)
            case Save(folder=folder):
                return partial(shard.save_part, Path(folder))
            case Load(folder=folder):
                return partial(shard.load, Path(folder))
        return None

    async def _meet(self, meet: Meet) -> Shard:
        """Join the other ranks. Raises SpadeError if that is impossible."""
        device, count = device_of(self._config), self._config.learner.processes
        if device.type != meet.device:
            raise ConfigError(
                f"learner.processes: rank {self._rank} computes on {device.type} and the first one on {meet.device}; "
                "have as many GPUs as processes, or set learner.device"
            )

        def joining() -> None:
            join(find_store(meet, count), meet.host, self._rank, count, device)

        with trio.move_on_after(MEET_S) as deadline:
            await _in_thread(joining)
        if deadline.cancelled_caught:
            line = unreachable(meet, f"not within {MEET_S:g} s")
            end_within(GRACE_S, line)
            raise SpadeError(line)
        work = partial(Shard, *self._models, self._config, self._rank)
        return await trio.to_thread.run_sync(work, abandon_on_cancel=True)

    async def _until_gone(self) -> NoReturn:
        """Raise SpadeError when this life of the first rank is gone; its end may leave our thread waiting."""
        while self._first.live and self._first.life == self._life:
            with trio.move_on_after(self._config.bus.heartbeat_s):
                await self._first.wait_pulse()
        line = "the learner's first rank is gone; all ranks begin again at the checkpoint"
        end_within(GRACE_S, line)
        raise SpadeError(line)


def _models(config: Config) -> tuple[Any, Any]:
    """The policy and the reference of `loss.kl`, on the CPU."""
    if config.learner.threads:
        torch.set_num_threads(config.learner.threads)
    prepare(config)
    return policy(config, CPU, dtype(config)), reference(config, CPU)


def _train(shard: Shard, batch: Batch) -> None:
    try:
        shard.train(batch)
    except HaltError:
        log.info("step %d is abandoned", batch.step)


async def _in_thread(work: Callable[[], object]) -> None:
    """Work in a thread that is left behind when the first rank is gone. Another rank's end may make it fail."""
    try:
        await trio.to_thread.run_sync(work, abandon_on_cancel=True)
    except SpadeError:
        raise
    except Exception:
        await trio.sleep(2 * GRACE_S)  # until the first rank has ended as well, which is then the reason
        raise


async def _address(replay: Client) -> str:
    """The address at which the first rank serves now."""
    while True:
        for peer in replay.pulse.peers:
            if peer.role == "learner":
                return peer.address
        await replay.wait_pulse()


async def _until_elsewhere(replay: Client, address: str, waiting: trio.CancelScope) -> None:
    """Wait no longer for a first rank that is elsewhere now."""
    while await _address(replay) == address:
        await replay.wait_pulse()
    waiting.cancel()
