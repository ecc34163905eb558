"""The gateway process: it joins a run, asks the run's engines as agents do, and speaks HTTP with clients."""

import logging
import resource
from collections.abc import Callable

import trio

from actors.gateway.http import Application
from actors.gateway.listening import listen, serve_clients
from actors.gateway.routes import Routes, ServedModel
from actors.gateway.sampler import Sampler
from actors.links.connected import ActorConnections, attend
from actors.links.faults import RequestFaults
from actors.text.toolcalls import DIALECTS, find_dialect
from spade.config import Config
from spade.errors import RunError
from spade.keyfiles import read_key
from spade.policy import model_folder
from spade.processes.entry import Launch, main
from spade.tokens import Tokenizer

log = logging.getLogger(__name__)


def describe_served(config: Config) -> ServedModel:
    """Return the model as clients know it. Raises RunError without a usable chat template."""
    tokenizer = Tokenizer.load(model_folder.resolve(config.model.path), thinking=config.model.thinking)
    name = config.serve.name or config.model.path
    try:
        return ServedModel(name, tokenizer, find_dialect(tokenizer, DIALECTS, name), "")
    except RunError as error:
        return ServedModel(name, tokenizer, None, str(error))


async def run(launch: Launch, config: Config, ready: Callable[[], None]) -> None:
    """Run a gateway process until cancelled. Raises ConfigError if it cannot listen at its address."""
    model, key = describe_served(config), read_key(config.serve.key, "serve.key")
    _raise_descriptor_limit()
    listeners = await listen(config.serve.address)
    for listener in listeners:
        log.info("listening at %s", listener.socket.getsockname()[:2])

    async def work(connected: ActorConnections) -> None:
        faults = RequestFaults()
        app = Application(Routes(model, Sampler(connected)), key, faults)
        connected.gauges["request_faults"] = 0
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_count, connected, faults)
            await serve_clients(app, listeners, faults)

    await attend(launch, config, ("engine",), config.bus.call_deadline_s, ready, work)


async def _count(connected: ActorConnections, faults: RequestFaults) -> None:
    while True:
        await trio.sleep(connected.config.bus.heartbeat_s)
        connected.gauges["request_faults"] = faults.total


def _raise_descriptor_limit() -> None:
    """Raise this process's limit of open descriptors to the system's maximum. Each client takes one descriptor."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


if __name__ == "__main__":
    main(run)
