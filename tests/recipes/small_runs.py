"""Recipes of nano as `spade up` runs them, at a small size, for a few learner steps."""

import json
import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner

from replay.inspect.contents import StoreContents, read_contents
from replay.store import open_reader
from spade.app.cli import app
from spade.config import list_differences, load

SOON_S = 600.0  # a busy machine takes long to start and to play
SMALL = (
    "design.active_environments=6", "design.round_jobs=6", "play.group_size=4", "play.window_chunks=1",
    "learner.batch_sequences=16", "audit.random_plays=4", "evaluation.suite=",
    "evaluation.diversity_programs=0",
)  # fmt: skip


def spade(folder: Path, *words: str, fails: bool = False) -> str:
    """A command in a folder, in processes of its own; its output."""
    done = subprocess.run(
        [sys.executable, "-m", "spade.app.cli", *words],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SOON_S, check=False,
    )  # fmt: skip
    assert (done.returncode != 0) == fails, done.stdout
    assert "Traceback" not in done.stdout
    return done.stdout


def play(folder: Path, recipe: str, *settings: str, steps: int, words: tuple[str, ...] = ()) -> StoreContents:
    """A run of a recipe in FOLDER/RECIPE to its last learner step; what is in its verified store."""
    given = [word for setting in (*SMALL, *settings) for word in ("--set", setting)]
    told = spade(folder, "up", recipe, "--headless", "--run", recipe, "--steps", str(steps), *words, *given)
    assert f"finished: its last start made {steps} learner steps" in told
    checked = CliRunner().invoke(app, ["replay", "verify", str(folder / recipe)])
    assert checked.exit_code == 0, checked.output
    with open_reader(folder / recipe / "store") as store:
        found = read_contents(store)
    assert len(found.batches) >= steps
    return found


def list_changes(recipe: str) -> list[str]:
    """Return the settings that a recipe changes in `nano`, as overrides."""
    changes = list_differences(load("nano"), load(recipe))
    return [f"{setting}={json.dumps(value)}" for setting, (_, value) in changes.items()]


def processes(run: Path) -> set[str]:
    """The processes that a run has had."""
    return {file.name.partition(".")[0] for file in (run / "logs").glob("*.log")}


def hinted(found: StoreContents) -> int:
    """The number of plays with the hint."""
    return sum(play.hinted for play in found.plays.values())


def documents(found: StoreContents) -> set[str]:
    """The documents of all designs; "" for none."""
    return {design.document for design in (*found.environments.values(), *found.rejects.values())}


def examples(found: StoreContents) -> set[str]:
    """The environments of the memory that jobs offered to their designers, or prompts showed."""
    offered = [seeds for job in found.jobs.values() for seeds in (job.seeds, *job.earlier)]
    shown = [reject.shown for reject in found.rejects.values()]
    return {each for every in (*offered, *shown) for each in every}


def trained_roles(found: StoreContents) -> set[str]:
    """The roles with a group in the queue or in a batch."""
    return {group.role for _, group in found.groups()}
