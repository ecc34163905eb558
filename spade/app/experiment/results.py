"""The results of one run in one small file. Tables and pages can be made from it later, on any machine."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from replay.inspect.journal import DiversityRow, EvaluationRow, JournalRows, StepRow
from spade.app.experiment.designed import MOST_LEVELS, DesignedLevel
from spade.app.experiment.plan import Experiment, Piece
from spade.app.report.series import LARGEST
from spade.decoding import UnreadableError, try_decode
from spade.disk import read, replace
from spade.errors import RunError
from spade.estimates import Share

MOST_ROWS = 120
"""Most learner steps with kept figures. A figure covers a window of plays that is longer than the gap between steps."""
MOST_EVALUATIONS = 120
MOST_CATEGORIES = 64
DIGITS = 5
LARGEST_FILE = 16_000
_LARGEST_READ = 1 << 22
_KEPT = ("learner_step", "regret", "learnable_share", "validity")  # the figures that are compared
TABLES = ("rows", "evaluations", "diversities", "designed")
_Row = TypeVar("_Row")
_Count = Annotated[int, Meta(ge=0, le=1 << 53)]
_Category = Annotated[str, Meta(max_length=200)]


class Origins(msgspec.Struct, frozen=True, kw_only=True):
    """Digests that results must share to be comparable."""

    world: str
    """Digest of the held-out items."""

    checkpoint: str
    """Digest of the first checkpoint."""


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one run."""

    arm: str
    """Name of the run's arm."""

    seed: int
    """`run.seed` of the run."""

    plan: str
    """`Experiment.digest` of its piece."""

    spade: str
    """Version of spade."""

    origins: Origins
    """Digests that results must share to be comparable."""

    steps: Annotated[int, Meta(ge=1, le=1 << 53)]
    """Learner steps made."""

    agent: _Count
    """Agent trajectories that were trained on."""

    designer: _Count
    """Designer trajectories that were trained on."""

    plays: _Count
    """Number of plays."""

    environments: _Count
    """Number of environments."""

    held_out: Annotated[dict[_Category, Share], Meta(min_length=1, max_length=MOST_CATEGORIES)]
    """The last policy's share of held-out items won, by category."""

    rows: Annotated[list[StepRow], Meta(max_length=MOST_ROWS)]
    """Figures by learner step, at most MOST_ROWS rows at equal gaps."""

    evaluations: Annotated[list[EvaluationRow], Meta(max_length=MOST_EVALUATIONS)]
    """Evaluations during the run, at most MOST_EVALUATIONS at equal gaps."""

    diversities: Annotated[list[DiversityRow], Meta(max_length=MOST_EVALUATIONS)]
    """Diversities during the run, at most MOST_EVALUATIONS at equal gaps."""

    designed: Annotated[list[DesignedLevel], Meta(max_length=MOST_LEVELS)]
    """Levels of the designed programs. Empty in a domain without levels."""

    top_families: Annotated[int, Meta(ge=0, le=MOST_LEVELS)] | None = None
    """Number of families with a program of the highest level that has won and lost plays. None in a domain without
    levels, and in results of an earlier version."""

    @property
    def piece(self) -> Piece:
        """Return the run of the grid."""
        return Piece(self.arm, self.seed)

    @property
    def journal(self) -> JournalRows:
        """Return the rows in the form of a run's journal."""
        return JournalRows(tuple(self.rows), tuple(self.evaluations), tuple(self.diversities))


_trees: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(dict[str, Any])


def choose_rows(rows: Sequence[_Row], most: int) -> list[_Row]:
    """Return at most `most` rows at equal gaps, including the first and the last."""
    last = len(rows) - 1
    return [rows[place] for place in sorted({round(last * part / (most - 1)) for part in range(most)})] if rows else []


def name_file(folder: Path, piece: Piece) -> Path:
    """Return the file of a run's results."""
    return folder / f"{piece}.json"


def write_result(folder: Path, result: RunResult) -> None:
    """Write the results of a run, with lists of rows as columns. Raises RunError if the file would be too large."""
    tree = msgspec.to_builtins(result)
    tree["rows"] = [{name: row.get(name) for name in _KEPT} for row in tree["rows"]]
    tree |= {table: _round_values(_columns(tree[table])) for table in TABLES}
    tree["digest"] = _compute_digest(tree)
    data = msgspec.json.encode(tree) + b"\n"
    if len(data) > LARGEST_FILE:
        raise RunError(f"{name_file(folder, result.piece)}: would have {len(data)} bytes, over {LARGEST_FILE}")
    folder.mkdir(parents=True, exist_ok=True)
    replace(name_file(folder, result.piece), data, durable=True)


