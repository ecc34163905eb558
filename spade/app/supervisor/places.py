"""The machines on which a command's processes live: this one, or those of a cluster."""

from collections.abc import Iterator
from contextlib import contextmanager

from spade import extras
from spade.app.rundir import RunDir
from spade.config import Config, PlacedRole, load
from spade.errors import ConfigError
from spade.processes.child import Life
from spade.processes.supervise import Lives


@contextmanager
def places(
    cluster: str | None,
    run: RunDir,
    config: Config,
    connect: str | None = None,
    role: PlacedRole | None = None,
) -> Iterator[tuple[Config, Lives]]:
    """The lives of a command's processes, and the config with which other machines reach its services.

    connect  the replay service that they join; None: one of this command, which holds its lock, and whose address is
             chosen here and saved
    role     the one role that this command keeps up; None: any

    Raises ConfigError for settings that a cluster cannot keep, RunError where there is no cluster.
    """
    if cluster is None:
        yield config, Life
        return
    check_known(cluster)
    from spade.cluster import lives, needs
    from spade.cluster.on_ray import joined

    roles = needs.PLACED if role is None else (role,)
    needs.check(config, roles)
    if connect is not None:
        lives.check_reachable(connect, config.bus)
    with joined() as machines:
        needs.check_machines(config, roles, machines.gpus())
        if connect is None:
            given = lives.overrides(config.bus, machines.host, run.path)
            config = load(str(run.config_path), tuple(given))
            run.create(config)
        yield config, lives.lives(machines, config, run.path)


def check_known(cluster: str) -> None:
    """Refuse a cluster that is not Ray's, or that nothing here can speak with. Raises ConfigError."""
    if cluster != "ray":
        raise ConfigError(f"--cluster: there is no {cluster!r}; write --cluster ray")
    extras.require("ray")
