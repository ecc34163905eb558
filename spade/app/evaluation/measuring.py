"""`spade eval`: plan the evaluations that the options name, measure what is missing, and return the results."""

import difflib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import NamedTuple

import msgspec

from actors.suites import SUITES, Suite, check_sizes, resolve
from actors.suites.chat_format import make_suite_chat_formats
from actors.suites.harnesses import HARNESSES, Harness
from spade.app.evaluation.examination import derive_settings, measure
from spade.app.evaluation.planned import PlannedEvaluation, Say
from spade.app.evaluation.policies import PinnedPolicy, check_asked, hold_pinned, list_policy_names
from spade.app.evaluation.servers import ServerOptions, Servers, choose_address
from spade.app.rundir import RunDir, suggest_runs
from spade.app.screen.evaluations import NOT_PINNED, SELF, MeasuredSuite
from spade.config import DOMAINS, SUITE_TRAITS, Config, ProtocolName, load
from spade.disk import refuse_unprintable
from spade.errors import ConfigError, SpadeError
from spade.evaluations import (
    TABLES,
    Protocol,
    compare_summaries,
    read_summary,
    refuse_other,
    refuse_other_prompts,
)
from spade.evaluations.folder import EVALUATIONS
from spade.policy.model_folder import ModelFacts, read_facts
from spade.policy.model_folder import resolve as model_folder
from spade.text import as_line
from spade.tokens import Tokenizer

_NEAREST = 3


class EvalOptions(NamedTuple):
    """The options of `spade eval`, as they were typed. If `model` is "", we send chats to `endpoint`."""

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
        """Return the server to which we send chats, because its tokenizer is unknown. None if we send token ids."""
        return None if self.model else self.endpoint

    @property
    def curve(self) -> bool:
        """Return True if several policies of a run are requested."""
        return self.policy.startswith("every:")

    @property
    def servers(self) -> Servers:
        """Return the servers of the evaluation."""
        user = None if self.user is None or self.user.url == SELF else self.user
        return Servers(self.endpoint, bool(self.model), user)

    def found(self) -> "EvalOptions":
        """Return the options with the servers' model names filled in.

        Raises ConfigError if a server does not answer.
        """
        endpoint, user = self.endpoint, self.user
        if endpoint is not None and (self.chats or any(isinstance(each, Harness) for each in find_suites(self.suites))):
            endpoint = endpoint.found("--endpoint")
        if user is not None and user.url != SELF:
            user = user.found("--user-url")
        return self._replace(endpoint=endpoint, user=user)


class ChosenSuite(NamedTuple):
    """A suite of the command, with its protocol and data file."""

    suite: Suite
    protocol: Protocol
    data: Path | None


class Subject(NamedTuple):
    """A run or a model to be measured."""

    root: Path
    """Results go below this folder."""

    run: RunDir | None
    """The run's directory, or None for a model."""

    model: str
    """The model with which the run began, or the model itself."""

    base: str
    """The run or recipe with the settings of sampling and playing."""

    dtype: str
    """Number format of the weights."""

    model_facts: ModelFacts
    """Facts about the model."""

    @property
    def place(self) -> Path:
        """Return the folder of its evaluations."""
        return self.root / EVALUATIONS

    @classmethod
    def of(cls, model: str, config: str | None) -> "Subject":
        """Find a run or else a model. Raises ConfigError for neither, RunError for links and unprintable paths."""
        run = RunDir(Path(model))
        if run.exists:
            run.refuse_links()
            refuse_unprintable(run.path, "rename the folder")
            base = config or str(run.config_path)
            path = str(run.start) if run.origin is not None else run.config().model.path
            return cls(run.path, run, path, base, run.config().model.dtype, read_facts(model_folder(path)))
        try:
            found = read_facts(folder := model_folder(model))
        except ConfigError as error:
            raise ConfigError(
                f"{as_line(model, 200)}: is not a run, and as a model: {error}; {suggest_runs(model)}".rstrip("; ")
            ) from None
        refuse_unprintable(folder, "rename the folder")
        refuse_unprintable(Path.cwd(), "rename the folder")
        return cls(Path.cwd(), None, model, config or "nano", found.dtype, found)

    def pinned(
        self, asked: str, endpoint: ServerOptions | None = None, overrides: Sequence[str] | None = None
    ) -> AbstractContextManager[PinnedPolicy]:
        """Pin the requested policy: its weights stay during the block. If the endpoint is given, return its policy.

        Give `overrides` (settings as in `--set`) if an engine will sample from the policy. Raises RunError if this is
        the torch engine and it cannot run the model.
        """
        if endpoint is not None:
            return nullcontext(endpoint.policy(model_folder(self.model)))
        sampled = overrides is not None and _load_with(self.base, overrides, "engine.kind").engine.kind == "torch"
        return hold_pinned(self.run, self.model, self.dtype, asked, self.place, sampled=sampled)


