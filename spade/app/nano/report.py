"""The figures of a nano checkpoint: validity and novelty of its programs, win rates on held-out programs."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec
import torch
import trio

from actors.corpus import load
from actors.environments.admission import validate
from actors.nano.demonstrations import choose, make_generator
from actors.nano.world import DrawnEnvironment, World
from actors.nano.worlds import WORLDS
from actors.sandbox import open_sandbox
from actors.text.profile import Document
from spade import config
from spade.app.nano.build import RECORD, Build
from spade.app.nano.measure import Checkpoint, Play
from spade.decoding import UnreadableError, try_decode
from spade.disk import read
from spade.errors import RunError
from spade.estimates import compute_mean_and_error
from spade.progress import follow
from spade.protocol import Verdict
from spade.returns import is_won
from spade.seeds import derive

PROGRAMS = 192
ENVIRONMENTS = 144
PLAYS = 4
"""Plays of each held-out environment in each arm, on the same instance seeds."""


class Rate(msgspec.Struct, frozen=True):
    """A share and its standard error. Treats environments (or programs) as independent."""

    mean: float
    """The mean."""

    error: float
    """The standard error."""

    def __str__(self) -> str:
        return f"{self.mean:.3f} ± {self.error:.3f}"


class Report(msgspec.Struct, frozen=True):
    """The measured figures. `str` formats them as a table."""

    valid: Rate
    """Share of sampled programs that are valid."""

    new: Rate
    """Share of the valid programs that no demonstration showed."""

    hints_right: Rate
    """Share of the model's hints that equal the hint of the world itself."""

    unhinted: Rate
    """Held-out win rate without hints."""

    hinted: Rate
    """Held-out win rate with the model's hints."""

    gap: Rate
    """Hinted minus unhinted win rate."""

    faults: dict[str, int]
    """Number of invalid programs by the stage that rejected them."""

    by_family: dict[str, tuple[float, float]]
    """Unhinted and hinted win rate by family."""

    by_level: dict[str, tuple[float, float]]
    """Unhinted and hinted win rate by level."""

    def __str__(self) -> str:
        lines = [f"{'':<34}{'measured':>13}  aim of the build"]
        lines += [f"{name:<34}{getattr(self, field)!s:>13}  {aim}".rstrip() for name, field, aim in FIGURES]
        for kind, rates in (("family", self.by_family), ("level", self.by_level)):
            lines.append(f"{f'win rate by {kind}':<34}{'unhinted':>13}{'hinted':>9}")
            lines += [f"  {name:<32}{one:>13.3f}{two:>9.3f}" for name, (one, two) in sorted(rates.items())]
        return "\n".join(lines + [f"  not valid: {stage} ({count})" for stage, count in self.faults.items()])


FIGURES = (
    ("sampled programs that are valid", "valid", "≥ 0.95"),
    ("of these, in no demonstration", "new", "≥ 0.60"),
    ("hints written as the world would", "hints_right", ""),
    ("held-out win rate, unhinted", "unhinted", "0.35–0.65"),
    ("held-out win rate, hinted", "hinted", ""),
    ("hinted − unhinted", "gap", "≥ 0.15"),
)
"""Title, field of the Report and aim of the build, for each figure with an error."""


def compare_reports(before: Report, now: Report) -> str:
    """Tabulate two reports of one run: its policy before the first learner step, and the newest."""
    lines = [f"{'':<34}{'before':>13}{'now':>17}"]
    lines += [f"{name:<34}{getattr(before, field)!s:>13}{getattr(now, field)!s:>17}" for name, field, _ in FIGURES]
    for kind, old, new in (("family", before.by_family, now.by_family), ("level", before.by_level, now.by_level)):
        lines.append(f"unhinted win rate by {kind}")
        lines += [f"  {name:<32}{one:>13.3f}{new[name][0]:>17.3f}" for name, (one, _) in sorted(old.items())]
    return "\n".join(lines)


