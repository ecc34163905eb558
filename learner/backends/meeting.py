"""The process group of a learner's ranks: its store, the interfaces it uses, its collectives beyond a gradient's.

The first rank serves the store at the address where its own bus serves, and each rank talks over the interface by which
it reaches that address: what a machine's name resolves to may be its loopback. Nothing here is authenticated
(docs/security.md).
"""

import os
import socket
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

import msgspec
import torch
from torch import distributed

from spade.config import is_local
from spade.errors import ConfigError, RunError, SpadeError
from spade.protocol import Meet

COLLECTIVE = timedelta(minutes=30)  # for one collective, a slow rank's micro-batch included
MEET_S = 60.0  # to join, once all models are loaded
LOOPBACK = "127.0.0.1"

T = TypeVar("T")


class HaltError(Exception):
    """The first rank abandons the step."""


def host_of(address: str) -> str:
    """The host at which the other ranks reach a rank that serves at `address`; loopback where all are here."""
    return LOOPBACK if is_local(address) else address.removeprefix("tcp://").rpartition(":")[0]


def open_store(host: str, ranks: int) -> tuple[Any, int]:
    """A store at a free port of `host` alone, and that port."""
    listener = socket.create_server((host, 0))
    port: int = listener.getsockname()[1]
    # Without a socket of ours the store would listen on all of this machine's addresses.
    store = distributed.TCPStore(  # type: ignore[attr-defined]
        host, port, ranks, is_master=True, timeout=timedelta(seconds=MEET_S), wait_for_workers=False,
        master_listen_fd=listener.detach(),
    )  # fmt: skip
    return store, port


def find_store(meet: Meet, ranks: int) -> Any:
    """The first rank's store. Raises SpadeError if it cannot be reached."""
    try:
        return distributed.TCPStore(  # type: ignore[attr-defined]
            meet.host, meet.port, ranks, is_master=False, timeout=timedelta(seconds=MEET_S), wait_for_workers=False
        )
    except RuntimeError as error:
        raise SpadeError(unreachable(meet, str(error).splitlines()[0])) from None


def unreachable(meet: Meet, why: str) -> str:
    """The line of a rank that cannot join."""
    return (
        f"the learner's first rank cannot be joined at {meet.host} port {meet.port} ({why}); its machines must reach "
        "each other at any port"
    )


def join(store: Any, host: str, rank: int, ranks: int, device: torch.device) -> None:
    """Join the process group of `ranks` ranks; `host`: where the first one is."""
    if device.type == "cpu":
        os.environ["GLOO_SOCKET_IFNAME"] = interface(host)
        backend = "gloo"
    else:
        os.environ["NCCL_SOCKET_IFNAME"] = f"={interface(host)}"
        backend = "nccl"
    distributed.init_process_group(backend, store=store, rank=rank, world_size=ranks, timeout=COLLECTIVE)


def interface(host: str) -> str:
    """The network interface by which this machine reaches `host`. Raises ConfigError if it has none."""
    import psutil  # type: ignore[import-untyped]  # DeepSpeed needs it

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, 1))  # sends nothing
        except OSError as error:
            raise ConfigError(f"{host}: this machine has no way there ({error.strerror})") from None
        ours = probe.getsockname()[0]
    for name, addresses in psutil.net_if_addrs().items():
        if any(address.address == ours for address in addresses):
            return str(name)
    raise ConfigError(f"{host}: no interface of this machine has the address {ours}, by which it is reached")


def name_of(rank: int) -> str:
    """The name of the process of a rank."""
    return f"learner-{rank}" if rank else "learner"


def together(work: Callable[[], T], ranks: int, device: torch.device) -> T:
    """Do `work` on all ranks at once; its result on this one.

    If it fails on one rank, that one raises its error, and the others a RunError or SpadeError that names the rank. An
    OSError becomes a SpadeError.
    """
    failed: Exception | None = None
    try:
        result = work()
    except OSError as error:
        failed = SpadeError(str(error))
    except Exception as error:
        failed = error
    final = isinstance(failed, RunError | ConfigError)
    ours = msgspec.json.encode(None if failed is None else (str(failed) or repr(failed), final))
    lines = [msgspec.json.decode(one, type=tuple[str, bool] | None) for one in exchanged(ours, ranks, device)]
    if failed is not None:
        raise failed
    for rank, told in enumerate(lines):
        if told is not None:
            raise (RunError if told[1] else SpadeError)(f"{name_of(rank)}: {told[0]}")
    return result


def exchanged(ours: bytes, ranks: int, device: torch.device) -> list[bytes]:
    """A few bytes of each rank, at least one, by rank."""
    sizes = [int(size) for (size,) in gathered([len(ours)], ranks, device)]
    padded = torch.tensor(list(ours.ljust(max(sizes))), dtype=torch.uint8, device=device)
    everyone = [torch.empty_like(padded) for _ in range(ranks)]
    distributed.all_gather(everyone, padded)
    return [bytes(one[:size].tolist()) for one, size in zip(everyone, sizes, strict=True)]


def halting(interrupt: Callable[[], None], rank: int, device: torch.device) -> Callable[[], None]:
    """`interrupt` of the first rank, for all: where it raises, all the others raise HaltError."""

    def agreed() -> None:
        halts: BaseException | None = None
        if rank == 0:
            try:
                interrupt()
            except BaseException as error:
                halts = error
        told = torch.tensor([halts is not None], dtype=torch.int32, device=device)
        distributed.broadcast(told, 0)
        if halts is not None:
            raise halts
        if told.item():
            raise HaltError

    return agreed


def gathered(numbers: list[float], ranks: int, device: torch.device) -> list[list[float]]:
    """The numbers of each rank, by rank; float64, as many of each."""
    ours = torch.tensor(numbers, dtype=torch.float64, device=device)
    everyone = [torch.empty_like(ours) for _ in range(ranks)]
    distributed.all_gather(everyone, ours)
    return [one.tolist() for one in everyone]
