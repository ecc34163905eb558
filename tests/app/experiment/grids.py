"""Small experiments, and results of their runs as they might have been."""

from pathlib import Path

import msgspec

from replay.inspect.journal import DiversityRow, EvaluationRow, StepRow
from spade.app.experiment.designed import LevelledProgram, count_top_families, group_by_level
from spade.app.experiment.plan import Experiment, Piece, read_experiment
from spade.app.experiment.results import Origins, RunResult
from spade.app.rundir import RunDir
from spade.estimates import ItemTally, compute_share
from spade.evaluations import Rules, Summary, name_folder

TEXT = """\
steps = 12
suite = "nano"
reference = "full"
primary = [["full", "pool"]]

[arms.full]
recipe = "nano"
seeds = [0, 1]

[arms.pool]
recipe = "nano-fixed-pool"
seeds = [0, 1]
matched = "full"
pool = 8

[arms.no-memory]
recipe = "nano-no-memory"
seeds = [0]
"""
OURS = Origins(world="w" * 32, checkpoint="c" * 32)


DESIGNED = ((0, 1, 0.9, "Boxes"), (0, 2, None, "Walk"), (5, 4, 0.5, "Walk"), (5, 0, 0.1, ""))
"""Part, level, win rate and family of designed programs."""


def experiment(folder: Path, text: str = TEXT) -> Experiment:
    """The experiment of a file with this text."""
    file = folder / "grid.toml"
    file.write_text(text)
    return read_experiment(file)


def result(of: Experiment, piece: Piece, wins: int = 30, origins: Origins = OURS, steps: int = 12) -> RunResult:
    """A run that won so many of 50 items of level 1, and half as many of level 2."""
    levels = {"level 1": wins, "level 2": wins // 2}
    return RunResult(
        arm=piece.arm, seed=piece.seed, plan=of.digest(piece), spade="0", origins=origins, steps=steps,
        agent=90 * steps, designer=6 * steps, plays=100, environments=9,
        held_out={name: compute_share([ItemTally(1, n < won) for n in range(50)]) for name, won in levels.items()},
        rows=[StepRow(learner_step=step, validity=1.0, regret=step / 7) for step in range(1, steps + 1)],
        evaluations=[
            EvaluationRow(step, 8, 0.5, categories={"level 1": step / 100, "level 2": 0}) for step in (0, 8, 9, 10, 12)
        ],
        diversities=[DiversityRow(9, 0.05)],
        designed=group_by_level([LevelledProgram(*each) for each in DESIGNED]),
        top_families=count_top_families([LevelledProgram(*each) for each in DESIGNED]),
    )  # fmt: skip


def keep_evaluation(run: RunDir, rules: Rules, played: int) -> Path:
    """An evaluation of a run that is over; its folder."""
    folder = name_folder(run.path, rules)
    folder.mkdir(parents=True)
    (folder / "protocol.toml").write_bytes(rules.toml())
    won = compute_share([ItemTally(1, 1)])
    summary = Summary(
        scheduled=1, played=played, correct=1, headline=won, why="", categories={"level 1": won}, errors={}, read=0,
        sampled=0, means={},
    )  # fmt: skip
    (folder / "summary.json").write_bytes(msgspec.json.encode(summary))
    return folder
