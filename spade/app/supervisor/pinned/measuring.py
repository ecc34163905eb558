"""`spade eval`: what is asked, resolved to evaluations of one policy or two, and what they came to."""

import difflib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import NamedTuple

import msgspec

from actors.suites import SUITES, Suite, check_sizes, resolve
from actors.suites.harnesses import HARNESSES, Harness
from actors.suites.talk import suite_talks
from spade.app.rundir import RunDir, did_you_mean
from spade.app.screen.evaluations import NOT_PINNED, SELF, MeasuredSuite
from spade.app.supervisor.pinned.examination import measure, settings
from spade.app.supervisor.pinned.exams import Exam, Say
from spade.app.supervisor.pinned.policies import PinnedPolicy, check_asked, pinned
from spade.app.supervisor.pinned.servers import ServerOptions, Servers, free_port
from spade.config import SUITE_TRAITS, Config, ProtocolName
from spade.errors import ConfigError, SpadeError
from spade.evaluations import Protocol, compared, read_summary, refuse_other
from spade.evaluations.folder import EVALUATIONS
from spade.policy.model_folder import ModelFacts, facts
from spade.policy.model_folder import resolve as model_folder
from spade.text import line
from spade.tokens import Tokenizer

_NEAREST = 3


class EvalOptions(NamedTuple):
    """The options of `spade eval`, as they were typed; `model` "" is none, so that `endpoint` is asked by chats."""

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
    endpoint: ServerOptions | None = None
    user: ServerOptions | None = None

    @property
    def chats(self) -> ServerOptions | None:
        """The server that is asked by chats, since nobody knows its tokens."""
        return None if self.model else self.endpoint

    @property
    def servers(self) -> Servers:
        """The servers of the evaluation."""
        user = None if self.user is None or self.user.url == SELF else self.user
        return Servers(self.endpoint, bool(self.model), user)

    def found(self) -> "EvalOptions":
        """The same with the names of the servers' models. Raises ConfigError where a server does not answer."""
        endpoint, user = self.endpoint, self.user
        if endpoint is not None and (
            self.chats or any(isinstance(each, Harness) for each in named_suites(self.suites))
        ):
            endpoint = endpoint.found("--endpoint")
        if user is not None and user.url != SELF:
            user = user.found("--user-url")
        return self._replace(endpoint=endpoint, user=user)


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
            raise ConfigError(
                f"{line(model, 200)}: is no run, and as a model: {error}; {did_you_mean(model)}".rstrip("; ")
            ) from None
        return cls(Path.cwd(), None, model, config or "nano", found.dtype, found)

    def pinned(self, asked: str, endpoint: ServerOptions | None = None) -> AbstractContextManager[PinnedPolicy]:
        """The policy that is asked for, whose weights stay during the block; that of the endpoint, if it is given."""
        if endpoint is not None:
            return nullcontext(endpoint.policy(model_folder(self.model)))
        return pinned(self.run, self.model, self.dtype, asked, self.place)


class Planned(NamedTuple):
    """The evaluations of one policy, and the config of their processes."""

    subject: Subject
    policy: PinnedPolicy
    config: Config
    exams: Sequence[Exam]
    servers: Servers = Servers()

    def measured(self, say: Say) -> dict[str, MeasuredSuite]:
        """Measure what is missing; all evaluations by suite."""
        if self.exams:
            measure(self.subject.place, self.config, self.policy, self.exams, say, self.servers)
        return {exam.suite.name: _told(exam, self.policy) for exam in self.exams}


def named_suites(names: str) -> list[Suite]:
    """The suites of a list with commas. Raises ConfigError where one is unknown, with the nearest names."""
    known: Mapping[str, Suite] = {**SUITES, **HARNESSES}
    each = [name.strip() for name in names.split(",") if name.strip()]
    for name in each:
        if name not in known:
            near = difflib.get_close_matches(name, known, _NEAREST, 0.0)
            raise ConfigError(f"--suite {line(name, 60)!r}: there is no such suite; near are {', '.join(near)}")
    if not each:
        raise ConfigError(f"--suite: name one or more of {', '.join(known)}")
    return [known[name] for name in dict.fromkeys(each)]


