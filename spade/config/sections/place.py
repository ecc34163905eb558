"""Settings of processes that a cluster places."""

from typing import Annotated, Literal

from msgspec import Meta, field

from spade.config.sections.bounds import MOST, Bytes, CountOrZero, Name, Section

PlacedRole = Literal["learner", "engine", "env-runner", "agent", "designer"]
"""Roles whose processes a cluster places; all others stay beside their supervisor."""
Amount = Annotated[float, Meta(ge=0, le=MOST)]


class Place(Section, frozen=True):
    """The resources that a process of each role asks a cluster for (`spade up --cluster ray`, docs/clusters.md).

    Nothing here has any effect without a cluster.
    """

    cpus: dict[PlacedRole, Amount] = field(default_factory=dict)
    """CPUs by role. A role that is left out asks for 1. Torch uses one thread for each CPU."""

    memory: dict[PlacedRole, Bytes] = field(default_factory=dict)
    """Bytes of memory by role; a role that is left out asks for none."""

    gpus: dict[PlacedRole, CountOrZero] = field(default_factory=dict)
    """GPUs of a process by role. If a role is left out, the learner asks for 1 under `learner.device` "cuda", an engine
    for `engine.tensor_parallel` under `engine.device` "cuda", and any other role for none."""

    resources: dict[PlacedRole, dict[Name, Amount]] = field(default_factory=dict)
    """Custom resources by role, as the machines of the cluster name them: `learner = { big = 1 }`."""
