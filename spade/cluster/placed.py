"""A process on another machine, as its supervisor sees it: the supervisor's side of a post (`spade.cluster.post`)."""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import trio

from spade.cluster.needs import Machine, MachineShare
from spade.cluster.post import PostReport, PostSetup, pack
from spade.disk import open_to_append
from spade.errors import ConfigError, SpadeError, unwrap_errors
from spade.processes.child import End, LifeWatcher
from spade.processes.entry import FINAL

LOOK_S = 2.0  # seconds between two reports that a post still waits for a place
AWAY_S = 90.0  # a lost machine is not used for this time; Ray itself may take 65 s to notice the loss
AGAIN_S = 1.0  # seconds between two calls to a post that cannot be reached
LATE_S = 0.5  # if a deadline fires this late, the supervisor itself was suspended
LAST_S = 2.0  # seconds that a suspended supervisor then waits for an answer of the post
_GONE = -9  # exit code that stands for an end that nobody saw

log = logging.getLogger(__name__)


class PostGoneError(SpadeError):
    """A post cannot be reached. Its process may still run until the post misses its heartbeat (`post.py`).

    `known` is True if the cluster says that the post has ended. The cluster then also knows whether the machine is
    lost, and starts nothing on a lost machine.
    """

    def __init__(self, reason: str, *, known: bool = False) -> None:
        super().__init__(reason)
        self.known = known


class PostMachine(NamedTuple):
    """The machine of a post."""

    host: str
    """Address of the machine."""

    node: str
    """Name of the machine in the cluster."""

    now: float
    """Time on the post's clock, in seconds."""


class RemotePost(Protocol):
    """A post that runs on another machine, or that waits until the cluster has chosen a machine (its place)."""

    async def call(self, method: str, *values: Any) -> Any:
        """Call a method of `Post`. The call of `where` returns once the post has a place.

        Raises PostGoneError.
        """

    def dismiss(self) -> None:
        """Give up the post and its place."""


class Cluster(Protocol):
    """The machines on which posts can run."""

    def post(self, needs: MachineShare, away: Collection[str]) -> RemotePost:
        """Ask for a post on a machine that fits `needs` and is not in `away`.

        Raises ConfigError if no machine of a cluster could ever fit.
        """


class JoinedCluster(Cluster, Protocol):
    """A cluster that this machine has joined."""

    host: str
    """Address of this machine in the cluster."""

    def gpus(self) -> list[int]:
        """Return the GPUs of each machine that is up."""

    def ask_each(
        self, function: Callable[..., Any], values: Sequence[Any], deadline_s: float
    ) -> Iterator[tuple[Machine, float, float, Any]]:
        """Call a function on each machine, with the number of its GPUs and `values`.

        Yields each answer as it comes: the machine, the Unix times of question and answer in seconds, and the result.
        If the call failed, a text with the reason takes the place of the result.
        """


class LostMachines:
    """Machines that did not answer within the last AWAY_S seconds."""

    def __init__(self) -> None:
        self._at: dict[str, tuple[float, str]] = {}  # by lost machine: the time of the loss, and its address

    def add(self, where: PostMachine) -> None:
        """Record that a machine does not answer."""
        self._at[where.node] = trio.current_time(), where.host

    def away(self) -> Mapping[str, str]:
        """Return the machines to avoid now: name in the cluster → address."""
        now = trio.current_time()
        return {node: host for node, (at, host) in self._at.items() if now - at < AWAY_S}