def data_files(given: Sequence[str], suites: Sequence[Suite]) -> dict[str, Path]:
    """The files of `--data NAME=FILE`, by suite. Raises ConfigError."""
    files: dict[str, Path] = {}
    for text in given:
        name, equals, file = text.partition("=")
        if not (equals and file):
            raise ConfigError(f"--data {line(text, 200)!r}: write NAME=FILE")
        if name not in {suite.name for suite in suites}:
            raise ConfigError(f"--data {line(name, 60)!r}: is no suite of --suite")
        if files.setdefault(name, Path(file)) != Path(file):
            raise ConfigError(f"--data {name}: two files are given")
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

    Raises SpadeError where nothing can be played, or where the two policies would not compare.
    """
    suites = chosen(asked)
    check_asked(asked.policy)
    if not asked.model and asked.endpoint is None:
        raise ConfigError("RUN|MODEL: name what to measure, or a server by --endpoint")
    if asked.endpoint is not None and (asked.policy, asked.against) != ("newest", "none"):
        raise ConfigError("--endpoint: a server has one policy, compared with none; leave --policy and --against out")
    asked = asked.found()
    subject = Subject.of(asked.model or "nano", asked.config)
    with ExitStack() as pins:
        policy = pins.enter_context(subject.pinned(asked.policy, asked.endpoint))
        now = _planned(subject, policy, suites, asked, complain)
        if asked.against == "none" or not now.exams:
            return list(now.measured(say).values())
        # Before the first is measured, since a run goes on meanwhile and may retire the other.
        other, named = _other(subject, asked.against, asked.config)
        playable = [each for each in suites if each.suite.name in {exam.suite.name for exam in now.exams}]
        before = _planned(other, pins.enter_context(other.pinned(named)), playable, asked, complain)
        _refuse_others(now, before)
        found, held = now.measured(say), before.measured(say)
    return [_held_against(each, held.get(name)) for name, each in found.items()]


def _other(subject: Subject, against: str, config: str | None) -> tuple[Subject, str]:
    """The other side of the comparison: another run and its newest policy, or a policy of the same subject."""
    if RunDir(Path(against)).exists:
        return Subject.of(against, config), "newest"
    return subject, against


def _planned(
    subject: Subject, policy: PinnedPolicy, suites: Sequence[Chosen], asked: EvalOptions, complain: Say
) -> Planned:
    """The evaluations of one policy."""
    context = max(each.protocol.context_tokens(subject.model_facts.context_tokens) for each in suites)
    pairs = [(each.suite, each.protocol) for each in suites]
    folder = policy.folder or Path(subject.model)
    others = _others(asked)
    config = settings(subject.base, asked.overrides, folder, subject.dtype, pairs, context, others)
    return Planned(subject, policy, config, _exams(subject, policy, suites, asked, config, complain), asked.servers)


def _others(asked: EvalOptions) -> dict[str, object]:
    """Settings of the place where the policy is sampled, if that is no engine of ours."""
    if asked.endpoint is None:
        return {
            "serve.host": "127.0.0.1",
            "serve.port": free_port("127.0.0.1"),
            "serve.key": "",
            "serve.name": "policy",
        }
    return {"actors.engines": 0, "engine.arithmetic": "model"} if asked.chats else asked.endpoint.settings


def _refuse_others(now: Planned, before: Planned) -> None:
    """Raises ConfigError where evaluations of one suite differ in more than the policy."""
    rules = {exam.suite.name: exam.plan.rules for exam in before.exams}
    for exam in now.exams:
        if exam.suite.name in rules:
            refuse_other(exam.plan.rules, rules[exam.suite.name])


def _exams(
    subject: Subject,
    policy: PinnedPolicy,
    suites: Sequence[Chosen],
    asked: EvalOptions,
    config: Config,
    complain: Say,
) -> list[Exam]:
    exams = []
    tokenizer = Tokenizer.load(model_folder(subject.model), thinking=config.model.thinking)
    for suite, plain, data in suites:
        protocol = suite.with_examples(plain, config.play.examples)
        try:
            conditions = _conditions(config, suite, protocol, asked)
            ours = asked.endpoint is None or not isinstance(suite, Harness)  # else the tokenizer is another one's
            talks = suite.talks(protocol, tokenizer) if ours else suite_talks(protocol, tokenizer)
            plan = resolve(suite, protocol, policy.digest, asked.seed, data, asked.items, conditions)
            check_sizes(f"suite {suite.name}", plan.items.values(), config)
        except SpadeError as error:
            complain(f"spade: {error}")
        else:
            exams.append(Exam(subject.root, suite, plan, talks, data))
    return exams


def _conditions(config: Config, suite: Suite, protocol: Protocol, asked: EvalOptions) -> dict[str, str]:
    """See Rules. Raises ConfigError where the suite cannot be played so."""
    if isinstance(suite, Harness):
        return _served(config, protocol, asked) | _users(suite, asked)
    if asked.chats is None:
        pinned = {} if asked.endpoint is None else {"policy": NOT_PINNED}
        return pinned | _run_here(config, protocol, known=asked.endpoint is None)
    if SUITE_TRAITS[suite.name].tools:
        raise ConfigError(f"suite {suite.name}: needs a server of token ids, and RUN|MODEL with its tokenizer")
    return _served(config, protocol, asked)


def _served(config: Config, protocol: Protocol, asked: EvalOptions) -> dict[str, str]:
    """Conditions of a policy that is asked by chats, over a gateway of ours or a server of others."""
    if asked.endpoint is None:
        return {"asked": "chats", **_run_here(config, protocol)}
    return {"asked": "chats", "dtype": "unknown", "policy": NOT_PINNED, "tokens": "of the server's count"}


def _run_here(config: Config, protocol: Protocol, *, known: bool = True) -> dict[str, str]:
    """Conditions of a policy whose tokens we know; `known`: its arithmetic, too."""
    return {
        "context_tokens": str(protocol.context_tokens(config.engine.context_tokens)),
        "dtype": _arithmetic(config) if known else "unknown",
        "thinking": str(config.model.thinking).lower(),
        "thoughts": config.play.thoughts,
    }


def _users(suite: Harness, asked: EvalOptions) -> dict[str, str]:
    """The model that plays the users. Raises ConfigError where the suite needs one that is not given."""
    if not suite.users:
        return {}
    if asked.user is None:
        raise ConfigError(
            f"suite {suite.name}: a strong model must play its users: give --user-url URL, or --user-url {SELF}, whose "
            "figures compare with no others"
        )
    return {"user": SELF if asked.user.url == SELF else asked.user.name}


def _arithmetic(config: Config) -> str:
    return config.model.dtype if config.engine.arithmetic == "model" else config.engine.arithmetic


def _told(exam: Exam, policy: PinnedPolicy) -> MeasuredSuite:
    summary = read_summary(exam.folder)
    assert summary is not None, "an evaluation that was opened has a summary"
    return MeasuredSuite(str(exam.folder), exam.plan.rules, policy.name, summary)


def _held_against(now: MeasuredSuite, before: MeasuredSuite | None) -> MeasuredSuite:
    if before is None:
        return msgspec.structs.replace(now, why="the other policy was not measured")
    return msgspec.structs.replace(now, against=before, difference=compared(now.summary, before.summary))
