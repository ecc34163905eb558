"""Evaluations on disk: what was measured by which rules, one record a sample, and what follows from the records.

RUN/evaluations/SUITE@PROTOCOL/DIGEST-SEED/
    protocol.toml    the rules as resolved (`Rules`)
    records.jsonl    one line a sample (`Record`), appended
    summary.json     `Summary`, made of the two
"""

from spade.evaluations.folder import Evaluated, folder_of, found, open_folder, read_rules, read_summary
from spade.evaluations.journal import Journal, read_records
from spade.evaluations.record import ERRORS, ErrorKind, Record, Scheduled
from spade.evaluations.rules import Protocol, ProtocolName, Rules, Sampling, differing, refuse_other
from spade.evaluations.summary import MOST_FOREIGN_ERRORS, Summary, compared, summarised

__all__ = [
    "ERRORS",
    "MOST_FOREIGN_ERRORS",
    "ErrorKind",
    "Evaluated",
    "Journal",
    "Protocol",
    "ProtocolName",
    "Record",
    "Rules",
    "Sampling",
    "Scheduled",
    "Summary",
    "compared",
    "differing",
    "folder_of",
    "found",
    "open_folder",
    "read_records",
    "read_rules",
    "read_summary",
    "refuse_other",
    "summarised",
]  # fmt: skip
