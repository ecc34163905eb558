"""Place the processes of a run on a cluster.

Roles in `PLACED` run on any machine with enough free resources. All other roles run on the supervisor's machine.
"""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import msgspec

from spade.cluster.needs import PLACED, compute_needs
from spade.cluster.placed import Cluster, LostMachines, PlacedLife
from spade.cluster.post import RECORD, PostSetup
from spade.config import Bus, Config, PlacedRole, Supervise, dump, is_local
from spade.errors import ConfigError
from spade.processes.child import AnyLife, Life
from spade.processes.entry import Launch
from spade.transport import keys

_SERVING: tuple[PlacedRole, ...] = ("learner", "engine", "env-runner")
_OPEN = ("server.key", "client.key_secret")
_SERVER = "server.key_secret"


def make_reachable(config: Config, host: str, run: Path) -> Config:
    """Return the config that lets other machines reach the services of this machine, at the address `host`.

    A run without keys gets keys. If this machine can bind the address of bus.bind, the address stays. Otherwise, for
    example after a resume on another machine, the services use a free port of `host`.
    """
    bus = config.bus
    folder = Path(bus.keys) if bus.keys else run / "keys"
    if not bus.keys:
        keys.create(folder, ())
    kept = bus.bind and not is_local(bus.bind) and _can_bind(bus.bind)
    bind = bus.bind if kept else f"tcp://{host}:{_find_free_port(host)}"
    return msgspec.structs.replace(config, bus=msgspec.structs.replace(bus, keys=str(folder), bind=bind))


def check_reachable(address: str, bus: Bus) -> None:
    """Raise ConfigError if other machines cannot reach a replay service."""
    if is_local(address) or not bus.keys:
        raise ConfigError(
            f"{address}: machines of a cluster cannot reach this replay service; start it with "
            "bus.bind=tcp://HOST:PORT and bus.keys=DIR (`spade up --cluster ray` sets both itself)"
        )


def make_lives(cluster: Cluster, config: Config, run: Path) -> Callable[[str, Launch, Path, Supervise], AnyLife]:
    """Return the function with which a supervisor makes a new life of a process.

    Roles in `PLACED` run on the cluster, all other roles on this machine.
    """
    text, lost = dump(config), LostMachines()
    record = (run / RECORD).read_bytes()

    def live(module: str, launch: Launch, logfile: Path, supervise: Supervise) -> AnyLife:
        if launch.role not in PLACED:  # only the cluster assigns GPUs, also the GPUs of this machine
            return Life(module, msgspec.structs.replace(launch, gpus=()), logfile, supervise)
        asked = compute_needs(config, launch.role)
        # None: all GPUs that the cluster shows to the post. (): no GPU, because the cluster might show GPUs anyway.
        orders = msgspec.structs.replace(launch, gpus=None if asked.gpus else ())
        setup = PostSetup(module, orders, text, _read_keys(config.bus, launch.role), record, os.getcwd())
        return PlacedLife(cluster, setup, asked, logfile, config.bus.silence_s + supervise.drain_s, lost)

    return live


def _read_keys(bus: Bus, role: PlacedRole) -> dict[str, bytes]:
    """Read the files of the key folder that a process of the role needs. Raises ConfigError."""
    folder = Path(bus.keys)
    names = list(_OPEN)
    if role in _SERVING:
        names += [_SERVER, *(str(file.relative_to(folder)) for file in (folder / "allowed").glob("*.key"))]
    try:
        return {name: (folder / name).read_bytes() for name in names}
    except OSError as error:
        raise ConfigError(f"{error.filename}: cannot be read ({error.strerror}), and {role} needs it") from None


def _can_bind(address: str) -> bool:
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, int(port)))
        except OSError:
            return False
    return True


def _find_free_port(host: str) -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port
