"""The ways to a live run: its directory, on any host that sees it, or only the address of its replay service."""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from spade.app.rundir import RunDir
from spade.config import Config, compute_digest
from spade.errors import BusError, RunError
from spade.locks import Holder
from spade.protocol import PROTOCOL_VERSION, Hello
from spade.text import quote
from spade.transport import Client, connect
from spade.transport.keys import make_command_tag

ANSWER_S = 5.0  # after this time a service counts as not answering
AGAIN_S = 2.0  # seconds until an order is repeated: a restarting service may have lost it
CONNECT_S = 15.0  # after this time a command stops trying to reach a service on this host, because a person waits


class ReachedRun(NamedTuple):
    """The run that a command was given."""

    name: str
    """The directory or address, as shown to people."""

    config: Config
    """The run's config with this host's keys. The default config if only an address was given."""

    run: RunDir | None = None
    """The run's directory. None if only an address was given."""

    @property
    def address(self) -> str:
        """Return the address of the run's replay service."""
        return self.name if self.run is None else self.run.replay_address

    def holders(self) -> Mapping[str, Holder]:
        """Return the processes that hold a part of the run, by part. Empty if only an address was given."""
        return {} if self.run is None else self.run.holders()

    def goes_on(self, client: Client) -> bool:
        """Return True while the run is up, as far as this host can see."""
        return not client.left if self.run is None or self.abroad() else bool(self.holders())

    def abroad(self) -> Holder | None:
        """Return a holder on another host, or None."""
        return next((holder for holder in self.holders().values() if holder.far), None)


def reach(given: RunDir | Path | str, keys: Path | None = None) -> ReachedRun:
    """Find the run that a command was given. `keys` is this host's key folder if it is not the run's.

    Raises RunError if the directory is not a run.
    """
    text = "" if isinstance(given, RunDir) else str(given)
    run = None
    if text.startswith(("tcp://", "ipc://")):
        config = Config()
    else:
        run = (given if isinstance(given, RunDir) else RunDir(Path(given))).require()
        config = run.config()
    if keys is not None:
        config = replace(config, bus=replace(config.bus, keys=os.path.realpath(keys)))
    return ReachedRun(text if run is None else str(run.path), config, run)


@asynccontextmanager
async def connect_observer(at: ReachedRun, patience_s: float) -> AsyncIterator[Client]:
    """Connect to the live run's replay service within `patience_s`.

    For another host or a bare address, gives up after `ANSWER_S`. Raises RunError if nothing is up, or if the run is on
    another host and its service cannot be reached from here.
    """
    if at.run is not None and not at.holders():
        raise RunError(f"{at.name}: nothing is up; `spade up --run {quote(at.name)}` resumes it")
    abroad = at.abroad()
    limit_s = ANSWER_S if at.run is None or abroad is not None else patience_s
    bus = replace(at.config.bus, call_deadline_s=min(at.config.bus.call_deadline_s, limit_s))
    # The service compares this digest with its own. A command that was given only an address has no config.
    digest = "" if at.run is None else compute_digest(at.config)
    hello = Hello(PROTOCOL_VERSION, digest, "observer", f"observer-{make_command_tag(bus)}", os.getpid())
    async with AsyncExitStack() as stack:
        try:
            if abroad is not None and at.address.startswith("ipc://"):
                raise BusError("without bus.bind its services listen only on that host")
            client = await stack.enter_async_context(connect(at.address, hello, bus=bus))
        except BusError as error:
            if abroad is None:
                raise
            assert at.run is not None
            raise RunError(f"{at.run.held_by(abroad)} ({error})") from None
        yield client
