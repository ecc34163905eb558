"""Supervise child processes: restart a child that dies, stop all in order, and never leave one behind.

Each child is a process group of its own (Ctrl-C in the terminal reaches the supervisor alone), holds one end of a
socket pair (see `entry`) and appends its output to `LOGS/NAME.log`. A child that dies is restarted, until its budget
of restarts is used up. Then the supervisor stops with the reason, because a run that lacks a role makes no progress.
"""

import logging
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import trio

from spade import config
from spade.errors import RunError, unwrap_errors
from spade.processes.child import AnyLife, End, Life
from spade.processes.entry import FINAL, Launch
from spade.protocol import LifeNumber, Process, ProcessState, Role

# Processes of these roles can finish their work before they leave.
RETIRING: frozenset[Role] = frozenset({"designer", "curator", "agent"})
OPTIONAL: frozenset[Role] = frozenset({"tracker"})  # a run goes on without processes of these roles
RESTART_WINDOW_S = 600.0  # restarts are counted within this time, which equals the default of supervise.ready_s
_FIRST_TRIES = 3  # most starts of a process that was never ready, if supervise.restarts does not allow fewer
_BACKOFF_S = 0.1  # wait before a restart, doubled with each end in the window
_BACKOFF_MAX_S = 5.0

Lives = Callable[[str, Launch, Path, config.Supervise], AnyLife]
"""Makes a new life from its module, orders and log file, on the machine of its role."""

log = logging.getLogger(__name__)


class _Child:
    """One process through all its lives. Its scope is shielded, so only `Supervisor.stop` ends it."""

    def __init__(self, launch: Launch, logfile: Path, vital: bool) -> None:
        self.launch = launch
        self.logfile = logfile
        self.vital = vital
        self.pid = 0
        self.host = ""
        self.life: AnyLife | None = None
        self.state: ProcessState = "starting"
        self.detail = ""
        self.waits_for = ""
        self.restarts = 0
        self.ends: deque[float] = deque()
        self.was_ready = False
        self.settled = trio.Event()  # set when the process is ready for the first time, or done
        self.done = trio.Event()
        self.scope = trio.CancelScope(shield=True)

    def on_start(self, pid: int, host: str) -> None:
        self.pid, self.host = pid, host
        self.state = "starting"

    def on_ready(self) -> None:
        if self.state != "draining":  # a machine of a cluster reports this again after a lost connection
            self.state = "ready"
        self.was_ready = True
        self.settled.set()

    def on_wait(self, what: str) -> None:
        self.waits_for = what
        if self.state != "draining":
            self.state = "waiting"