class PolicyPlan(NamedTuple):
    """The evaluations of one policy, and the config of their processes."""

    subject: Subject
    policy: PinnedPolicy
    config: Config
    exams: Sequence[PlannedEvaluation]
    servers: Servers = Servers()

    def measured(self, say: Say) -> dict[str, MeasuredSuite]:
        """Measure the missing samples. Return all evaluations by suite."""
        if self.exams:
            measure(self.subject.place, self.config, self.policy, self.exams, say, self.servers)
        return {exam.suite.name: _read_measured(exam, self.policy) for exam in self.exams}


def _load_with(base: str, overrides: Sequence[str], key: str) -> Config:
    """Load `base` with the overrides of one setting. The other overrides are checked once the policy is known."""
    return load(base, tuple(each for each in overrides if each.partition("=")[0].strip() == key))


def find_suites(names: str) -> list[Suite]:
    """Return the suites in a comma-separated list. A table's name stands for its suites.

    Raises ConfigError if a name is unknown, and suggests the nearest names.
    """
    known: Mapping[str, Suite] = {**SUITES, **HARNESSES}
    given = [name.strip() for name in names.split(",") if name.strip()]
    each = [suite for name in given for suite in TABLES.get(name, (name,))]
    for name in each:
        if name not in known:
            near = difflib.get_close_matches(name, [*known, *TABLES], _NEAREST, 0.0)
            raise ConfigError(f"--suite {as_line(name, 60)!r}: unknown suite; did you mean {', '.join(near)}?")
    if not each:
        raise ConfigError(f"--suite: name one or more of {', '.join(known)}")
    return [known[name] for name in dict.fromkeys(each)]


def parse_data_files(given: Sequence[str], suites: Sequence[Suite]) -> dict[str, Path]:
    """Parse `--data NAME=FILE`. Return the files by suite. Raises ConfigError for a malformed or unused option."""
    files: dict[str, Path] = {}
    for text in given:
        name, equals, file = text.partition("=")
        if not (equals and file):
            raise ConfigError(f"--data {as_line(text, 200)!r}: write NAME=FILE")
        if name not in {suite.name for suite in suites}:
            raise ConfigError(f"--data {as_line(name, 60)!r}: add this suite by --suite")
        if files.setdefault(name, Path(file)) != Path(file):
            raise ConfigError(f"--data {name}: two files are given")
    return files


def choose_suites(asked: EvalOptions) -> list[ChosenSuite]:
    """Return the suites and their protocols. Raises ConfigError if an option is invalid."""
    if asked.items is not None and asked.protocol != "short":
        raise ConfigError("--items: only --protocol short plays a part of a suite")
    suites = find_suites(asked.suites)
    files = parse_data_files(asked.data, suites)
    found = []
    for suite in suites:
        protocol = suite.protocol(asked.protocol)
        if asked.samples is not None:
            protocol = msgspec.structs.replace(protocol, samples=asked.samples)
        found.append(ChosenSuite(suite, protocol, files.get(suite.name)))
    return found


