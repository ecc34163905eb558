"""Compute the CPUs, GPUs, memory and custom resources that a process of a role needs, from the config. Pure."""

from collections.abc import Collection, Mapping
from typing import NamedTuple, get_args

import msgspec

from spade.config import Config, PlacedRole
from spade.errors import ConfigError

PLACED: tuple[PlacedRole, ...] = get_args(PlacedRole)
_GIB = 2**30
_RAYS = ("CPU", "GPU", "memory", "object_store_memory")  # resources that Ray itself defines


class MachineShare(msgspec.Struct, frozen=True):
    """A share of one machine."""

    cpus: float
    """Number of CPUs."""

    gpus: int
    """Number of GPUs."""

    memory: int
    """Bytes of memory."""

    resources: Mapping[str, float]
    """Amounts of custom resources."""

    together: bool = False
    """True prefers a machine that already has processes of the role."""

    def __str__(self) -> str:
        parts = [
            _count(self.cpus, "CPU") if self.cpus else "",
            _count(self.gpus, "GPU") if self.gpus else "",
            f"{self.memory / _GIB:.3g} GiB of memory" if self.memory else "",
            *(f"{amount:g} {name}" for name, amount in self.resources.items()),
        ]
        return ", ".join(filter(None, parts)) or "a machine"


class Machine(NamedTuple):
    """A machine that is up."""

    host: str
    """Address of the machine."""

    node: str
    """Name of the machine in the cluster."""

    resources: Mapping[str, float]
    """All resources that Ray counts, by Ray's names."""

    @property
    def gpus(self) -> int:
        """Return the number of GPUs that Ray counts."""
        return int(self.resources.get("GPU", 0))

    def own(self) -> dict[str, float]:
        """Return the custom resources of the machine."""
        return {name: n for name, n in self.resources.items() if name not in _RAYS and not name.startswith("node:")}

    def holds(self, needs: MachineShare) -> bool:
        """Return True if the machine, while it is empty, has enough resources for a process with these needs."""
        asked = {"CPU": needs.cpus, "GPU": needs.gpus, "memory": needs.memory, **needs.resources}
        return all(self.resources.get(name, 0) >= amount for name, amount in asked.items())


def compute_needs(config: Config, role: PlacedRole) -> MachineShare:
    """Return the needs of a process of the role."""
    place = config.place
    return MachineShare(
        cpus=place.cpus.get(role, 1.0),
        gpus=place.gpus.get(role, _count_gpus(config, role)),
        memory=place.memory.get(role, 0),
        resources=place.resources.get(role, {}),
        together=role == "learner",
    )


def check(config: Config, roles: Collection[PlacedRole]) -> None:
    """Raise ConfigError if a cluster cannot apply the GPU settings of these roles."""
    shares: tuple[tuple[PlacedRole, Collection[int], str], ...] = (
        ("engine", config.engine.gpus, "engine.tensor_parallel"),
        ("learner", config.learner.gpus, "learner.processes"),
    )
    if "learner" in roles and config.place.gpus.get("learner", 0) > 1:
        raise ConfigError("place.gpus: each process of the learner takes one GPU; set learner.processes instead")
    for role, gpus, split in shares:
        least, given = _count_wanted(config, role), config.place.gpus.get(role, 0)
        if role in roles and gpus:
            raise ConfigError(
                f"{role}.gpus: the cluster chooses GPUs, since each machine numbers its own; --set {role}.gpus=[] "
                f"removes the list, and --set place.gpus={{{role}={least}}} asks for a number of GPUs"
            )
        if role in roles and given and given < least:
            raise ConfigError(f"place.gpus: {role} = {given} are too few for {split} = {least} on one machine")


def check_machines(config: Config, roles: Collection[PlacedRole], gpus: Collection[float]) -> None:
    """Raise ConfigError for a process that asks for more GPUs than any machine has.

    `gpus` has the number of GPUs of each machine. If no machine has a GPU yet, every process is accepted.
    """
    largest = max(gpus, default=0.0)
    for role in PLACED:
        asked = compute_needs(config, role).gpus
        if role in roles and 0 < largest < asked:
            raise ConfigError(
                f"{role}: asks for {asked} GPUs of one machine, and the largest of the cluster has {largest:g}; an "
                "engine's model is not split over machines"
            )


def _count_gpus(config: Config, role: PlacedRole) -> int:
    """Return the number of GPUs of a role that is not in `place.gpus`."""
    device = {"engine": config.engine.device, "learner": config.learner.device}.get(role, "")
    return _count_wanted(config, role) if device.startswith("cuda") else 0


def _count_wanted(config: Config, role: PlacedRole) -> int:
    return config.engine.tensor_parallel if role == "engine" else 1


def _count(number: float, what: str) -> str:
    return f"{number:g} {what}" if number == 1 else f"{number:g} {what}s"
