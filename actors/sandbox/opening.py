"""Open a sandbox: try the tiers from the strongest down until one holds."""

import os
import resource
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import metadata
from importlib.util import find_spec

import trio

from actors.sandbox.host import BreachError, Sandbox
from actors.sandbox.inside.libraries import LIBRARIES
from actors.sandbox.tiers import ATTACKS, LADDER, LIMITED, TIERS, Layers
from spade.config import Sandbox as Limits
from spade.errors import RunError, unwrap_errors
from spade.extras import describe_installing

DESCRIPTORS_EACH = 2  # a channel and a pidfd
DESCRIPTORS_BESIDE = 256


@asynccontextmanager
async def open_sandbox(limits: Limits, fixed_hashes: bool = False) -> AsyncIterator[Sandbox]:
    """Open a sandbox of the tier that `limits` sets. Leaving it kills every child. Raises RunError if no tier holds.

    With `fixed_hashes`, sets of strings have the same order in each such sandbox. Programs can foresee this order, so
    use `fixed_hashes` only for checks by hand.
    """
    if sys.platform != "linux" or not hasattr(os, "pidfd_open"):
        raise RunError(
            "the sandbox needs Linux (5.4 or newer); elsewhere run it in a Linux container or virtual machine"
        )
    require(limits.libraries)
    if limits.servers and find_spec("trio_websocket") is None:
        raise RunError(
            f"sandbox.servers: needs trio-websocket, which is not installed; {describe_installing('openenv')}"
        )
    _raise_descriptor_limit(DESCRIPTORS_EACH * limits.episodes + DESCRIPTORS_BESIDE)
    breaches = []
    async with AsyncExitStack() as stack:
        for tier in LADDER if limits.tier == "auto" else (limits.tier,):
            attacks = [LIMITED] if tier == "none" else list(ATTACKS)
            sandbox = await stack.enter_async_context(open_layers(TIERS[tier], limits, attacks, fixed_hashes))
            try:
                await sandbox.prove()
            except BreachError as breach:
                breaches.append(f"{tier}: {breach}")
                await stack.aclose()
            else:
                yield sandbox
                return
    raise RunError(
        f"no sandbox holds here ({'; '.join(breaches)}): `spade doctor` says what would help; "
        "to run only programs of your own, --set sandbox.tier=none"
    )


@asynccontextmanager
async def open_layers(
    layers: Layers, limits: Limits, attacks: Iterable[str] = (), fixed_hashes: bool = False
) -> AsyncIterator[Sandbox]:
    """Open a sandbox of exactly these layers. Each zygote is tested by these attacks. Leaving it kills every child."""
    async with unwrap_errors(trio.open_nursery()) as nursery:
        sandbox = Sandbox(layers, limits, nursery, attacks, fixed_hashes)
        nursery.start_soon(sandbox.watch)
        yield sandbox


def require(libraries: Iterable[str]) -> None:
    """Raise RunError if a library is not installed in the supported version."""
    for name in libraries:
        library = LIBRARIES[name]
        package, _, version = library.requirement.partition("==")
        try:
            found = metadata.version(package) if package else version
        except metadata.PackageNotFoundError:
            found = "none"
        if found != version:
            remedy = library.remedy or describe_installing("suites")
            wanted = f"{library.requirement} is supported, {found} is installed; {remedy}"
            raise RunError(f"{name}: {wanted}")


def _raise_descriptor_limit(count: int) -> None:
    """Raise this process's limit of open files if it is too low. Zygotes inherit the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < count:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
        except (ValueError, OSError):
            reason = f"needs {count} open files, but {hard} are allowed here (ulimit -Hn); ask for fewer episodes"
            raise RunError(f"sandbox.episodes: {reason}") from None
