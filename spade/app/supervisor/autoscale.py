"""The number of agents of a run: more while the learner starves and all are busy, fewer while some are spare.

Decisions are pure; the shell reads the status. The number settles: a change is judged by its expected effect and needs
`LOOKS` looks in a row, and growing and shrinking have different thresholds.
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
LOOKS = 5
STARVING = 0.2  # the learner starves from this share of its time waiting
FED = 0.05  # and does not starve up to this one
BUSY = 0.9  # agents are busy from this share of their slots in use
SPARE = 0.7  # an agent is spare if the others would use at most this share of their slots
ENGINE_FULL = 1.25  # most requests for each engine row after an agent is added
ENGINE_OVER = 1.75  # from here on agents only wait for each other
_COMING = ("waiting", "starting", "restarting")

Step = Literal[-1, 0, 1]

log = logging.getLogger(__name__)


class Pressure(msgspec.Struct, frozen=True):
    """The figures of a run that call for a change.

    agents   live agents of the run
    busy     episodes in hand for each slot of theirs
    engines  requests being sampled or waiting for each row of the live engines; infinite without any
    starving share of its time the learner waited for its last batch; 1 before the first
    backlog  batches that wait to be trained
    starting agents that are not ready yet
    """

    agents: int
    busy: float
    engines: float
    starving: float
    backlog: float
    starting: int = 0


def pressure(status: Status, config: Config) -> Pressure:
    """The pressure that a status shows."""
    agents, engines = _ready(status, "agent"), _ready(status, "engine")
    slots, rows = len(agents) * config.actors.episodes_in_flight, len(engines) * config.engine.rows
    step = status.step_metrics
    requests = sum(gauges.get("rows_active", 0) + gauges.get("queue", 0) for gauges in engines)
    return Pressure(
        agents=len(agents),
        busy=sum(gauges.get("episodes", 0) for gauges in agents) / slots if slots else 0.0,
        engines=requests / rows if rows else float("inf"),
        starving=1.0 if step is None or step.step_s == 0 else step.wait_s / (step.wait_s + step.step_s),
        backlog=status.backlog / config.learner.batch_sequences,
        starting=sum(each.role == "agent" and each.state in _COMING for each in status.processes),
    )


def _ready(status: Status, role: Role) -> list[dict[str, float]]:
    """The gauges of the live processes of a role."""
    return [process.gauges for process in status.processes if process.role == role and process.state == "ready"]


def called_for(now: Pressure) -> Step:
    """One agent more, one fewer, or none."""
    if now.agents == 0 or now.starting or math.isinf(now.engines):
        return 0  # the effect of the present number is not known yet
    more, fewer = (now.agents + 1) / now.agents, now.agents / max(now.agents - 1, 1)
    starves, fed = now.starving >= STARVING and now.backlog < 1, now.starving <= FED or now.backlog >= 1
    if starves and now.busy >= BUSY and now.engines * more <= ENGINE_FULL:
        return 1
    if now.agents > 1 and (now.engines > ENGINE_OVER or (fed and now.busy * fewer <= SPARE)):
        return -1
    return 0


class Patience:
    """Lets through a change that was called for `LOOKS` times in a row."""

    def __init__(self) -> None:
        self._streak = 0

    def look(self, step: Step) -> Step:
        """The step to take after one more look."""
        self._streak = self._streak + step if self._streak * step > 0 else step
        if abs(self._streak) < LOOKS:
            return 0
        self._streak = 0
        return step


async def autoscale(client: Client, actors: Actors, config: Config) -> None:
    """Keep changing the number of agents within its bounds, until an order fixes it."""
    low, high, patience = config.actors.agents_min, config.actors.agents_max, Patience()
    while not actors.fixed:
        # A replay service that restarts is asked again.
        with suppress(BusError):
            now = pressure(await ask_status(client), config)
            step, wanted = patience.look(called_for(now)), actors.wanted["agent"]
            if step and low <= wanted + step <= high and not actors.fixed:
                log.info("%d agents instead of %d: %s", wanted + step, wanted, now)
                actors.scale({"agent": wanted + step})
        await trio.sleep(LOOK_S)
