"""Evaluations on disk: the rules, one record for each sample, and the figures computed from the records.

RUN/evaluations/SUITE@PROTOCOL/DIGEST-SEED/
    protocol.toml    the rules as resolved (`Rules`)
    records.jsonl    one line for each sample (`SampleRecord`), appended
    summary.json     `Summary`, computed from the two
"""

from spade.evaluations.average import TABLES, AverageColumn, PassShares, SuiteAverage, average_suites, compute_passes
from spade.evaluations.folder import (
    KeptEvaluation,
    find_evaluations,
    is_finished,
    list_evaluation_folders,
    name_folder,
    open_folder,
    read_evaluation,
    read_rules,
    read_summary,
)
from spade.evaluations.plan import EvaluationPlan, SuiteItem
from spade.evaluations.record import (
    ERRORS,
    LONGEST_DETAIL,
    NO_PROMPT,
    ErrorKind,
    SampleRecord,
    SampleSchedule,
    sample_seed,
)
from spade.evaluations.record_file import RecordFile, read_records
from spade.evaluations.rules import Protocol, Rules, Sampling, list_differing, refuse_other
from spade.evaluations.summary import (
    MOST_FOREIGN_ERRORS,
    Summary,
    compare_summaries,
    refuse_other_prompts,
    summarise_records,
)

__all__ = [
    "ERRORS",
    "LONGEST_DETAIL",
    "MOST_FOREIGN_ERRORS",
    "NO_PROMPT",
    "TABLES",
    "AverageColumn",
    "ErrorKind",
    "EvaluationPlan",
    "KeptEvaluation",
    "PassShares",
    "Protocol",
    "RecordFile",
    "Rules",
    "SampleRecord",
    "SampleSchedule",
    "Sampling",
    "SuiteAverage",
    "SuiteItem",
    "Summary",
    "average_suites",
    "compare_summaries",
    "compute_passes",
    "find_evaluations",
    "is_finished",
    "list_differing",
    "list_evaluation_folders",
    "name_folder",
    "open_folder",
    "read_evaluation",
    "read_records",
    "read_rules",
    "read_summary",
    "refuse_other",
    "refuse_other_prompts",
    "sample_seed",
    "summarise_records",
]  # fmt: skip
