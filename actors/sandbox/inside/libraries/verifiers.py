"""verifiers: tasks of an installed taskset, each played by the taskset's own environment.

A program has the tasks in its text, because a taskset may read files and the network to load them.
"""

import asyncio
import copy
import inspect
import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib import metadata
from types import SimpleNamespace
from typing import Any, Literal, get_args

os.environ.setdefault("HOME", "/")  # the library reads it when it is imported, but a sandboxed process has none

import verifiers.v1 as vf
from verifiers.v1.configs.agent import agent_config_fields
from verifiers.v1.graph import MessageNode
from verifiers.v1.state import state_cls
from verifiers.v1.types import content_text
from verifiers.v1.utils.decorators import invoke

from .one_answer import WINS, clip_score

MOST_TASKS, TASKS_BYTES = 200, 1 << 18
"""The largest number of tasks of a program, and the largest size of its tasks as JSON."""

ENVIRONMENTS: dict[str, Any] = {}
"""The environments that the zygote has loaded, by taskset and parameters. A child opens no file to load them."""


class VerifiersEnv:
    r"""A taskset's environment. The seed chooses the task. A reward of at least 1 wins.

    Only the last step pays. If `boxed`, an answer without `\boxed` is put in a box.
    """

    taskset = ""
    parameters: dict[str, Any] = {}  # noqa: RUF012 (programs replace this value and never mutate it)
    tasks: Sequence[dict[str, Any]] = ()
    boxed = True
    pays: Literal["win", "score"] = "win"
    """"win" pays 1 for a win and 0 otherwise; "score" pays the reward."""

    def reset(self, seed: int) -> tuple[str, dict[str, object]]:
        """Begin a task and return its first message."""
        name = make_key(self.taskset, self.parameters)
        if name not in ENVIRONMENTS:
            raise ValueError(f"verifiers has no taskset {self.taskset!r} with these parameters here")
        env = ENVIRONMENTS[name]
        kind = type(env.taskset).task_type()
        data = kind.data_type().model_validate(self.tasks[seed % len(self.tasks)])
        self._loop = InertEventLoop()
        self._player = PlayerAgent(self._loop)
        self._play = self._loop.create_task(play_task(env, kind(data, env.taskset.config.task), self._player))
        return self._wait() or "", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, object]]:
        """Send an answer of the model. Return the next message, or the reward if the play is over."""
        boxed = self.boxed and r"\boxed" not in action
        self._player.said.set_result(rf"\boxed{{{action.strip()}}}" if boxed else action)
        if (message := self._wait()) is not None:
            return message, 0.0, False, False, {}
        reward = self._play.result()
        paid = clip_score(reward) if self.pays == "score" else float(reward >= WINS)
        return f"It is over. The reward is {reward:g}.", paid, True, False, {}

    def _wait(self) -> str | None:
        """Return the next message to the model, or None if the play is over. Raises the error of a failed play."""
        asked = self._player.asked = self._loop.create_future()
        self._loop.run_until_complete(asyncio.wait({asked, self._play}, return_when=asyncio.FIRST_COMPLETED))
        if not asked.done():
            self._play.result()
            return None
        return str(asked.result())


class InertEventLoop(asyncio.BaseEventLoop):
    """An event loop without files and threads, which a child cannot have. It is its own selector."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = self

    def select(self, timeout: float | None) -> tuple[()]:
        """Wait for the next timer. Raises RuntimeError without one, since nothing else can ever happen."""
        if timeout is None:
            raise RuntimeError("the environment waits for a file, a process or the network")
        time.sleep(timeout)
        return ()

    def _process_events(self, events: object) -> None: ...

    def _write_to_self(self) -> None: ...


class PlayerAgent:
    """The one agent of an environment. The player reads each message to this agent, and the player's action is the
    agent's answer."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.asked: asyncio.Future[str] = loop.create_future()
        self.said: asyncio.Future[str] = loop.create_future()
        self.traces: list[Any] = []

    async def ask(self, message: str) -> str:
        """Return the answer to a message."""
        self.said = self._loop.create_future()
        self.asked.set_result(message)
        return await self.said

    def interaction(self, task: Any) -> "Exchange":
        """Begin an exchange about a task."""
        return Exchange(self, task)

    async def run(self, task: Any) -> Any:
        """Answer a task once."""
        async with self.interaction(task) as exchange:
            await exchange.turn()
        return exchange.trace


class Exchange:
    """The part of the library's `Interaction` that environments use. Leaving it scores the task."""

    def __init__(self, player: PlayerAgent, task: Any) -> None:
        self._player, self._task = player, task
        self.trace = vf.Trace(
            task=describe(task),
            state=state_cls(type(task))(),
            agent=vf.AgentInfo(config=vf.AgentConfig(), name="agent", trainable=True),
        )
        player.traces.append(self.trace)

    async def __aenter__(self) -> "Exchange":
        if "runtime" not in inspect.signature(self._task.setup).parameters:
            await invoke(self._task.setup, {"trace": self.trace})
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        if kind is None:
            if "runtime" not in inspect.signature(self._task.finalize).parameters:
                await invoke(self._task.finalize, {"trace": self.trace})
            await self._task.score(self.trace, None)

    async def turn(self, message: Any = None) -> vf.Segment:
        """Send a message and return the answer. Without a message, send the task's own prompt."""
        shown = list(self._open()) if not self.trace.nodes else []
        told = message if message is not None else self._task.data.prompt
        shown += [vf.UserMessage(content=told)] if isinstance(told, str) else told
        for each in shown:
            self._note(each)
        text = "\n\n".join(content_text(each.content) for each in shown)
        answer = vf.AssistantMessage(content=await self._player.ask(text))
        self._note(answer, sampled=True)
        return vf.Segment(messages=[answer])

    def _open(self) -> Iterator[Any]:
        if self._task.data.system_prompt is not None:
            yield vf.SystemMessage(content=self._task.data.system_prompt)

    def _note(self, message: Any, sampled: bool = False) -> None:
        nodes = self.trace.nodes
        nodes.append(MessageNode(parent=len(nodes) - 1 if nodes else None, message=message, sampled=sampled))