def report(model: Path, origin: Path, seed: int) -> Report:
    """Measure the checkpoint at `model`. `origin` is the built checkpoint from which training started.

    For the built checkpoint itself, both are the same. Raises RunError if `spade nano build` did not make `origin`.
    """
    # For a model of this size a second thread gains nothing. If the cores are busy, it costs much.
    torch.set_num_threads(1)
    record = read_record(origin)
    world, documents = WORLDS[record.world], load("builtin", record.world)
    checkpoint = Checkpoint(world, model, seed)
    programs = checkpoint.designs(PROGRAMS, documents)
    verdicts = trio.run(judge, programs, seed, world.name)
    known = collect_training_programs(world, record, documents)
    environments = world.unseen(seed, documents, ENVIRONMENTS)
    hints = checkpoint.hints([environment.source for environment in environments])
    unhinted = measure_win_rates(checkpoint, environments, [None] * len(environments))
    hinted = measure_win_rates(checkpoint, environments, hints)
    return Report(
        valid=compute_rate([verdict.passed for verdict in verdicts]),
        new=compute_rate(
            [program not in known for program, verdict in zip(programs, verdicts, strict=True) if verdict.passed]
        ),
        hints_right=compute_rate([hint == one.hint for hint, one in zip(hints, environments, strict=True)]),
        unhinted=compute_rate(unhinted),
        hinted=compute_rate(hinted),
        gap=compute_rate([two - one for one, two in zip(unhinted, hinted, strict=True)]),
        faults=dict(Counter(verdict.stages[-1].name for verdict in verdicts if not verdict.passed)),
        by_family=compute_means([environment.family.name for environment in environments], unhinted, hinted),
        by_level=compute_means([str(environment.knobs.level) for environment in environments], unhinted, hinted),
    )


def read_record(origin: Path) -> Build:
    """Read the record of the build of the checkpoint at `origin`. Raises RunError if it is missing or damaged."""
    try:
        return try_decode(msgspec.json.Decoder(Build).decode, read(origin / RECORD))
    except FileNotFoundError:
        raise RunError(f"{origin}: has no {RECORD}; give a checkpoint that `spade nano build` made") from None
    except UnreadableError as error:
        raise RunError(f"{origin / RECORD}: is damaged ({error}); `spade nano build` makes another") from None


async def judge(programs: Sequence[str], seed: int, domain: config.DomainName) -> list[Verdict]:
    """Judge all programs of a domain by a nano run's admission, each in a child process under deadlines."""
    async with open_sandbox(config.load("nano").sandbox) as sandbox:
        return [
            await validate(
                sandbox, program, derive(b"", "nano report: admission", seed, index), sandbox.limits, domain=domain
            )
            for index, program in enumerate(follow(programs, "judging programs"))
        ]


def collect_training_programs(world: World, record: Build, documents: Sequence[Document]) -> set[str]:
    """Return every program that a demonstration of the build showed."""
    pairs = (choose(world, make_generator(record.seed, index), documents) for index in range(record.demonstrations))
    return {environment.source for pair in pairs for environment in pair if environment is not None}


def measure_win_rates(
    checkpoint: Checkpoint, environments: Sequence[DrawnEnvironment], hints: Sequence[str | None]
) -> list[float]:
    """Return the win rate of each environment in one arm. Play i has seed i in both arms."""
    plays = [
        Play(environment.source, seed, hint)
        for environment, hint in zip(environments, hints, strict=True)
        for seed in range(PLAYS)
    ]
    wins = [is_won(value, 1.0) for value in checkpoint.returns(plays)]
    return [sum(wins[start : start + PLAYS]) / PLAYS for start in range(0, len(wins), PLAYS)]


def compute_means(
    names: Sequence[str], unhinted: Sequence[float], hinted: Sequence[float]
) -> dict[str, tuple[float, float]]:
    """Return the mean unhinted and hinted win rate by name. `names` has the family or the level of each environment."""
    rates: dict[str, list[tuple[float, float]]] = {}
    for name, one, two in zip(names, unhinted, hinted, strict=True):
        rates.setdefault(name, []).append((one, two))
    return {
        name: (sum(one for one, _ in pairs) / len(pairs), sum(two for _, two in pairs) / len(pairs))
        for name, pairs in rates.items()
    }


def compute_rate(values: Sequence[float]) -> Rate:
    """Return mean and standard error. Both are 0 without values, for example if no program is valid."""
    mean, error = compute_mean_and_error(values) if values else (0.0, 0.0)
    return Rate(mean, error or 0.0)
