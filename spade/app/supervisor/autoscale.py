"""Adapt the numbers of agents and engines: more while the learner waits for batches, fewer while some are not needed.

`decide_agents` and `decide_engines` are pure. Three rules keep the numbers from swinging. A change is judged by its
expected effect. It needs many readings of the status in a row. The thresholds for growing and shrinking differ.
"""

import logging
import math
from contextlib import suppress
from typing import Literal

import msgspec
import trio

from spade.app.screen.observe import ask_status
from spade.app.supervisor.actors import Actors
from spade.config import Config
from spade.errors import BusError
from spade.protocol import Role, Status
from spade.transport import Client

LOOK_S = 2.0
LOOKS = 5  # the number of agents changes after this many readings in a row call for it
ENGINE_LOOKS = 30  # for the number of engines; larger, because an engine is expensive and may start for minutes
STARVING = 0.2  # the learner starves if it waits for at least this share of its time
FED = 0.05  # the learner has enough batches if it waits for at most this share of its time
BUSY = 0.9  # agents are busy if they play at least this share of the episodes that they may play at once
SPARE = 0.7  # an agent is spare if the others would then play at most this share
ENGINE_FULL = 1.25  # an agent is added only if there would be at most this many requests for each engine row
ENGINE_OVER = 1.75  # over this many requests for each engine row an agent is removed: agents only wait
ENGINE_SPARE = 0.5  # an engine is spare if the others would have at most this many requests for each row
_COMING = ("waiting", "starting", "restarting")

Step = Literal[-1, 0, 1]

log = logging.getLogger(__name__)


class LoadFigures(msgspec.Struct, frozen=True):
    """The figures of a run that may call for a change."""

    agents: int
    """Live agents of the run."""

    busy: float
    """Episodes being played, divided by the number that the live agents may play at once."""

    engines: float
    """Requests being sampled or waiting, for each row of the live engines. Infinite without live engines. By Little's
    law, the excess over 1 is the time in the queue as a share of the time being sampled."""

    starving: float
    """Share of its time that the learner waited for its last batch. 1 before the first batch."""

    backlog: float
    """Batches that wait to be trained."""

    starting: int = 0
    """Agents that are not ready yet."""

    live: int = 0
    """Live engines."""

    coming: int = 0
    """Engines that are not ready yet."""

    @property
    def starves(self) -> bool:
        """Return True if the learner needs batches."""
        return self.starving >= STARVING and self.backlog < 1

    @property
    def fed(self) -> bool:
        """Return True if the learner has enough batches. Between the thresholds, neither property holds."""
        return self.starving <= FED or self.backlog >= 1


def compute_pressure(status: Status, config: Config) -> LoadFigures:
    """Compute the load of a run from its status."""
    agents, engines = _list_ready(status, "agent"), _list_ready(status, "engine")
    slots, rows = len(agents) * config.actors.episodes_in_flight, len(engines) * config.engine.rows
    step = status.step_metrics
    requests = sum(gauges.get("rows_active", 0) + gauges.get("queue", 0) for gauges in engines)
    return LoadFigures(
        agents=len(agents),
        busy=sum(gauges.get("episodes", 0) for gauges in agents) / slots if slots else 0.0,
        engines=requests / rows if rows else float("inf"),
        starving=1.0 if step is None or step.step_s == 0 else step.wait_s / (step.wait_s + step.step_s),
        backlog=status.backlog / config.learner.batch_sequences,
        starting=_count_coming(status, "agent"),
        live=len(engines),
        coming=_count_coming(status, "engine"),
    )


def _list_ready(status: Status, role: Role) -> list[dict[str, float]]:
    """Return the gauges of the live processes of a role."""
    return [process.gauges for process in status.processes if process.role == role and process.state == "ready"]


def _count_coming(status: Status, role: Role) -> int:
    return sum(process.role == role and process.state in _COMING for process in status.processes)


def decide_agents(now: LoadFigures, more_engines: bool) -> Step:
    """Return 1 to add an agent, -1 to remove one, or 0.

    If `more_engines`, engines may be added when the present ones are full.
    """
    if now.agents == 0 or now.starting or math.isinf(now.engines):
        return 0  # the effect of the last change is not known yet
    more, fewer = (now.agents + 1) / now.agents, now.agents / max(now.agents - 1, 1)
    if now.starves and now.busy >= BUSY and now.engines * more <= ENGINE_FULL:
        return 1
    crowded = now.engines > ENGINE_OVER and not (more_engines and now.starves)
    if now.agents > 1 and (crowded or (now.fed and now.busy * fewer <= SPARE)):
        return -1
    return 0


def decide_engines(now: LoadFigures, more_agents: bool) -> Step:
    """Return 1 to add an engine, -1 to remove one, or 0.

    If `more_agents`, agents may be added to fill engines.
    """
    if now.live == 0 or now.coming:
        return 0  # the effect of the last change is not known yet
    fewer = now.live / max(now.live - 1, 1)
    in_the_way = more_agents and now.agents > 0 and now.engines * (now.agents + 1) / now.agents > ENGINE_FULL
    if now.starves and now.busy >= BUSY and (now.engines >= BUSY or in_the_way):
        return 1
    if now.live > 1 and now.fed and now.engines * fewer <= ENGINE_SPARE:
        return -1
    return 0


class Debouncer:
    """Lets a change pass after `looks` readings of the status in a row have called for it."""

    def __init__(self, looks: int) -> None:
        self._looks = looks
        self._streak = 0

    def look(self, step: Step) -> Step:
        """Return the change to make, 0 for none. `step` is the change that the newest reading calls for."""
        self._streak = self._streak + step if self._streak * step > 0 else step
        if abs(self._streak) < self._looks:
            return 0
        self._streak = 0
        return step


async def autoscale(client: Client, actors: Actors, config: Config) -> None:
    """Keep adapting the numbers that the config gives as ranges, within their bounds, until an order fixes them."""
    asked: dict[Role, tuple[int, int]] = {"engine": config.actors.engines_bounds, "agent": config.actors.agents_bounds}
    bounds = {role: (least, most) for role, (least, most) in asked.items() if least < most}
    patience: dict[Role, Debouncer] = {"engine": Debouncer(ENGINE_LOOKS), "agent": Debouncer(LOOKS)}
    while free := [role for role in bounds if role not in actors.fixed]:
        # While the replay service restarts, it does not answer. Then ask again after LOOK_S.
        with suppress(BusError):
            now = compute_pressure(await ask_status(client), config)
            more = {role: role in free and actors.wanted[role] < bounds[role][1] for role in patience}
            called: dict[Role, Step] = {
                "engine": decide_engines(now, more["agent"]), "agent": decide_agents(now, more["engine"])
            }  # fmt: skip
            for role in free:
                step, wanted = patience[role].look(called[role]), actors.wanted[role]
                low, high = bounds[role]
                if step and low <= wanted + step <= high and role not in actors.fixed:
                    log.info("%d %ss instead of %d: %s", wanted + step, role, wanted, now)
                    actors.scale({role: wanted + step})
        await trio.sleep(LOOK_S)
