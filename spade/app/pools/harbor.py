"""Write programs of a run as Harbor tasks. Each task is a game in a container. An agent plays it by a command."""

import shlex
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from shutil import copyfile
from typing import Any, NamedTuple

import msgspec
import tomli_w
import trio
from msgspec.structs import replace

from actors.environments.admission import derive_check_seed
from actors.environments.forms import FormProbing
from actors.environments.trials import RejectedError
from actors.sandbox import open_sandbox
from spade.app.pools.cards import render
from spade.app.pools.packages import list_external, list_used_packages, write_license, write_player
from spade.codec import compute_program_digest
from spade.config import Config
from spade.disk import write_whole
from spade.errors import RunError
from spade.pools import PoolProgram
from spade.progress import follow
from spade.returns import TOLERANCE
from spade.seeds import INSTANCE_MASK

_MODULES = Path(__file__).with_name("package")
_ARGUMENT_BYTES = 128 << 10
"""Linux refuses a command-line argument of this length."""
ACTIONS = "/var/game/actions.json"
"""The file of the player's actions, in the container of the player and in the verifier's (`package/episode.py`)."""


class SolvedGame(NamedTuple):
    """A program, and an instance that its solution wins."""

    program: PoolProgram
    """The program."""
    seed: int
    """The seed of the instance."""
    observation: str
    """The first observation."""
    actions: list[str]
    """The actions that win."""


class WrittenTasks(NamedTuple):
    """The outcome of an export."""

    tasks: int
    """Number of tasks."""
    unsolved: int
    """Number of programs without a solution that wins. They are left out."""


def write_tasks(folder: Path, programs: Iterator[PoolProgram], config: Config, run: str) -> WrittenTasks:
    """Play the solution that each program lists. Write a Harbor task for each program that its solution wins.

    Raises RunError if the folder exists, the programs cannot be run in a container, or no solution wins.
    """
    if config.run.domain != "games":
        raise RunError(f"--format harbor: exports games, and the domain of {run} is {config.run.domain}")
    if external := list_external(config):
        raise RunError(f"--format harbor: the programs of {run} need the sandbox for {', '.join(external)}")
    listed = list(programs)
    with write_whole(folder) as part:
        solved = trio.run(_solve_all, listed, config)
        if not solved:
            raise RunError(f"--format harbor: no program of {run} lists a solution that wins")
        for game in solved:
            _write_task(part / game.program.name, game, config, run)
        card = render("harbor/tasks.md", config, run=run, count=len(solved))
        (part / "README.md").write_text(card, encoding="utf-8")
        write_license(part)
    return WrittenTasks(len(solved), len(listed) - len(solved))


async def _solve_all(programs: list[PoolProgram], config: Config) -> list[SolvedGame]:
    """Win each program with its solution. Leaves out the programs where this fails."""
    solved = []
    async with open_sandbox(config.sandbox) as sandbox:
        for program in follow(programs, "winning programs"):
            seed = derive_check_seed(program.source)
            probing = FormProbing(sandbox, program.source, seed, config.sandbox, config.play)
            probing.reads = program.lineage.reads if program.lineage else "inside"
            instance = seed & INSTANCE_MASK
            try:
                actions = await probing.solved(instance)
                won = actions is not None and await probing.wins(instance, actions)
            except RejectedError:
                continue
            if actions is not None and won and all(map(_fits_command, actions)):
                play = probing.transcripts[-1]
                first = play.answers[0].observation
                solved.append(SolvedGame(program, instance, first, actions[: len(play.actions)]))
    return solved


def _fits_command(action: str) -> bool:
    """Return True if Linux can pass an action to the command `play` unchanged, as one argument."""
    return "\0" not in action and len(action.encode()) < _ARGUMENT_BYTES


def _write_task(task: Path, game: SolvedGame, config: Config, run: str) -> None:
    program = game.program
    settings = {"program": program.name, "seed": game.seed, "win_reward": config.play.win_return - TOLERANCE}
    for inner, command in ((task / "environment" / "game", "play"), (task / "tests" / "game", "verify")):
        write_player(inner, iter([replace(program, hint="")]), config, bare=True)
        (inner / "game.json").write_bytes(msgspec.json.format(msgspec.json.encode(settings)))
        for name in ("episode.py", f"{command}.py"):
            copyfile(_MODULES / name, inner / name)
    (task / "task.toml").write_text(tomli_w.dumps(_describe_task(program, run)), encoding="utf-8")
    (task / "solution").mkdir()
    facts = {
        "max_turns": config.play.max_turns,
        "observation": game.observation,
        "actions": [shlex.quote(action) for action in game.actions],
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "packages": [f"{name}=={metadata.version(name)}" for name in ("numpy", *list_used_packages(inner))],
    }
    for file, template in (
        ("instruction.md", "instruction.md"), ("environment/Dockerfile", "environment.txt"),
        ("environment/play", "play.sh"), ("environment/game/play.sh", "game.sh"), ("solution/solve.sh", "solve.sh"),
        ("tests/Dockerfile", "tests.txt"), ("tests/test.sh", "test.sh"),
    ):  # fmt: skip
        (task / file).write_text(render(f"harbor/{template}", config, **facts), encoding="utf-8")
        if template.endswith(".sh"):
            (task / file).chmod(0o755)


def _describe_task(program: PoolProgram, run: str) -> dict[str, Any]:
    """Return the contents of `task.toml`."""
    lineage = msgspec.to_builtins(program.lineage) if program.lineage else {}
    return {
        "schema_version": "1.4",
        "task": {"name": f"spade/{program.name}", "description": f"A game of the SPADE run {run}"},
        "metadata": {
            "skill": program.skill or "",
            "hint": program.hint,
            "sha256": compute_program_digest(program.source),
            "lineage": {field: value for field, value in lineage.items() if value is not None},
        },
        "agent": {"timeout_sec": 1800.0, "user": "player"},
        "environment": {"cpus": 1, "memory_mb": 2048},
        "verifier": {"timeout_sec": 300.0, "environment_mode": "separate"},
        "artifacts": [{"source": ACTIONS}],
    }
