"""Start posts (`spade.cluster.post`) on a Ray cluster. Ray only chooses the machine of each post.

Only this module imports ray. Other modules import this module only for `--cluster ray`.
"""

import logging
import socket
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from time import monotonic, time
from typing import Any

import ray
import trio
from ray._private import services, worker
from ray.exceptions import ActorDiedError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from spade.cluster.needs import Machine, MachineShare
from spade.cluster.placed import PostGoneError, PostMachine
from spade.cluster.post import Post
from spade.errors import ConfigError, RunError

_CONNECT_S = 5.0
_CALLS = 8  # simultaneous calls to a post, each in a thread of its own
_NODE = "ray.io/node-id"
_LONGEST = 300  # most characters that we quote of a Ray error. Some Ray errors fill a page

log = logging.getLogger(__name__)


# Do not add an `async def` method. A single one would make the actor's other methods wait for each other.
class PostActor(Post):
    """A post that runs as an actor of Ray."""

    def where(self) -> PostMachine:
        """Return the machine that Ray has chosen."""
        return PostMachine(ray.util.get_node_ip_address(), ray.get_runtime_context().get_node_id(), monotonic())


class _RayPost:
    """See `RemotePost`."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    async def call(self, method: str, *values: Any) -> Any:
        """See `RemotePost`."""
        try:
            return await _answer(getattr(self._actor, method).remote(*values))
        except RayTaskError:
            raise  # a bug of the method
        except RayError as error:
            raise PostGoneError(_format_reason(error), known=isinstance(error, ActorDiedError)) from None

    def dismiss(self) -> None:
        """See `RemotePost`."""
        ray.kill(self._actor)


class RayCluster:
    """See `JoinedCluster`."""

    def __init__(self) -> None:
        self.host: str = ray.util.get_node_ip_address()

    def post(self, needs: MachineShare, away: Collection[str]) -> _RayPost:
        """See `Cluster`."""
        # Ray must not restart posts: the supervisor does, within its budget of restarts, and reports the reasons.
        options: dict[str, Any] = {"max_restarts": 0, "max_concurrency": _CALLS}
        options["scheduling_strategy"] = "DEFAULT" if needs.together else "SPREAD"  # "DEFAULT" fills a machine first
        options |= {"num_cpus": needs.cpus, "num_gpus": needs.gpus, "resources": dict(needs.resources)}
        if needs.memory:
            options["memory"] = needs.memory
        if away:
            options["label_selector"] = {_NODE: f"!in({','.join(sorted(away))})"}
        try:
            return _RayPost(ray.remote(PostActor).options(**options).remote())
        except ValueError as error:
            raise ConfigError(f"[place]: Ray cannot place {needs} ({' '.join(str(error).split())})") from None

    def gpus(self) -> list[int]:
        """See `JoinedCluster`."""
        return [machine.gpus for machine in self.machines()]

    def machines(self) -> list[Machine]:
        """Return the machines that are up."""
        return [
            Machine(node["NodeManagerAddress"], node["NodeID"], node["Resources"])
            for node in ray.nodes()
            if node["Alive"]
        ]

    def ask_each(
        self, function: Callable[..., Any], values: Sequence[Any], deadline_s: float
    ) -> Iterator[tuple[Machine, float, float, Any]]:
        """See `JoinedCluster`."""
        sent, waiting = time(), {}
        for machine in self.machines():
            there = NodeAffinitySchedulingStrategy(machine.node, soft=False)
            task = ray.remote(function).options(num_cpus=0, max_retries=0, scheduling_strategy=there)
            waiting[task.remote(machine.gpus, *values)] = machine
        while waiting:
            done, _ = ray.wait(list(waiting), timeout=max(0.0, sent + deadline_s - time()))
            arrived = time()
            for ref in done:
                try:
                    answer = ray.get(ref)
                except RayError as error:
                    cause = error.cause if isinstance(error, RayTaskError) else error
                    answer = " ".join(f"{type(cause).__name__}: {cause}".split())[:_LONGEST]
                yield waiting.pop(ref), sent, arrived, answer
            if not done:
                for ref, machine in waiting.items():
                    ray.cancel(ref, force=True)
                    yield machine, sent, arrived, f"no answer within {deadline_s:g} s"
                return


@contextmanager
def join_ray() -> Iterator[RayCluster]:
    """Join the Ray cluster of this machine, or the one in RAY_ADDRESS. Raises RunError if it cannot be reached."""
    # Ray prints events of its machines, which would break the layout of the live view.
    worker.print_to_stdstream = _log
    logging.getLogger("ray").setLevel(logging.ERROR)
    try:
        ray.init(address=_find_address(), log_to_driver=False, configure_logging=False)
    except (OSError, RuntimeError, ValueError, RayError) as error:
        reason = " ".join(str(error).strip().rpartition("\n")[2].split())[:_LONGEST]  # the last line of a traceback
        raise RunError(
            f"no Ray cluster can be reached from here ({reason}); `ray start --head` starts one; if the cluster uses a "
            "token, set RAY_AUTH_MODE and RAY_AUTH_TOKEN_PATH here, too"
        ) from None
    try:
        yield RayCluster()
    finally:
        ray.shutdown()


def _find_address() -> str:
    """Return the address of the cluster's head, after checking that it listens. Ray itself would wait for minutes.

    Raises OSError, ValueError.
    """
    # Ray takes RAY_ADDRESS or, if it is not set, the cluster of this machine.
    address = services.canonicalize_bootstrap_address("auto")
    if address is None:
        raise ValueError("RAY_ADDRESS=local names no cluster")
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), _CONNECT_S).close()
    except OSError as error:
        raise ConnectionError(f"{address}: {error.strerror or error}") from None
    return str(address)


def _format_reason(error: RayError) -> str:
    """Return a Ray error in one line, without the ids at its beginning."""
    text = str(error).strip()
    if getattr(error, "actor_init_failed", False):  # for example, spade is not installed on the machine
        return f"its post could not start ({text.splitlines()[-1].strip()[:_LONGEST]})"
    text, because, why = " ".join(text.split()).partition("The actor is dead because ")
    return (why if because else text)[:_LONGEST]


def _log(data: dict[str, Any], ignore_prefix: bool) -> None:
    for line in data["lines"]:
        log.info("%s", line)


async def _answer(ref: Any) -> Any:
    """Wait for the result of a call that Ray has sent."""
    token, done = trio.lowlevel.current_trio_token(), trio.Event()

    def wake(_: Any) -> None:
        with suppress(trio.RunFinishedError):
            token.run_sync_soon(done.set)

    future = ref.future()
    future.add_done_callback(wake)
    await done.wait()
    return future.result()