class PlacedLife:
    """One life of a process on a machine of the cluster (see `AnyLife`).

    The life is over when the post reports the end, or when the post did not answer for `unheard_s` = bus.silence_s +
    supervise.drain_s. A post that does not hear its supervisor drains its process after bus.silence_s, and the drain
    takes at most supervise.drain_s. So two processes of one name never run at the same time.

    `lost` is shared by all lives of this supervisor. Each life adds a machine that did not answer.
    """

    def __init__(
        self,
        cluster: Cluster,
        setup: PostSetup,
        needs: MachineShare,
        logfile: Path,
        unheard_s: float,
        lost: LostMachines,
    ) -> None:
        self._cluster, self._lost = cluster, lost
        self._setup, self._needs = setup, needs
        self._logfile, self._unheard_s = logfile, unheard_s
        self._offset = 0
        self._until = 0.0
        self._where = PostMachine("", "", 0.0)
        self._retiring = False
        self._reported = (0, False)  # the pid, and True once it is ready
        self._dead = False  # True if the cluster says that the post has ended
        self.left = "left before it was started"

    def retire(self) -> None:
        """See `AnyLife`."""
        self._retiring = True  # `_follow` tells the post before it asks for the next report

    async def run(self, watcher: LifeWatcher) -> End:
        """See `AnyLife`. Raises OSError if the log cannot be written."""
        open_to_append(self._logfile).close()
        post: RemotePost | None = None
        end: End | None = None
        try:
            post = await self._place(watcher)
            setup = pack(self._setup)
            await self._ask(post, watcher, "begin", setup, self._where.host, self._where.now)
            end = await self._follow(post, watcher)
        except PostGoneError as error:
            end = End(_GONE, str(error), "")
        except ConfigError as error:
            end = End(FINAL, str(error), "")
        finally:
            if post is not None:
                if end is None:
                    with trio.CancelScope(shield=True):
                        await self._drain(post, watcher)
                post.dismiss()
        return end

    async def _place(self, watcher: LifeWatcher) -> RemotePost:
        """Return a post that has a place. Raises PostGoneError."""
        while True:
            away = self._lost.away()
            post = self._cluster.post(self._needs, away)
            try:
                if await self._placed(post, away, watcher):
                    return post
            except BaseException:
                post.dismiss()
                raise
            post.dismiss()

    async def _placed(self, post: RemotePost, away: Mapping[str, str], watcher: LifeWatcher) -> bool:
        """Wait until the post has a place.

        Returns False if the machine is lost meanwhile, or if the machines to avoid have changed.
        """
        answer: PostMachine | None = None
        async with unwrap_errors(trio.open_nursery()) as nursery:
            nursery.start_soon(self._look, away, watcher, nursery.cancel_scope)
            answer = await post.call("where")
        if answer is None or answer.node in self._lost.away():  # the machine may have been lost since `_look` ran
            return False
        self._where = answer
        self._record_heard()
        return True

    async def _look(self, away: Mapping[str, str], watcher: LifeWatcher, placing: trio.CancelScope) -> None:
        lost = f" (not of {', '.join(sorted(away.values()))}, which did not answer)" if away else ""
        while self._lost.away() == away:
            await trio.sleep(LOOK_S)
            watcher.on_wait(f"{self._needs}{lost}")
        placing.cancel()

    async def _follow(self, post: RemotePost, watcher: LifeWatcher) -> End:
        """Report the life to `watcher` and fetch its log, until it ends. Raises PostGoneError if the post is given
        up."""
        passed_on = False
        now = self._where.now
        while True:
            if self._retiring and not passed_on:
                passed_on = True
                await self._ask(post, watcher, "retire")
            report: PostReport = await self._ask(post, watcher, "report", now, self._offset)
            now = report.now
            self._keep(report.output)
            if report.pid and report.pid != self._reported[0]:
                watcher.on_start(report.pid, self._where.host)
            if report.ready and not self._reported[1]:
                watcher.on_ready()
            self._reported = (report.pid, report.ready)
            if report.end is not None:
                code, why, tail = report.end
                self.left = report.left
                return End(code, f"{why} (on {self._where.host})" if why else why, tail)

    async def _drain(self, post: RemotePost, watcher: LifeWatcher) -> None:
        try:
            await self._ask(post, watcher, "stop")
            await self._follow(post, watcher)
        except PostGoneError as error:
            self.left = str(error)

    async def _ask(self, post: RemotePost, watcher: LifeWatcher, method: str, *values: Any) -> Any:
        """Call a post that has a place.

        Raises PostGoneError if it does not answer until the time when its process must have ended.
        """
        with trio.move_on_at(self._until):
            return await self._answer(post, watcher, method, *values)
        if trio.current_time() > self._until + LATE_S:  # this process was suspended, so an answer may be waiting
            with trio.move_on_after(LAST_S):
                return await self._answer(post, watcher, method, *values)
        if self._dead:
            raise PostGoneError(f"its post has died (on {self._where.host})")
        self._lost.add(self._where)
        raise PostGoneError(f"{self._where.host} did not answer for {self._unheard_s:g} s")

    async def _answer(self, post: RemotePost, watcher: LifeWatcher, method: str, *values: Any) -> Any:
        """Call the post again and again until it answers."""
        unheard = ""
        while True:
            try:
                answer = await post.call(method, *values)
            except PostGoneError as error:
                # A post that cannot be reached may be alive: a closed connection does not show that a process ended.
                if str(error) != unheard:
                    unheard = str(error)
                    log.warning("%s on %s: %s", self._setup.launch.name, self._where.host, error)
                self._dead = error.known
                self._reported = (0, False)  # report the state again if the process lives on
                watcher.on_wait(f"the end of its life on {self._where.host}, which does not answer")
                await trio.sleep(AGAIN_S)
            else:
                self._record_heard()
                return answer

    def _record_heard(self) -> None:
        self._until = trio.current_time() + self._unheard_s

    def _keep(self, output: bytes) -> None:
        """Append to the log on this machine, so that all logs of a run are in one folder."""
        self._offset += len(output)
        try:
            with open_to_append(self._logfile) as file:
                file.write(output)
        except OSError as error:
            log.warning("%s: lines are lost (%s)", self._logfile, error.strerror)