def _round_values(value: Any) -> Any:
    """Round all numbers of a tree."""
    if isinstance(value, dict):
        return {name: _round_values(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_round_values(each) for each in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def _columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Turn rows into columns, without `kind`. If the dictionaries in a column have the same keys, turn them, too."""
    names = (name for name in (rows[0] if rows else {}) if name != "kind")
    return {name: _column([row[name] for row in rows]) for name in names}


def _column(values: Sequence[Any]) -> Any:
    alike = all(isinstance(each, dict) and each.keys() == values[0].keys() != set() for each in values)
    return _columns(values) if alike else values


def rows_of(columns: Any) -> Any:
    """Turn columns into rows. Raises ValueError if the columns have different lengths."""
    if not isinstance(columns, dict):
        return columns  # older versions wrote rows instead of columns
    parts = [rows_of(column) for column in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*parts, strict=True)]


def _compute_digest(tree: dict[str, Any]) -> str:
    """Return the digest of a file's content, excluding its `digest`."""
    kept = {name: value for name, value in tree.items() if name != "digest"}
    return hashlib.blake2b(msgspec.json.encode(kept, order="sorted"), digest_size=16).hexdigest()


def _decode_result(data: bytes) -> RunResult:
    """Decode the results of a file. Raises ValueError if the file was changed, or if a figure is impossible."""
    tree = _trees.decode(data)
    if tree.get("digest", "") not in ("", _compute_digest(tree)):  # files of older versions lack a digest
        raise ValueError("its digest is not the digest of its content: it was changed")
    result = msgspec.convert(tree | {table: rows_of(tree.get(table)) for table in TABLES}, RunResult)
    if not all(0 <= share.mean <= 1 for share in result.held_out.values()):
        raise ValueError("a share of `held_out` is not in [0, 1]")
    rows = [(row.learner_step, "") for row in result.rows]
    measured = [(row.step, row.suite) for row in result.evaluations]
    diversities = [(row.step, "") for row in result.diversities]
    if not all(each == sorted(set(each)) for each in (rows, measured, diversities)):
        raise ValueError("rows are not in the order of their steps")
    if any(step > result.steps for step, _ in (*rows, *measured, *diversities)):
        raise ValueError(f"a row is of a step after the last one, {result.steps}")
    if not all(0 <= value <= 1 for value in _list_shares(result)):
        raise ValueError("a share of a row is not in [0, 1]")
    if not all(abs(figure) <= LARGEST for figure in _list_figures(msgspec.to_builtins(result.journal))):
        raise ValueError(f"a figure is over {LARGEST:g}")
    return result


def _list_shares(result: RunResult) -> Iterator[float]:
    """Yield the shares among the figures that are compared."""
    for row in result.rows:
        yield from (value for value in (row.learnable_share, row.validity) if value is not None)
    for evaluation in result.evaluations:
        yield from evaluation.categories.values()


def _list_figures(tree: Any) -> Iterator[float]:
    """Yield all numbers of a tree."""
    if isinstance(tree, int | float):
        yield tree
    elif isinstance(tree, dict | list | tuple):
        for each in tree.values() if isinstance(tree, dict) else tree:
            yield from _list_figures(each)


def read_results(folder: Path, experiment: Experiment) -> dict[Piece, RunResult]:
    """Read the available results, by run.

    Raises RunError with the file for a result with one of these faults:
    * It is damaged.
    * It was made with other settings than the experiment has now.
    * Its number of trained agent trajectories differs by a batch or more from its match's number.
    * Its world, checkpoint or categories differ from the other results'.
    """
    found: dict[Piece, RunResult] = {}
    for piece in experiment.pieces:
        file = name_file(folder, piece)
        try:
            result = try_decode(_decode_result, read(file, _LARGEST_READ))
        except FileNotFoundError:
            continue
        except UnreadableError as error:
            raise RunError(f"{file}: is damaged ({error}); restore it, or delete it to make the run anew") from None
        if result.piece != piece or result.plan != experiment.digest(piece):
            raise RunError(f"{file}: was made with other settings than the experiment has now; move it away")
        if experiment.match(piece) is None and result.steps != experiment.steps:
            why = f"{result.steps} learner steps, not {experiment.steps}"
            raise RunError(f"{file}: is damaged ({why}); restore it, or delete it to make the run anew")
        found[piece] = result
    refuse_others(folder, found)
    _refuse_unmatched(folder, found, experiment)
    return found


def _refuse_unmatched(folder: Path, results: Mapping[Piece, RunResult], experiment: Experiment) -> None:
    """Raise RunError if a run and its match differ by a batch or more in the number of trained agent trajectories."""
    for piece, result in results.items():
        named = experiment.match(piece)
        match = results.get(named) if named else None
        if match and abs(result.agent - match.agent) >= experiment.config(piece).learner.batch_sequences:
            raise RunError(
                f"{name_file(folder, piece)}: trained on {result.agent:,} trajectories of the agent, "
                f"and its match {match.piece} on {match.agent:,}; move the wrong one away"
            )


def refuse_others(folder: Path, results: Mapping[Piece, RunResult], ours: Origins | None = None) -> None:
    """Raise RunError if a result has another world or checkpoint than `ours`. Without `ours`, the first result decides.

    All results must also have the same categories, because the primary outcome is a mean over them.
    """
    first = next(iter(results.values()), None)
    for piece, result in results.items():
        if first is not None and result.held_out.keys() != first.held_out.keys():
            raise RunError(
                f"{name_file(folder, piece)}: has other categories than {first.piece}, so they are not "
                "comparable; move the wrong one away"
            )
        ours = ours or result.origins
        for name in Origins.__struct_fields__:
            wanted, had = getattr(ours, name), getattr(result.origins, name)
            if had != wanted:
                raise RunError(
                    f"{name_file(folder, piece)}: is of another {name} (digest {had[:8]}, not {wanted[:8]}), so "
                    "it is not comparable; move it away"
                )
