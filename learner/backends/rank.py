"""Run a further rank of a learner: a process that carries out the first rank's commands.

A rank gets the first rank's address from the replay service, and joins the process that it finds there. If that process
ends, the rank ends too, even in the middle of work, because the checkpoint has all state. A rank that is told to leave
stays until the first rank has left, because the last checkpoint needs the rank's part.
"""

import logging
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import torch
import trio

from learner.backends.deepspeed_settings import choose_dtype, find_device, prepare
from learner.backends.meeting import MEET_S, HaltError, describe_unreachable, find_store, join
from learner.backends.ranks import GRACE_S, Command
from learner.backends.zero import Shard
from learner.models.loaded import CPU, load_policy, load_reference
from spade.config import Config
from spade.errors import BusError, ConfigError, RefusedError, SpadeError
from spade.processes.entry import Launch, connect_to_replay, end_within
from spade.protocol import AwaitCommand, Batch, Gather, Load, Meet, Save
from spade.transport import Client, connect

log = logging.getLogger(__name__)


async def serve_rank(launch: Launch, config: Config, ready: Callable[[], None]) -> None:
    """Serve as rank `launch.index` until the first rank leaves. Calls `ready` when the ranks have met."""
    async with connect_to_replay(launch, config) as replay:
        models = await trio.to_thread.run_sync(_load_models, config, abandon_on_cancel=True)
        while True:
            with replay.waits.on("learner", "its command to meet"):
                address = await _wait_for_address(replay)
            with trio.CancelScope() as waiting:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_watch_address, replay, address, waiting)
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
    """A rank that is connected to the first rank. If the first rank restarts, make a new `_Rank`."""

    def __init__(self, first: Client, rank: int, config: Config, models: tuple[Any, Any]) -> None:
        self._first = first
        self._life = first.life
        self._rank = rank
        self._config = config
        self._models = models
        self._done = 0

    async def command(self) -> Command:
        """Wait for the next command. Raises BusError when the first rank is gone."""
        return await self._first.call(AwaitCommand(self._rank, self._done), math.inf, once=True)

    async def obey(self, meet: Command, ready: Callable[[], None]) -> NoReturn:
        """Meet the other ranks and carry out commands. Raises SpadeError when the first rank leaves or is gone."""
        if not isinstance(meet, Meet):
            raise BusError(f"{self._first.address}: the first rank begins with {type(meet).__name__}")
        with trio.CancelScope(shield=True):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._until_gone)
                shard = await self._meet(meet)
                ready()
                while (work := self._work(shard, await self._next())) is not None:
                    await _run_in_thread(work)
                nursery.cancel_scope.cancel()
        await trio.lowlevel.checkpoint()  # raises Cancelled if this rank was told to leave, which is not an error
        raise SpadeError("the learner's first rank has left")

    async def _next(self) -> Command:
        self._done += 1
        try:
            return await self.command()
        except BusError as error:
            raise SpadeError(f"the learner's first rank is gone ({error})") from None

    def _work(self, shard: Shard, command: Command) -> Callable[[], object] | None:
        """Return a function that carries out a command, or None for the last command."""
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
        """Join the other ranks. Raises ConfigError if the devices differ, SpadeError if joining fails."""
        device, count = find_device(self._config), self._config.learner.processes
        if device.type != meet.device:
            raise ConfigError(
                f"learner.processes: rank {self._rank} computes on {device.type}, the first rank on {meet.device}; "
                "have as many GPUs as processes, or set learner.device"
            )

        def joining() -> None:
            join(find_store(meet, count), meet.host, self._rank, count, device)

        with trio.move_on_after(MEET_S) as deadline:
            await _run_in_thread(joining)
        if deadline.cancelled_caught:
            line = describe_unreachable(meet, f"not within {MEET_S:g} s")
            end_within(GRACE_S, line)
            raise SpadeError(line)
        work = partial(Shard, *self._models, self._config, self._rank)
        return await trio.to_thread.run_sync(work, abandon_on_cancel=True)

    async def _until_gone(self) -> NoReturn:
        """Raise SpadeError when this life of the first rank is gone. End the process if a thread still waits for it."""
        while self._first.live and self._first.life == self._life:
            with trio.move_on_after(self._config.bus.heartbeat_s):
                await self._first.wait_pulse()
        line = "the learner's first rank is gone; all ranks begin again at the checkpoint"
        end_within(GRACE_S, line)
        raise SpadeError(line)


def _load_models(config: Config) -> tuple[Any, Any]:
    """Load the policy and the reference of `loss.kl` on the CPU."""
    if config.learner.threads:
        torch.set_num_threads(config.learner.threads)
    prepare(config)
    return load_policy(config, CPU, choose_dtype(config)), load_reference(config, CPU)


def _train(shard: Shard, batch: Batch) -> None:
    try:
        shard.train(batch)
    except HaltError:
        log.info("step %d is abandoned", batch.step)


async def _run_in_thread(work: Callable[[], object]) -> None:
    """Run `work` in a thread. Abandon the thread when the first rank is gone.

    If the work fails, wait before raising the error, because the end of another rank may be the cause.
    """
    try:
        await trio.to_thread.run_sync(work, abandon_on_cancel=True)
    except SpadeError:
        raise
    except Exception:
        await trio.sleep(2 * GRACE_S)  # if the first rank ends meanwhile, `_until_gone` reports this reason
        raise


async def _wait_for_address(replay: Client) -> str:
    """Wait until the first rank is known, and return its present address."""
    while True:
        for peer in replay.pulse.peers:
            if peer.role == "learner":
                return peer.address
        await replay.wait_pulse()


async def _watch_address(replay: Client, address: str, waiting: trio.CancelScope) -> None:
    """Cancel `waiting` when the first rank has another address."""
    while await _wait_for_address(replay) == address:
        await replay.wait_pulse()
    waiting.cancel()
