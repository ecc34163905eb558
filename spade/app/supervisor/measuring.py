"""`spade eval`: what is asked, resolved to evaluations of one policy or two, and what they came to."""

import difflib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from actors.suites import SUITES, Suite, resolve
from spade.app.rundir import RunDir
from spade.app.screen.evaluations import MeasuredSuite
from spade.app.supervisor.examination import Exam, measure, settings
from spade.app.supervisor.policies import PinnedPolicy, check_asked, pin, release
from spade.config import Config, ProtocolName
from spade.errors import ConfigError, SpadeError
from spade.evaluations import (
    Protocol,
    compared,
    read_summary,
    refuse_other,
)
from spade.evaluations.folder import EVALUATIONS
from spade.policy.model_folder import ModelFacts, facts
from spade.policy.model_folder import resolve as model_folder
from spade.text import line
from spade.tokens import Tokenizer

Say = Callable[[str], None]
_NEAREST = 3


class EvalOptions(NamedTuple):
    """The options of `spade eval`, as they were typed."""

    model: str
    suites: str
    protocol: ProtocolName
    policy: str
    against: str
    samples: int | None
    items: int | None
    seed: int
    data: Sequence[str]
    config: str | None
    overrides: Sequence[str]


class Chosen(NamedTuple):
    """A suite of the command by its protocol, with its data file."""

    suite: Suite
    protocol: Protocol
    data: Path | None


class Subject(NamedTuple):
    """A run, or a model (`run` is None), to be measured by the rules of `base`; results go below `root`."""

    root: Path
    run: RunDir | None
    model: str
    base: str
    dtype: str
    model_facts: ModelFacts

    @property
    def place(self) -> Path:
        """The folder of its evaluations."""
        return self.root / EVALUATIONS

    @classmethod
    def of(cls, model: str, config: str | None) -> "Subject":
        """A run directory, or else a model. Raises ConfigError where it is neither."""
        run = RunDir(Path(model))
        if run.exists:
            base = config or str(run.config_path)
            path = str(run.start) if run.origin is not None else run.config().model.path
            return cls(run.path, run, path, base, run.config().model.dtype, facts(model_folder(path)))
        try:
            found = facts(model_folder(model))
        except ConfigError as error:
            raise ConfigError(f"{line(model, 200)}: is no run, and as a model: {error}") from None
        return cls(Path.cwd(), None, model, config or "nano", found.dtype, found)

    def pin(self, asked: str) -> PinnedPolicy:
        """The policy that is asked for."""
        return pin(self.run, self.model, self.dtype, asked, self.place)


def named_suites(names: str) -> list[Suite]:
    """The suites of a list with commas. Raises ConfigError where one is unknown, with the nearest names."""
    each = [name.strip() for name in names.split(",") if name.strip()]
    for name in each:
        if name not in SUITES:
            near = difflib.get_close_matches(name, SUITES, _NEAREST, 0.0)
            raise ConfigError(f"--suite {line(name, 60)!r}: there is no such suite; near are {', '.join(near)}")
    if not each:
        raise ConfigError(f"--suite: name one or more of {', '.join(SUITES)}")
    return [SUITES[name] for name in dict.fromkeys(each)]


def data_files(given: Sequence[str], suites: Sequence[Suite]) -> dict[str, Path]:
    """The files of `--data NAME=FILE`, by suite. Raises ConfigError."""
    files = {}
    for text in given:
        name, equals, file = text.partition("=")
        if not (equals and file):
            raise ConfigError(f"--data {line(text, 200)!r}: write NAME=FILE")
        if name not in {suite.name for suite in suites}:
            raise ConfigError(f"--data {line(name, 60)!r}: is no suite of --suite")
        files[name] = Path(file)
    return files


def chosen(asked: EvalOptions) -> list[Chosen]:
    """The suites and their protocols. Raises ConfigError."""
    if asked.items is not None and asked.protocol != "short":
        raise ConfigError("--items: a part of a suite is played with --protocol short alone")
    suites = named_suites(asked.suites)
    files = data_files(asked.data, suites)
    found = []
    for suite in suites:
        protocol = suite.protocol(asked.protocol)
        if asked.samples is not None:
            protocol = msgspec.structs.replace(protocol, samples=asked.samples)
        found.append(Chosen(suite, protocol, files.get(suite.name)))
    return found