def evaluate(asked: EvalOptions, say: Say, complain: Say) -> list[MeasuredSuite]:
    """Measure the missing samples and return all results.

    Calls `complain` with a line for each suite that cannot be played or has fewer items than `asked.items`. A policy
    "every:N" means each policy of the run at a multiple of N learner steps. Each of them is compared with the start of
    the run, unless another policy is named. Returns [] if no suite can be played. Raises SpadeError if a policy cannot
    be measured, or if two policies would not be comparable.
    """
    suites = choose_suites(asked)
    if not asked.curve:
        check_asked(asked.policy, curve=True)
    if not asked.model and asked.endpoint is None:
        raise ConfigError("RUN|MODEL: name what to measure, or a server by --endpoint")
    if asked.endpoint is not None and (asked.policy, asked.against) != ("newest", "none"):
        raise ConfigError("--endpoint: a server has one policy and no comparison; leave --policy and --against out")
    asked = asked.found()
    subject = Subject.of(asked.model or "nano", asked.config)
    with ExitStack() as pins:
        # Pin all policies before measuring the first one: the run goes on and may retire the others.
        names = list_policy_names(subject.run, asked.policy)
        policies = [pins.enter_context(subject.pinned(name, asked.endpoint, asked.overrides)) for name in names]
        first = _plan_policy(subject, policies[0], suites, asked, complain)
        for exam in first.exams:
            if exam.plan.rules.items < (asked.items or 0):
                there = f"it has only {exam.plan.rules.items} items; all of them are played"
                complain(f"suite {exam.suite.name}: --items {asked.items}: {there}")
        playable = [each for each in suites if each.suite.name in {exam.suite.name for exam in first.exams}]
        plans = [first, *(_plan_policy(subject, policy, playable, asked, complain) for policy in policies[1:])]
        against = "start" if asked.curve and asked.against == "none" else asked.against
        if against == "none" or not first.exams:
            return [each for plan in plans for each in plan.measured(say).values()]
        other, named = _find_other(subject, against, asked.config)
        before = _plan_policy(
            other, pins.enter_context(other.pinned(named, None, asked.overrides)), playable, asked, complain
        )
        for plan in plans:
            _refuse_others(plan, before)
        found, held = [plan.measured(say) for plan in plans], before.measured(say)
    return [_compare_measured(each, held.get(name)) for one in found for name, each in one.items()]


def _find_other(subject: Subject, against: str, config: str | None) -> tuple[Subject, str]:
    """Return the other side of the comparison: another run's newest policy, or a policy of the same subject."""
    if RunDir(Path(against)).exists:
        return Subject.of(against, config), "newest"
    return subject, against


def _plan_policy(
    subject: Subject, policy: PinnedPolicy, suites: Sequence[ChosenSuite], asked: EvalOptions, complain: Say
) -> PolicyPlan:
    """Plan the evaluations of one policy."""
    suites = _extend_for_thoughts(subject, suites, asked)
    context = max(each.protocol.context_tokens(subject.model_facts.context_tokens) for each in suites)
    pairs = [(each.suite, each.protocol) for each in suites]
    folder = policy.folder or Path(subject.model)
    others = _make_sampling_settings(asked)
    config = derive_settings(subject.base, asked.overrides, folder, subject.dtype, pairs, context, others)
    exams = _make_exams(subject, policy, suites, asked, config, complain)
    if exams and len(exams) < len(suites):  # plan again, without the libraries of unplayable suites
        playable = {exam.suite.name for exam in exams}
        kept = [each for each in suites if each.suite.name in playable]
        return _plan_policy(subject, policy, kept, asked, complain)
    return PolicyPlan(subject, policy, config, exams, asked.servers)


def _extend_for_thoughts(subject: Subject, suites: Sequence[ChosenSuite], asked: EvalOptions) -> Sequence[ChosenSuite]:
    """Give harnesses longer turns if `model.thinking` is true, by the run or recipe or by `--set`."""
    if not _load_with(subject.base, asked.overrides, "model.thinking").model.thinking:
        return suites
    return [
        each._replace(protocol=each.suite.for_thoughts(each.protocol)) if isinstance(each.suite, Harness) else each
        for each in suites
    ]


def _make_sampling_settings(asked: EvalOptions) -> dict[str, object]:
    """Return the settings that decide who samples: our engines behind a gateway, or a foreign server."""
    if asked.endpoint is None:
        return {
            "serve.address": choose_address("127.0.0.1"),
            "serve.key": "",
            "serve.name": "policy",
        }
    return {"actors.engines": 0, "engine.arithmetic": "model"} if asked.chats else asked.endpoint.settings


def _refuse_others(now: PolicyPlan, before: PolicyPlan) -> None:
    """Raise ConfigError if evaluations of one suite differ in more than the policy."""
    rules = {exam.suite.name: exam.plan.rules for exam in before.exams}
    for exam in now.exams:
        if exam.suite.name in rules:
            refuse_other(exam.plan.rules, rules[exam.suite.name])


