"""The share of a machine that a process of a role asks for, from the config. Pure."""

from collections.abc import Collection, Mapping
from typing import NamedTuple, get_args

import msgspec

from spade.config import Config, PlacedRole
from spade.errors import ConfigError

PLACED: tuple[PlacedRole, ...] = get_args(PlacedRole)
_GIB = 2**30
_RAYS = ("CPU", "GPU", "memory", "object_store_memory")  # resources that Ray counts of itself


class MachineShare(msgspec.Struct, frozen=True):
    """CPUs, GPUs, bytes of memory and custom resources of one machine; `together`: better where the role is already."""

    cpus: float
    gpus: int
    memory: int
    resources: Mapping[str, float]
    together: bool = False

    def __str__(self) -> str:
        parts = [
            _count(self.cpus, "CPU") if self.cpus else "",
            _count(self.gpus, "GPU") if self.gpus else "",
            f"{self.memory / _GIB:.3g} GiB of memory" if self.memory else "",
            *(f"{amount:g} {name}" for name, amount in self.resources.items()),
        ]
        return ", ".join(filter(None, parts)) or "a machine"


class Machine(NamedTuple):
    """A machine that is up: its address, its name in the cluster, and all that Ray counts of it, by Ray's names."""

    host: str
    node: str
    resources: Mapping[str, float]

    @property
    def gpus(self) -> int:
        """The GPUs that Ray counts."""
        return int(self.resources.get("GPU", 0))

    def own(self) -> dict[str, float]:
        """Its custom resources."""
        return {name: n for name, n in self.resources.items() if name not in _RAYS and not name.startswith("node:")}

    def holds(self, needs: MachineShare) -> bool:
        """True if it has what a process needs, were all else gone."""
        asked = {"CPU": needs.cpus, "GPU": needs.gpus, "memory": needs.memory, **needs.resources}
        return all(self.resources.get(name, 0) >= amount for name, amount in asked.items())


def needs(config: Config, role: PlacedRole) -> MachineShare:
    """The needs of a process of the role."""
    place = config.place
    return MachineShare(
        cpus=place.cpus.get(role, 1.0),
        gpus=place.gpus.get(role, _gpus(config, role)),
        memory=place.memory.get(role, 0),
        resources=place.resources.get(role, {}),
        together=role == "learner",
    )


def check(config: Config, roles: Collection[PlacedRole]) -> None:
    """Refuse settings that a cluster cannot keep for processes of these roles. Raises ConfigError."""
    shares: tuple[tuple[PlacedRole, Collection[int], str], ...] = (
        ("engine", config.engine.gpus, "engine.tensor_parallel"),
        ("learner", config.learner.gpus, "learner.processes"),
    )
    if "learner" in roles and config.place.gpus.get("learner", 0) > 1:
        raise ConfigError("place.gpus: each process of the learner takes one GPU; learner.processes is their number")
    for role, gpus, split in shares:
        least, given = _wanted(config, role), config.place.gpus.get(role, 0)
        if role in roles and gpus:
            raise ConfigError(
                f"{role}.gpus: the cluster chooses GPUs, and each machine counts its own; --set {role}.gpus=[] leaves "
                f"the list out, and --set place.gpus={{{role}={least}}} asks for as many"
            )
        if role in roles and given and given < least:
            raise ConfigError(f"place.gpus: {role} = {given} are too few for {split} = {least} on one machine")


def check_machines(config: Config, roles: Collection[PlacedRole], gpus: Collection[float]) -> None:
    """Refuse what no machine can hold; `gpus`: those of each machine of the cluster, where any has some."""
    largest = max(gpus, default=0.0)
    for role in PLACED:
        asked = needs(config, role).gpus
        if role in roles and 0 < largest < asked:
            raise ConfigError(
                f"{role}: asks for {asked} GPUs of one machine, and the largest of the cluster has {largest:g}; an "
                "engine's model is not split over machines"
            )


def _gpus(config: Config, role: PlacedRole) -> int:
    """The GPUs of a role that `place.gpus` leaves out."""
    device = {"engine": config.engine.device, "learner": config.learner.device}.get(role, "")
    return _wanted(config, role) if device.startswith("cuda") else 0


def _wanted(config: Config, role: PlacedRole) -> int:
    return config.engine.tensor_parallel if role == "engine" else 1


def _count(number: float, what: str) -> str:
    return f"{number:g} {what}" if number == 1 else f"{number:g} {what}s"
