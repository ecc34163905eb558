"""Read everything that a run saved, for a page. If a part cannot be read, the page has a note instead."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

import msgspec

import spade
from replay.inspect.designs import DesignRecords, read_designs
from replay.inspect.journal import JournalRows, read_journal
from replay.ledger.records import Environment
from spade.app.report import gallery
from spade.app.report.arms import parse_asked, run_names
from spade.app.report.transcript import Decode, Part, make_transcript
from spade.app.rundir import RunDir, RunRecord
from spade.config import Config
from spade.errors import ConfigError, RunError, SpadeError, format_placed
from spade.evaluations import KeptEvaluation, list_evaluation_folders, read_evaluation
from spade.protocol import Status

Result = TypeVar("Result")


class SavedRun(msgspec.Struct, frozen=True):
    """A run as it was saved."""

    name: str
    """The run's name on the page."""

    state: str
    """The run's state in words."""

    verdict: str
    """A sentence that judges the run by its status (`screen/verdict.py`), or "" without a status."""
    config: Config | None
    """The run's settings. None if they cannot be read."""

    record: RunRecord | None
    """The record of the run's start. None if it cannot be read."""

    status: Status | None
    """The live or last status. None if it cannot be read."""

    rows: JournalRows
    """Rows of the run's journal, `metrics.jsonl`."""

    designs: DesignRecords
    """Environments and rejected programs of the run, with sources and plays of the shown environments."""

    evaluations: tuple[KeptEvaluation, ...]
    """Evaluations by `spade eval`."""

    why: dict[str, list[str]]
    """The reasons why the page shows an environment, by the environment's id."""

    transcripts: dict[str, list[Part]]
    """Transcripts of plays, by the play's id."""

    notes: tuple[str, ...]
    """Notes on missing parts."""


class NamedRun(NamedTuple):
    """A run that was named on the command line."""

    run: RunDir
    """The run's directory."""

    name: str
    """The run's name on the page."""

    arm: str
    """The name of the run's arm. If it is "", runs with the same settings form an arm."""


def find_runs(words: Sequence[str], most: int) -> list[NamedRun]:
    """Find the runs named on the command line, each as [ARM=]RUN.

    Raises ConfigError if there are too many or one is named twice, and RunError if one is missing.
    """
    if len(words) > most:
        raise ConfigError(f"{len(words)} runs are too many for one page; give at most {most}")
    asked = [(arm, RunDir(path).require()) for arm, path in map(parse_asked, words)]
    paths = [run.path for _, run in asked]
    if twice := [path for place, path in enumerate(paths) if path in paths[:place]]:
        raise ConfigError(f"{twice[0]}: is given twice; give each run once")
    return [NamedRun(run, name, arm) for (arm, run), name in zip(asked, run_names(paths), strict=True)]


def collect(run: RunDir, name: str, status: Status | str, verdict: str, most: int) -> SavedRun:
    """Read a run. `status` is the run's status, or the reason why it cannot be read.

    `verdict` is a sentence that judges the run. `most` is the largest number of environments with program and plays.
    Raises RunError if no run was ever started there.
    """
    run.require()
    notes = [status] if isinstance(status, str) else []
    config = try_or_note(notes, run.config)
    record = try_or_note(notes, run.record)
    rows = try_or_note(notes, lambda: read_rows(run)) or JournalRows()
    if rows.gap:
        notes.append(rows.gap)
    if not rows.evaluations:
        notes.append("no evaluation has finished, so there is no held-out win rate (evaluation.suite names the suite)")
    why: dict[str, list[str]] = {}
    designs = try_or_note(notes, lambda: _read_designs(run, why, most)) or DesignRecords()
    folders = try_or_note(notes, lambda: list_evaluation_folders(run.path)) or []
    kept = [try_or_note(notes, partial(read_evaluation, folder)) for folder in folders]
    evaluations = tuple(each for each in kept if each is not None)
    transcripts = try_or_note(notes, lambda: read_transcripts(run, config, designs)) or {}
    if record is not None and record.spade != spade.__version__:
        notes.append(f"it was started by SPADE {record.spade}, this page was made by {spade.__version__}")
    return SavedRun(
        name, describe_state(run, status, rows), verdict, config, record,
        status if isinstance(status, Status) else None, rows, designs, evaluations, why, transcripts, tuple(notes),
    )  # fmt: skip


def try_or_note(notes: list[str], read: Callable[[], Result]) -> Result | None:
    """Return the result of `read`. If a part of the run cannot be read, note why and return None."""
    try:
        return read()
    except (SpadeError, OSError) as error:
        notes.append(format_placed(error))
        return None


def read_rows(run: RunDir) -> JournalRows:
    """Read the rows of a run's journal. Raises RunError if there is no journal, or as `read_journal` does."""
    try:
        return read_journal(run.metrics_path)
    except FileNotFoundError:
        raise RunError("the replay service has not written metrics.jsonl yet, so there are no curves") from None


def _read_designs(run: RunDir, why: dict[str, list[str]], most: int) -> DesignRecords:
    def choose(environments: Sequence[Environment]) -> list[str]:
        why.update(gallery.choose(environments, most))
        return list(why)

    return read_designs(run.store, choose, gallery.pick, gallery.find_kind)


def read_transcripts(run: RunDir, config: Config | None, designs: DesignRecords) -> dict[str, list[Part]]:
    """Return the transcript of each play with kept tokens, by id. Raises RunError if the tokenizer is missing."""
    kept = {id: tokens for shown in designs.shown for id, tokens in shown.tokens.items()}
    if not kept or config is None:
        return {}
    decode = load_decoder(run, config, designs.digest)
    return {id: make_transcript(tokens, decode) for id, tokens in kept.items()}


def load_decoder(run: RunDir, config: Config, digest: str) -> Decode:
    """Return the decoder of the newest policy's tokenizer. Raises RunError if the policy is missing."""
    from actors.play.domains import load_chat_formats
    from spade.tokens import Tokenizer

    folder = run.weights / digest  # not model.path, which might have to be downloaded
    if not digest or not folder.is_dir():
        raise RunError(f"{folder}: the newest policy is missing. Without its tokenizer, plays cannot be decoded")
    tokenizer = Tokenizer.load(folder, thinking=config.model.thinking)
    return partial(tokenizer.decode, keep=load_chat_formats(config, tokenizer)("inside", False).marks)


def describe_state(run: RunDir, status: Status | str, rows: JournalRows) -> str:
    """Describe the run's state in words."""
    if run.holders():
        return "up when these figures were read"
    if isinstance(status, Status) and status.finished:
        return f"finished: {status.finished}"
    last = rows.events[-1] if rows.events else None
    if last is None:
        return "nothing was recorded"
    if last.event in ("stop", "finish"):
        return f"stopped{f': {last.why}' if last.why else ''}"
    return "ended without a stop: it was killed, or its machine went away"