async def play_task(env: Any, task: Any, player: PlayerAgent) -> float:
    """Play a task and return its reward."""
    [seat] = agent_config_fields(env.config)
    await env.run(task, SimpleNamespace(**{seat: player}))
    episode = vf.Episode(env=vf.EnvInfo(id=env.config.env_id), task=describe(task))
    episode.traces.extend(player.traces)
    await env.finalize(task, episode)
    return float(player.traces[0].reward)


def describe(task: Any) -> Any:
    """Return the library's description of a task, for traces and episodes."""
    return vf.TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash)


# ---------------------------------------------------------------- tasksets


def make_key(taskset: str, parameters: dict[str, Any]) -> str:
    """Return the key of an environment in ENVIRONMENTS."""
    return json.dumps([taskset, parameters], sort_keys=True)


def find_tasksets() -> dict[str, tuple[str, dict[str, Any]]]:
    """Return the ids and parameters of tasksets: the library's textarena, and distributions that need verifiers."""
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    with suppress(ImportError):
        config = vf.taskset_config_type("textarena")
        for game in get_args(config.model_fields["game"].annotation):
            found[f"textarena-{game}"] = "textarena", {"game": game}
    for distribution in metadata.distributions():
        needs = [need.replace(" ", "") for need in distribution.requires or () if "extra" not in need]
        if any(need.startswith("verifiers") and not need[9:10].isalnum() for need in needs):
            found[distribution.name] = distribution.name, {}
    return found


def load_environment(taskset: str, parameters: dict[str, Any]) -> Any:
    """Load a taskset with its environment."""
    return vf.load_environment(vf.resolve_env_config({"taskset": {"id": taskset, **parameters}}))


def find_obstacle(env: Any) -> str:
    """Return the reason why an environment cannot be played without files, network and other models; "" if it can."""
    kind = type(env.taskset).task_type()
    task = env.taskset.config.task
    in_runtime = [fn for name in ("setup", "finalize") if (fn := getattr(kind, name)) is not getattr(vf.Task, name)] + [
        fn for fn in vars(kind).values() if getattr(fn, "reward", False) or getattr(fn, "metric", False)
    ]
    if len(agent_config_fields(env.config)) != 1:
        return "several models meet in it"
    if kind.NEEDS_CONTAINER:
        return "its tasks need a container"
    if kind.toolsets(task) or env.taskset.toolsets(env.taskset.config):
        return "its tasks have tools"
    if task.judges:
        return "a model judges its tasks"
    if any("runtime" in inspect.signature(fn).parameters for fn in in_runtime):
        return "its tasks work in a runtime"
    return ""


def programs() -> dict[str, dict[str, Any]]:
    """Return the program attributes of each taskset, without its tasks. `refused` says why it cannot be played."""
    found: dict[str, dict[str, Any]] = {}
    for name, (taskset, parameters) in find_tasksets().items():
        try:
            why = find_obstacle(load_environment(taskset, parameters))
        except (Exception, SystemExit) as error:
            why = f"it does not load ({error})"
        found[name] = {"refused": why} if why else {"taskset": taskset, "parameters": parameters}
    return found


def read_tasks(taskset: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
    """Load the first tasks of a taskset, as many as a program may have."""
    tasks: list[dict[str, Any]] = []
    size = 0
    for task in load_environment(taskset, parameters).taskset:
        data = task.data.model_dump(mode="json", exclude_defaults=True)
        size += len(json.dumps(data))
        if len(tasks) == MOST_TASKS or size > TASKS_BYTES:
            break
        tasks.append(data)
    return tasks


def keep_games() -> None:
    """Make each game of textarena once, since it reads NLTK's word lists. A child copies a game."""
    import nltk
    import textarena

    games = {}
    nltk.download = lambda *_, **__: True
    for taskset, parameters in find_tasksets().values():
        if taskset == "textarena":
            with suppress(LookupError):
                games[parameters["game"]] = textarena.make(env_id=parameters["game"])

    def copy_game(env_id: str) -> Any:
        if env_id not in games:
            raise LookupError(f"{env_id} needs NLTK's word lists in nltk_data below the interpreter's prefix")
        return copy.deepcopy(games[env_id])

    textarena.make = copy_game


def warm() -> None:
    """Load the environment of each taskset, and each game."""
    for taskset, parameters in find_tasksets().values():
        with suppress(Exception, SystemExit):
            ENVIRONMENTS[make_key(taskset, parameters)] = load_environment(taskset, parameters)
    with suppress(ImportError):
        keep_games()
