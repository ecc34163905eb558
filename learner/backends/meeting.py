"""Form the process group of a learner's ranks: the store, the network interfaces, and all exchanges except gradients.

The first rank serves the store on the host address of its own bus. Each rank uses the network interface that reaches
this address, because a machine's name may resolve to the loopback. The group is not authenticated (docs/security.md).
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

COLLECTIVE = timedelta(minutes=30)  # time limit of a collective operation, including a slow rank's micro-batch
MEET_S = 60.0  # time limit to join the process group, after all models are loaded
LOOPBACK = "127.0.0.1"

T = TypeVar("T")


class HaltError(Exception):
    """The first rank has abandoned the step. Raised on all other ranks."""


def find_host(address: str) -> str:
    """Return the host at which other ranks reach a rank that serves at `address`. Loopback if the address is local."""
    return LOOPBACK if is_local(address) else address.removeprefix("tcp://").rpartition(":")[0]


def open_store(host: str, ranks: int) -> tuple[Any, int]:
    """Serve a store at a free port of `host`, and at no other address. Returns the store and the port."""
    listener = socket.create_server((host, 0))
    port: int = listener.getsockname()[1]
    # Pass our own socket, because otherwise the store listens on all addresses of this machine.
    store = distributed.TCPStore(  # type: ignore[attr-defined]
        host, port, ranks, is_master=True, timeout=timedelta(seconds=MEET_S), wait_for_workers=False,
        master_listen_fd=listener.detach(),
    )  # fmt: skip
    return store, port


def find_store(meet: Meet, ranks: int) -> Any:
    """Connect to the first rank's store. Raises SpadeError if the store cannot be reached."""
    try:
        return distributed.TCPStore(  # type: ignore[attr-defined]
            meet.host, meet.port, ranks, is_master=False, timeout=timedelta(seconds=MEET_S), wait_for_workers=False
        )
    except RuntimeError as error:
        raise SpadeError(describe_unreachable(meet, str(error).splitlines()[0])) from None


def describe_unreachable(meet: Meet, why: str) -> str:
    """Return the error line of a rank that cannot join."""
    return (
        f"the learner's first rank cannot be joined at {meet.host} port {meet.port} ({why}); its machines must reach "
        "each other at any port"
    )


def join(store: Any, host: str, rank: int, ranks: int, device: torch.device) -> None:
    """Join the process group of `ranks` ranks. The first rank is on `host`."""
    if device.type == "cpu":
        os.environ["GLOO_SOCKET_IFNAME"] = find_interface(host)
        backend = "gloo"
    else:
        os.environ["NCCL_SOCKET_IFNAME"] = f"={find_interface(host)}"
        backend = "nccl"
    distributed.init_process_group(backend, store=store, rank=rank, world_size=ranks, timeout=COLLECTIVE)


def find_interface(host: str) -> str:
    """Return the network interface that reaches `host` from this machine. Raises ConfigError if no interface does."""
    import psutil  # type: ignore[import-untyped]  # DeepSpeed needs it

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, 1))  # sends nothing
        except OSError as error:
            raise ConfigError(f"{host}: this machine has no route to it ({error.strerror})") from None
        ours = probe.getsockname()[0]
    for name, addresses in psutil.net_if_addrs().items():
        if any(address.address == ours for address in addresses):
            return str(name)
    raise ConfigError(f"{host}: no interface of this machine has the address {ours}, by which it is reached")


def name_of(rank: int) -> str:
    """Return the name of a rank's process."""
    return f"learner-{rank}" if rank else "learner"


def do_together(work: Callable[[], T], ranks: int, device: torch.device) -> T:
    """Do `work` on all ranks together. Returns the result of this rank.

    If the work fails on one rank, that rank raises its own error. The other ranks raise a RunError or SpadeError that
    names the failed rank. An OSError becomes a SpadeError.
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
    lines = [msgspec.json.decode(one, type=tuple[str, bool] | None) for one in exchange_bytes(ours, ranks, device)]
    if failed is not None:
        raise failed
    for rank, failure in enumerate(lines):
        if failure is not None:
            raise (RunError if failure[1] else SpadeError)(f"{name_of(rank)}: {failure[0]}")
    return result


def exchange_bytes(ours: bytes, ranks: int, device: torch.device) -> list[bytes]:
    """Send a few bytes, at least one, from each rank to all ranks. Returns the bytes of each rank, by rank."""
    sizes = [int(size) for (size,) in gather_numbers([len(ours)], ranks, device)]
    padded = torch.tensor(list(ours.ljust(max(sizes))), dtype=torch.uint8, device=device)
    everyone = [torch.empty_like(padded) for _ in range(ranks)]
    distributed.all_gather(everyone, padded)
    return [bytes(one[:size].tolist()) for one, size in zip(everyone, sizes, strict=True)]


def share_interrupt(interrupt: Callable[[], None], rank: int, device: torch.device) -> Callable[[], None]:
    """Share the first rank's `interrupt` with all ranks. If it raises there, all other ranks raise HaltError."""

    def agreed() -> None:
        halts: BaseException | None = None
        if rank == 0:
            try:
                interrupt()
            except BaseException as error:
                halts = error
        halted = torch.tensor([halts is not None], dtype=torch.int32, device=device)
        distributed.broadcast(halted, 0)
        if halts is not None:
            raise halts
        if halted.item():
            raise HaltError

    return agreed


def gather_numbers(numbers: list[float], ranks: int, device: torch.device) -> list[list[float]]:
    """Exchange numbers (float64) among all ranks, the same count from each. Returns the numbers of each rank."""
    ours = torch.tensor(numbers, dtype=torch.float64, device=device)
    everyone = [torch.empty_like(ours) for _ in range(ranks)]
    distributed.all_gather(everyone, ours)
    return [one.tolist() for one in everyone]