def _make_exams(
    subject: Subject,
    policy: PinnedPolicy,
    suites: Sequence[ChosenSuite],
    asked: EvalOptions,
    config: Config,
    complain: Say,
) -> list[PlannedEvaluation]:
    exams = []
    tokenizer = Tokenizer.load(model_folder(subject.model), thinking=config.model.thinking)
    for suite, plain, data in suites:
        protocol = suite.with_examples(plain, config.play.examples)
        try:
            conditions = _find_conditions(config, suite, protocol, asked)
            # a server that plays a harness uses its own tokenizer
            ours = asked.endpoint is None or not isinstance(suite, Harness)
            chat_formats = (
                suite.chat_formats(protocol, tokenizer) if ours else make_suite_chat_formats(protocol, tokenizer)
            )
            plan = resolve(suite, protocol, policy.digest, asked.seed, data, asked.items, conditions)
            check_sizes(f"suite {suite.name}", plan.items.values(), config)
        except SpadeError as error:
            complain(f"spade: {error}")
        else:
            exams.append(PlannedEvaluation(subject.root, suite, plan, chat_formats, data))
    return exams


def _find_conditions(config: Config, suite: Suite, protocol: Protocol, asked: EvalOptions) -> dict[str, str]:
    """Return the conditions of an evaluation (`Rules.conditions`). Raises ConfigError if the suite is not playable."""
    if isinstance(suite, Harness):
        return _describe_served(config, protocol, asked) | _find_users(suite, asked)
    if asked.chats is None:
        pinned = {} if asked.endpoint is None else {"policy": NOT_PINNED}
        return pinned | _run_here(config, protocol, known=asked.endpoint is None)
    if DOMAINS[SUITE_TRAITS[suite.name].domain].takes_calls:
        raise ConfigError(f"suite {suite.name}: needs a server of token ids, and RUN|MODEL with its tokenizer")
    return _describe_served(config, protocol, asked)


def _describe_served(config: Config, protocol: Protocol, asked: EvalOptions) -> dict[str, str]:
    """Return the conditions of a policy that answers chats, behind our gateway or on a foreign server."""
    if asked.endpoint is None:
        return {"asked": "chats", **_run_here(config, protocol)}
    return {"asked": "chats", "dtype": "unknown", "policy": NOT_PINNED, "tokens": "of the server's count"}


def _run_here(config: Config, protocol: Protocol, *, known: bool = True) -> dict[str, str]:
    """Return the conditions of a policy that samples from our token ids. `known` is True if our engines sample. Only
    then is the dtype known."""
    dtype = config.model.dtype if config.engine.arithmetic == "model" else config.engine.arithmetic
    return {
        "context_tokens": str(protocol.context_tokens(config.engine.context_tokens)),
        "dtype": dtype if known else "unknown",
        "thinking": str(config.model.thinking).lower(),
        "thoughts": config.play.thoughts,
    }


def _find_users(suite: Harness, asked: EvalOptions) -> dict[str, str]:
    """Return the model that plays the users. Raises ConfigError if the suite needs one and none is given."""
    if not suite.users:
        return {}
    if asked.user is None:
        raise ConfigError(
            f"suite {suite.name}: a strong model must play its users; give --user-url URL, or --user-url {SELF}, "
            "which makes the figures incomparable with any others"
        )
    return {"user": SELF if asked.user.url == SELF else asked.user.name}


def _read_measured(exam: PlannedEvaluation, policy: PinnedPolicy) -> MeasuredSuite:
    summary = read_summary(exam.folder)
    assert summary is not None, "an evaluation that was opened has a summary"
    return MeasuredSuite(str(exam.folder), exam.plan.rules, policy.name, summary, step=policy.step)


def _compare_measured(now: MeasuredSuite, before: MeasuredSuite | None) -> MeasuredSuite:
    if before is None:
        return msgspec.structs.replace(now, why="the other policy was not measured")
    try:
        refuse_other_prompts(now.rules, now.summary, before.summary)
    except ConfigError as error:
        return msgspec.structs.replace(now, against=before, why=str(error))
    return msgspec.structs.replace(now, against=before, difference=compare_summaries(now.summary, before.summary))
