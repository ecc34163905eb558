"""The actors that one supervisor keeps up. The wanted number of each role may change at any time.

Only the supervisor holds the wanted counts. They begin as in the config, and `spade actors scale` changes them. Each
report to the replay service contains the counts, so the service knows them again after its restart. The counts are lost
at the end of `spade up`. A resumed `spade up` starts with the counts of the config (`--set actors.agents=8` changes the
config).
"""

import logging
from collections.abc import Callable, Mapping

import trio

from spade.config import Config
from spade.errors import RunError
from spade.processes.entry import Launch
from spade.processes.supervise import Supervisor
from spade.protocol import Orders, Role

log = logging.getLogger(__name__)


class Actors:
    """Starts and drains actors. It starts the lowest free indices and drains the highest. All other actors continue.

    A drained designer or agent finishes its leases, each within `lease_s`. An engine or env-runner leaves immediately:
    its requests are sent elsewhere, or its plays are given back.

    * wanted: the number of actors of each role to keep up
    * fixed: the roles whose number an order has set; the autoscaler does not change it
    """

    def __init__(
        self, supervisor: Supervisor, launch: Callable[[Role, int], Launch], lease_s: float, nursery: trio.Nursery
    ) -> None:
        self.wanted: dict[Role, int] = {}
        self.fixed: set[Role] = set()
        self._supervisor = supervisor
        self._launch = launch
        self._lease_s = lease_s
        self._nursery = nursery
        self._up: dict[Role, dict[int, Launch]] = {}
        self._leaving: set[Launch] = set()

    def begin(self, counts: Mapping[Role, int]) -> None:
        """Start the first actors. The supervisor fails if an actor does not become ready."""
        self._want(counts, vital=True)

    def scale(self, counts: Mapping[Role, int]) -> None:
        """Start or drain actors to reach these counts.

        If an actor does not become ready, only this actor is given up.
        """
        self._want(counts, vital=False)

    def obey(self, orders: Orders) -> None:
        """Drain the named actors and lower their wanted counts. Then set the ordered counts."""
        for name in orders.drain:
            for role, up in self._up.items():
                for index in [index for index, launch in up.items() if launch.name == name]:
                    self.wanted[role] -= 1
                    self._stop(role, index)
                    self.fixed.add(role)
        self.fixed |= orders.counts.keys()
        self.scale(orders.counts)

    def _want(self, counts: Mapping[Role, int], vital: bool) -> None:
        for role, count in counts.items():
            up = self._up.setdefault(role, {})
            self.wanted[role] = count
            while len(up) > count:
                self._stop(role, max(up))
            while len(up) < count:
                self._start(role, vital)

    def _start(self, role: Role, vital: bool) -> None:
        up, index = self._up[role], 0
        # A leaving actor still uses its name and its address.
        while index in up or self._launch(role, index) in self._leaving:
            index += 1
        up[index] = self._launch(role, index)
        self._nursery.start_soon(self._add, role, index, up[index], vital)

    async def _add(self, role: Role, index: int, launch: Launch, vital: bool) -> None:
        if self._up[role].get(index) is not launch:
            return  # the actor was drained before it was started
        try:
            await self._supervisor.add(launch, vital=vital)
        except RunError as error:
            if self._up[role].get(index) is not launch:
                return  # the actor was drained before it was ready
            if vital:
                raise
            log.error("%s; it is not started again, and one %s less is wanted", error, role)
            del self._up[role][index]
            self.wanted[role] -= 1

    def _stop(self, role: Role, index: int) -> None:
        launch = self._up[role].pop(index)
        self._leaving.add(launch)
        self._nursery.start_soon(self._drain, launch)

    async def _drain(self, launch: Launch) -> None:
        if any(process.name == launch.name for process in self._supervisor.processes()):
            await self._supervisor.retire(launch.name, self._lease_s)
        self._leaving.discard(launch)


def compute_longest_lease_s(config: Config) -> float:
    """Return the longest time for which a designer or agent holds a lease, in s."""
    return max(config.play.lease_s, config.design.lease_s)
