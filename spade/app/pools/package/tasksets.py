"""Programs as tasks of verifiers. A task is an instance of a program, and the program plays the user."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import verifiers.v1 as vf

from actors.text.actions import find_action
from spade.returns import compute_episode_return

from .playing import NAMES, SETTINGS, PackagedProgram, open_program

_T = TypeVar("_T")
_RETURN = "episode_return"


class ProgramData(vf.TaskData):  # type: ignore[misc]
    """An instance of a program."""

    program: str
    """The name of the program."""
    seed: int
    """The seed of the instance."""
    hint: str
    """The program's hint, or "". The model does not see it."""
    lineage: dict[str, Any]
    """The run, environment and policy that the program comes from."""


class ProgramTask(vf.Task[ProgramData]):  # type: ignore[misc]
    """An instance to be played."""

    async def validate(self, runtime: vf.Runtime) -> bool:
        """Return True if two resets of the instance give the same first observation."""
        program = open_program(self.data.program)
        try:
            first = await _call(program.reset, self.data.seed)
            return await _call(program.reset, self.data.seed) == first
        finally:
            await _call(program.close)

    @vf.reward  # type: ignore[untyped-decorator]
    async def episode_return(self, trace: vf.Trace) -> float:
        """Return the last reward, in [-1, 1], if the program ended the episode, else 0. A return of 1 is a win."""
        return float(trace.info.get(_RETURN, 0.0))


class ProgramsConfig(vf.TasksetConfig):  # type: ignore[misc]
    """The instances to play."""

    instances: int = 8
    """Number of instances of each program."""
    seed: int = 0
    """The seed of the first instance. The next instances have the next seeds."""


class ProgramTaskset(vf.Taskset[ProgramTask, ProgramsConfig]):  # type: ignore[misc]
    """The tasks: the first instance of each program, then the second instance of each, and so on."""

    def load(self) -> Iterator[ProgramTask]:
        """Yield the tasks. No program runs before its task is played."""
        programs = {name: open_program(name) for name in NAMES}
        for seed in range(self.config.seed, self.config.seed + self.config.instances):
            for name, program in programs.items():
                rules = [each["content"] for each in _find_opening(program) if each["role"] == "system"]
                data = ProgramData(
                    name=f"{name}#{seed}",
                    system_prompt="\n\n".join(rules) or None,
                    program=name,
                    seed=seed,
                    hint=program.hint,
                    lineage=program.lineage,
                )
                yield ProgramTask(data, self.config.task)


class TaskEnvConfig(vf.EnvConfig):  # type: ignore[misc]
    """Runs the harness `null`, which only exchanges messages, so it may run on this machine without a container."""

    agent: vf.AgentConfig = vf.AgentConfig(harness={"id": "null"}, runtime=vf.SubprocessConfig())


class TaskEnv(vf.Env[TaskEnvConfig]):  # type: ignore[misc]
    """Plays a task. Each observation is a message of the user. The last LaTeX box of an answer is the action."""

    async def run(self, task: ProgramTask, agents: vf.Agents) -> None:
        """Play to the end. Raises RuntimeError if the program fails."""
        program = open_program(task.data.program)
        rewards, terminated = [], False
        try:
            messages = _open(program, await _call(program.reset, task.data.seed))
            async with agents.agent.interaction(task) as interaction:
                while not (segment := await interaction.turn(messages)).terminated:
                    played = await _call(program.step, find_action(segment.last_reply))
                    rewards.append(played.reward)
                    terminated = played.terminated
                    if terminated or played.truncated:
                        break
                    messages = [vf.UserMessage(content=played.observation)]
                interaction.trace.info[_RETURN] = compute_episode_return(rewards, terminated)
        finally:
            await _call(program.close)


def _find_opening(program: PackagedProgram) -> list[dict[str, str]]:
    opening: list[dict[str, str]] = SETTINGS["openings"][program.lineage["single_turn"]]
    return opening


def _open(program: PackagedProgram, observation: str) -> list[Any]:
    """Return the messages before the model's first turn, without the system messages, which the task already has."""
    *shown, asked = [each for each in _find_opening(program) if each["role"] != "system"]
    kinds = {"user": vf.UserMessage, "assistant": vf.AssistantMessage}
    last = vf.UserMessage(content=asked["content"].replace(SETTINGS["slot"], observation))
    return [*(kinds[each["role"]](content=each["content"]) for each in shown), last]


async def _call(function: Callable[..., _T], *arguments: object) -> _T:
    """Call a sandboxed program in a thread. Call a bare one here, because bare programs share global states."""
    if SETTINGS["runner"] == "bare":
        return function(*arguments)
    return await asyncio.to_thread(function, *arguments)
