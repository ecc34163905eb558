"""The machines on which a command's processes run: this machine, or the machines of a cluster."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Protocol

from spade import extras
from spade.app.rundir import RunDir
from spade.config import Config, PlacedRole
from spade.errors import ConfigError
from spade.processes.child import Life
from spade.processes.supervise import Lives

if TYPE_CHECKING:
    from spade.cluster.placed import JoinedCluster


class Places(Protocol):
    """The machines on which processes run."""

    def reached(self, run: RunDir, config: Config) -> Config:
        """Return the config with which other machines reach the services of this command.

        The caller holds the run's locks.
        """

    def lives(self, run: RunDir, config: Config) -> Lives:
        """Return the `Lives` for a supervisor. The run must already have the config of `reached`."""


class ThisMachine:
    """This machine."""

    def reached(self, run: RunDir, config: Config) -> Config:
        """See `Places`."""
        return config

    def lives(self, run: RunDir, config: Config) -> Lives:
        """See `Places`."""
        return Life


class ClusterMachines:
    """The machines of a cluster."""

    def __init__(self, machines: "JoinedCluster") -> None:
        self._machines = machines

    def reached(self, run: RunDir, config: Config) -> Config:
        """See `Places`."""
        from spade.cluster import lives

        return lives.make_reachable(config, self._machines.host, run.path)

    def lives(self, run: RunDir, config: Config) -> Lives:
        """See `Places`."""
        from spade.cluster import lives

        return lives.make_lives(self._machines, config, run.path)


@contextmanager
def open_places(
    cluster: str | None, config: Config, connect: str | None = None, role: PlacedRole | None = None
) -> Iterator[Places]:
    """Yield the places of a command's processes.

    * connect: the replay service that they join; None if this command has its own
    * role: the only role that this command keeps up; None for any

    Raises ConfigError for settings that do not work on a cluster, RunError if the cluster cannot be reached.
    """
    if cluster is None:
        yield ThisMachine()
        return
    from spade.cluster import lives, needs

    joining = join_cluster(cluster)
    roles = needs.PLACED if role is None else (role,)
    needs.check(config, roles)
    if connect is not None:
        lives.check_reachable(connect, config.bus)
    with joining as machines:
        needs.check_machines(config, roles, machines.gpus())
        yield ClusterMachines(machines)


def join_cluster(cluster: str) -> AbstractContextManager["JoinedCluster"]:
    """Return a context that joins the machines of a cluster.

    Raises ConfigError if the cluster is unknown or its package is missing. The context raises RunError if the cluster
    cannot be reached.
    """
    match cluster:
        case "ray":
            extras.require("ray")
            from spade.cluster.on_ray import join_ray

            return join_ray()
        case _:
            raise ConfigError(f"--cluster {cluster!r}: unknown cluster; write --cluster ray")
