"""The folder of an evaluation. Its name follows from the rules."""

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from spade.decoding import UnreadableError, try_decode
from spade.disk import list_folder, open_for_reading, read, replace
from spade.errors import RunError, format_reason
from spade.evaluations.record import SampleRecord, SampleSchedule, sample_seed
from spade.evaluations.record_file import RecordFile, read_records
from spade.evaluations.rules import Rules, read_toml
from spade.evaluations.summary import Summary, summarise_records
from spade.text import SHORT_DIGEST, as_line

EVALUATIONS, PROTOCOL, RECORDS, SUMMARY = "evaluations", "protocol.toml", "records.jsonl", "summary.json"
_SUMMARY_BYTES = 1 << 24


class _SummaryFile(Summary, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A summary as it is stored."""

    records_bytes: int = 0
    """Bytes of the records from which the summary was computed. Later records follow them in their file."""

    digest: str = ""
    """BLAKE2b of these records and of the figures, or "" if an older version wrote the file. A file without a digest is
    refused if the records are beside it."""


_summaries: msgspec.json.Decoder[_SummaryFile] = msgspec.json.Decoder(_SummaryFile)


class KeptEvaluation(NamedTuple):
    """An evaluation on disk."""

    folder: Path
    """Folder of the evaluation."""

    rules: Rules
    """Rules of the evaluation."""

    summary: Summary | None
    """Figures of the evaluation, or None if they are not written yet."""


def name_folder(run: Path, rules: Rules) -> Path:
    """Return RUN/evaluations/SUITE@PROTOCOL/DIGEST-SEED. The digest covers the rules, including the policy."""
    return run / EVALUATIONS / _name_place(rules)


def _name_place(rules: Rules) -> Path:
    return Path(f"{rules.suite}@{rules.protocol.name}", f"{rules.digest[:SHORT_DIGEST]}-{rules.seed}")


@contextmanager
def open_folder(run: Path, rules: Rules, scheduled: SampleSchedule) -> Iterator[RecordFile]:
    """Begin or continue an evaluation. The end of the block writes its summary.

    Raises RunError if its files are damaged or in use.
    """
    folder = name_folder(run, rules)
    with _explain_errors(folder):
        kept = _begin(folder, rules, scheduled)
    with kept:
        _check_seeds(kept.file, kept.records.values(), rules)
        try:
            yield kept
        finally:
            summary = summarise_records(kept.records.values(), scheduled)
            with _explain_errors(folder):
                _write_summary(folder, summary, kept.size)


def _write_summary(folder: Path, summary: Summary, records_bytes: int) -> None:
    figures = {name: getattr(summary, name) for name in Summary.__struct_fields__}
    digest = _compute_summary_digest(folder / RECORDS, records_bytes, summary)
    file = _SummaryFile(**figures, records_bytes=records_bytes, digest=digest)
    replace(folder / SUMMARY, msgspec.json.format(msgspec.json.encode(file)) + b"\n")


def _compute_summary_digest(records: Path, length: int, summary: Summary) -> str:
    """Return the digest of the first `length` bytes of the records and of the figures. Raises OSError."""
    hasher = hashlib.blake2b(digest_size=16)
    with open_for_reading(records) as opened:
        while length > 0 and (data := opened.read(min(length, 1 << 20))):
            hasher.update(data)
            length -= len(data)
    figures = {name: getattr(summary, name) for name in Summary.__struct_fields__}
    hasher.update(msgspec.json.encode(figures, order="sorted"))
    return hasher.hexdigest()


def _begin(folder: Path, rules: Rules, scheduled: SampleSchedule) -> RecordFile:
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / PROTOCOL).exists():
        replace(folder / PROTOCOL, rules.toml())
    read_rules(folder)
    return RecordFile(folder / RECORDS, scheduled)


def is_finished(run: Path, rules: Rules, scheduled: SampleSchedule) -> bool:
    """Return True if all samples are recorded and the summary covers them. Writes nothing."""
    folder = name_folder(run, rules)
    try:
        summary = read_evaluation(folder).summary
        _check_seeds(folder / RECORDS, read_records(folder / RECORDS, scheduled), rules)
    except (RunError, OSError):
        return False  # `open_folder` reports the fault, or repairs the file
    return summary is not None and summary.played == len(scheduled)


def _check_seeds(file: Path, records: Iterable[SampleRecord], rules: Rules) -> None:
    for record in records:
        if record.seed != sample_seed(rules.suite, record.item, record.sample, rules.seed):
            name = f"sample {record.sample} of {as_line(record.item, 80)!r}"
            raise RunError(f"{file}: the seed of {name} belongs to another evaluation; move the file away")


@contextmanager
def _explain_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RunError(f"{folder}: the evaluation cannot be kept ({format_reason(error)})") from None


def read_rules(folder: Path) -> Rules:
    """Read the rules of an evaluation. Raises RunError if they cannot be read, or do not fit the folder's name."""
    file = folder / PROTOCOL
    try:
        rules = read_toml(read(file))
    except (OSError, UnreadableError) as error:
        raise RunError(f"{file}: {format_reason(error)}; restore it, or move its folder away") from None
    if Path(folder.parent.name, folder.name) != _name_place(rules):
        raise RunError(
            f"{file}: belongs to another evaluation, whose folder is {_name_place(rules)}; "
            f"restore it, or move its folder away"
        )
    return rules


def read_summary(folder: Path) -> Summary | None:
    """Return the summary, or None if it is not written yet.

    Raises RunError if it cannot be read, or if it is not the summary of the records beside it.
    """
    file = folder / SUMMARY
    try:
        kept = try_decode(_summaries.decode, read(file, _SUMMARY_BYTES))
        same = not kept.digest or kept.digest == _compute_summary_digest(folder / RECORDS, kept.records_bytes, kept)
    except FileNotFoundError as error:
        if error.filename == str(file):
            return None
        raise RunError(f"{folder / RECORDS}: is missing, so that {SUMMARY} cannot be checked; restore it") from None
    except (OSError, UnreadableError) as error:
        raise RunError(f"{file}: {format_reason(error)}; delete it, and the same `spade eval` makes it anew") from None
    if not kept.digest and os.path.lexists(folder / RECORDS):
        raise RunError(
            f"{file}: has no digest, because an older version wrote it, so its figures cannot be checked against "
            f"{RECORDS}; delete it, and the same `spade eval` makes it anew"
        )
    if not same:
        raise RunError(
            f"{file}: its figures are not the figures of {RECORDS}, because one of the two files was changed; restore "
            f"that file, or delete {SUMMARY}, and the same `spade eval` makes it anew"
        )
    return Summary(**{name: getattr(kept, name) for name in Summary.__struct_fields__})


def find_evaluations(run: Path, suite: str | None = None) -> list[KeptEvaluation]:
    """Return the evaluations of a run, sorted by folder. Raises RunError if one cannot be read."""
    each = map(read_evaluation, list_evaluation_folders(run))
    return [evaluated for evaluated in each if suite in (None, evaluated.rules.suite)]


def list_evaluation_folders(run: Path) -> list[Path]:
    """Return the folders of a run's evaluations, sorted. Raises RunError if one cannot be listed."""
    place = run / EVALUATIONS
    suites = [place / name for name in list_folder(place) if "@" in name]
    return [
        folder / name for folder in suites for name in list_folder(folder) if PROTOCOL in list_folder(folder / name)
    ]


def read_evaluation(folder: Path) -> KeptEvaluation:
    """Read the evaluation in a folder. Raises RunError if it cannot be read."""
    return KeptEvaluation(folder, read_rules(folder), read_summary(folder))