def evaluate(asked: EvalOptions, say: Say, complain: Say) -> list[MeasuredSuite]:
    """Measure what is missing, and tell what all came to; a suite that cannot be played is complained of in a line.

    Raises SpadeError where nothing can be played.
    """
    suites = chosen(asked)
    check_asked(asked.policy)
    subject = Subject.of(asked.model, asked.config)
    pinned = subject.pin(asked.policy)
    # Before the first is measured, since a run goes on meanwhile and may retire the other.
    other = None if asked.against == "none" else _other(subject, asked)
    now = _measured(subject, pinned, suites, asked, say, complain)
    if other is None:
        return list(now.values())
    playable = [each for each in suites if each.suite.name in now]
    before = _measured(*other, playable, asked, say, complain) if playable else {}
    return [_held_against(each, before.get(name)) for name, each in now.items()]


def _other(subject: Subject, asked: EvalOptions) -> tuple[Subject, PinnedPolicy]:
    """The subject and the policy that is measured against: another run's newest, or one of the same subject."""
    if RunDir(Path(asked.against)).exists:
        subject = Subject.of(asked.against, asked.config)
        return subject, subject.pin("newest")
    return subject, subject.pin(asked.against)


def _measured(
    subject: Subject, pinned: PinnedPolicy, suites: Sequence[Chosen], asked: EvalOptions, say: Say, complain: Say
) -> dict[str, MeasuredSuite]:
    """The evaluations of one policy by suite."""
    context = max(each.protocol.context_tokens(subject.model_facts.context_tokens) for each in suites)
    pairs = [(each.suite, each.protocol) for each in suites]
    unfinished = False
    try:
        folder = pinned.folder or Path(subject.model)
        config = settings(subject.base, asked.overrides, folder, subject.dtype, pairs, context)
        exams = _exams(subject, pinned, suites, asked, config, complain)
        if exams:
            unfinished = True
            measure(subject.place, config, pinned, exams, say)
            unfinished = False
    finally:
        if not unfinished:
            release(pinned, subject.place)
    return {exam.suite.name: _told(exam, pinned) for exam in exams}


def _exams(
    subject: Subject,
    pinned: PinnedPolicy,
    suites: Sequence[Chosen],
    asked: EvalOptions,
    config: Config,
    complain: Say,
) -> list[Exam]:
    exams = []
    tokenizer = Tokenizer.load(model_folder(subject.model), thinking=config.model.thinking)
    for suite, protocol, data in suites:
        conditions = _conditions(config, protocol.context_tokens(config.engine.context_tokens))
        try:
            talks = suite.talks(protocol, tokenizer)
            plan = resolve(suite, protocol, pinned.digest, asked.seed, data, asked.items, conditions)
        except SpadeError as error:
            complain(f"spade: {error}")
        else:
            exams.append(Exam(subject.root, suite, plan, talks))
    return exams


def _conditions(config: Config, context_tokens: int) -> dict[str, str]:
    """See Rules."""
    return {
        "context_tokens": str(context_tokens),
        "dtype": config.model.dtype if config.engine.arithmetic == "model" else config.engine.arithmetic,
        "thinking": str(config.model.thinking).lower(),
        "thoughts": config.play.thoughts,
    }


def _told(exam: Exam, pinned: PinnedPolicy) -> MeasuredSuite:
    summary = read_summary(exam.folder)
    assert summary is not None, "an evaluation that was opened has a summary"
    return MeasuredSuite(str(exam.folder), exam.plan.rules, pinned.name, summary)


def _held_against(now: MeasuredSuite, before: MeasuredSuite | None) -> MeasuredSuite:
    if before is None:
        return msgspec.structs.replace(now, why="the other policy was not measured")
    try:
        refuse_other(now.rules, before.rules)
    except ConfigError as error:
        return msgspec.structs.replace(now, why=str(error))
    return msgspec.structs.replace(now, against=before, difference=compared(now.summary, before.summary))
