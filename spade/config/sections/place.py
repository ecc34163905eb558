"""Settings of processes that a cluster places."""

from typing import Annotated, Literal

from msgspec import Meta, field

from spade.config.sections.bounds import MOST, Bytes, CountOrZero, Name, Section

PlacedRole = Literal["learner", "engine", "env-runner", "agent", "designer"]
"""Roles whose processes may run on any machine of a cluster. All other processes run on their supervisor's machine."""
Amount = Annotated[float, Meta(ge=0, le=MOST)]


class Place(Section, frozen=True):
    """The resources that a process of each role asks a cluster for (`spade up --cluster`, docs/clusters.md).

    Nothing here has any effect without a cluster.
    """

    cpus: dict[PlacedRole, Amount] = field(default_factory=dict)
    """CPUs by role. A role that is left out asks for 1. Torch uses one thread for each CPU."""

    memory: dict[PlacedRole, Bytes] = field(default_factory=dict)
    """Bytes of memory by role. For a role that is left out, no memory is reserved."""

    gpus: dict[PlacedRole, CountOrZero] = field(default_factory=dict)
    """GPUs of a process by role. If a role is left out, its number is 1 for the learner if `learner.device` is "cuda",
    `engine.tensor_parallel` for an engine if `engine.device` is "cuda", and 0 otherwise."""

    resources: dict[PlacedRole, dict[Name, Amount]] = field(default_factory=dict)
    """Custom resources by role, as the machines of the cluster name them: `learner = { big = 1 }`."""