class Supervisor:
    """The children of one command.

    `number` is the first part of the `LifeNumber` of each process that is started from now on. 0 gives the processes no
    numbers.
    """

    def __init__(
        self, settings: config.Supervise, logs: Path, modules: Mapping[Role, str], lives: Lives = Life
    ) -> None:
        self.number = 0
        self._settings = settings
        self._logs = logs
        logs.mkdir(parents=True, exist_ok=True)
        self._modules = modules
        self._lives = lives
        self._children: dict[str, _Child] = {}
        self._starts: Counter[str] = Counter()  # starts of each process name, also of children that are gone
        self._nursery: trio.Nursery
        self._body = trio.CancelScope()
        self._failure: RunError | None = None
        self._leaving = False

    def processes(self) -> tuple[Process, ...]:
        """Return the children in the order in which they were added, including stopped children.

        `detail` is the reason of the last end. If the child is waiting, `detail` says for what.
        """
        return tuple(
            Process(
                child.launch.name, child.launch.role, child.pid, child.state, child.restarts,
                child.waits_for if child.state == "waiting" else child.detail, host=child.host,
            )
            for child in self._children.values()
        )  # fmt: skip

    async def add(self, launch: Launch, *, vital: bool = True) -> None:
        """Start a process and wait until it is ready. A name that stopped may be added again.

        A vital process stops the supervisor if it does not become ready or dies too often (see `supervise`). A process
        that is not vital stops the supervisor only after it was ready once. A process of a role in OPTIONAL never stops
        it. Raises RunError if the name is taken or the process is stopped meanwhile. Also raises RunError if a process
        that is not vital does not become ready.
        """
        known = self._children.get(launch.name)
        if known is not None and not known.done.is_set():
            raise RunError(f"{launch.name}: runs already")
        child = self._children[launch.name] = _Child(launch, self._logs / f"{launch.name}.log", vital)
        self._nursery.start_soon(self._keep, child)
        await child.settled.wait()
        if not child.was_ready and launch.role not in OPTIONAL:
            why = child.detail if child.state == "failed" else "stopped before it was ready"
            raise RunError(f"{launch.name}: {why}")

    async def stop(self, name: str) -> None:
        """Drain a process: SIGTERM, supervise.drain_s, SIGKILL. Returns when its whole group is gone."""
        child = self._children.get(name)
        if child is None:
            raise RunError(f"no process {name!r} here; there are {', '.join(self._children) or 'none'}")
        child.scope.cancel()
        await child.done.wait()

    async def retire(self, name: str, within_s: float) -> None:
        """Let a process finish its present work for at most `within_s`, then stop it.

        Stops a process immediately if its role is not in RETIRING.
        """
        child = self._children.get(name)
        if child is not None and child.state == "ready" and child.launch.role in RETIRING:
            child.state = "draining"
            if child.life is not None:
                child.life.retire()
            with trio.move_on_after(within_s):
                await child.done.wait()
        await self.stop(name)

    async def _drain(self) -> None:
        """Stop all children, role by role in the reverse order of `modules`, so that clients leave before their
        services."""
        self._leaving = True
        running = [child for child in self._children.values() if not child.done.is_set()]
        for role in reversed(list(self._modules)):
            async with trio.open_nursery() as nursery:
                for child in running:
                    if child.launch.role == role:
                        nursery.start_soon(self.stop, child.launch.name)

    async def _keep(self, child: _Child) -> None:
        """Run one child through all its lives."""
        module = self._modules[child.launch.role]
        try:
            with child.scope:
                while not self._leaving and child.state != "failed":
                    life = child.life = self._lives(
                        module, self._count_life(child.launch), child.logfile, self._settings
                    )
                    try:
                        end = await life.run(child)
                    finally:
                        child.detail = life.left
                    if child.state == "draining":
                        break
                    await trio.sleep(self._handle_end(child, end))
        finally:
            if child.state != "failed":
                child.state = "stopped"
            child.done.set()
            child.settled.set()

    def _count_life(self, launch: Launch) -> Launch:
        """Return `launch` with the number of the next life of its name."""
        self._starts[launch.name] += 1
        life = LifeNumber(self.number, self._starts[launch.name]) if self.number else LifeNumber()
        return msgspec.structs.replace(launch, life=life)

    def _handle_end(self, child: _Child, end: End) -> float:
        """React to an unexpected end. Returns the seconds until a restart, or ends the supervisor."""
        now, settings, name = trio.current_time(), self._settings, child.launch.name
        child.detail = end.why
        child.ends.append(now)
        budget, within = min(settings.restarts, _FIRST_TRIES - 1), ""  # the budget of first starts has no time limit
        if child.was_ready:
            budget, within = settings.restarts, f" within {RESTART_WINDOW_S:g} s"
            while child.ends[0] < now - RESTART_WINDOW_S:
                child.ends.popleft()
        if end.code == FINAL:
            self._fail(child, f"{name}: {end.why}")
        elif len(child.ends) > budget:
            often = f"gave up after {len(child.ends)} ends{within}"
            self._fail(child, f"{name}: {end.why}; {often}. Last lines of {child.logfile}:", end.tail)
        else:
            log.warning("%s: %s; starting it again", name, end.why)
            child.restarts += 1
            child.state = "restarting"
            return min(_BACKOFF_MAX_S, _BACKOFF_S * 2.0 ** (len(child.ends) - 1))
        return 0.0

    def _fail(self, child: _Child, reason: str, tail: str = "") -> None:
        child.state = "failed"
        if child.launch.role in OPTIONAL or not (child.vital or child.was_ready):
            for line in (reason, *tail.splitlines()):
                log.error("%s", line)
            return
        if self._failure is None:
            self._failure = RunError(reason)
            self._failure.add_note(tail)
        self._leaving = True
        self._body.cancel()


@asynccontextmanager
async def supervise(
    settings: config.Supervise, logs: Path, modules: Mapping[Role, str], lives: Lives = Life
) -> AsyncIterator[Supervisor]:
    """Yield a supervisor. After the block, however it ends, all children are drained in order.

    `modules` has the module of each role. A service stands before the roles that it serves. `lives` makes each
    life of a process, on this machine or on another one.

    Raises RunError and cancels the block in three cases: a process dies more than supervise.restarts times within
    RESTART_WINDOW_S, it exits with the code FINAL, or it does not become ready.
    """
    supervisor = Supervisor(settings, logs, modules, lives)
    try:
        async with unwrap_errors(trio.open_nursery()) as supervisor._nursery:
            try:
                with supervisor._body:
                    yield supervisor
            finally:
                with trio.CancelScope(shield=True):
                    await supervisor._drain()
    except Exception as error:
        if supervisor._failure is not None:
            raise supervisor._failure from error
        raise
    if supervisor._failure is not None:
        raise supervisor._failure
