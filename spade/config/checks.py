"""Check the rules that types cannot express: settings that conflict, malformed addresses, unprintable texts.

The type of a setting holds its bounds (`spade.config.sections`).
"""

import json
from collections.abc import Collection, Iterable
from typing import get_args

import msgspec

from spade.config.addresses import check_bind, check_endpoint, check_serve, check_servers
from spade.config.domains import DOMAINS
from spade.config.engine_kinds import ENGINE_KINDS
from spade.config.sections import Config, Endpoint, Evaluation, Learner, Pool, PoolLibrary, ToolUse, Track
from spade.config.suites import HARNESS_SUITES, SUITE_TRAITS, ProtocolName
from spade.errors import ConfigError
from spade.protocol import MOST_ACTORS

SEED_SOURCES = ("folder", "run", "shipped")
POOL_SOURCES = (*SEED_SOURCES, *get_args(PoolLibrary))
SCORED = ("reasoning-gym", "rlve", "gem")
BYTES_PER_TOKEN = 9  # most bytes of one token of a trajectory: id, log-probability, a share of version runs


def check(config: Config) -> None:
    """Raise ConfigError if the config cannot work. The error names the fields."""
    _check_texts(config)
    _check_domain(config)
    _check_rounds(config)
    _check_pool(config)
    _check_evaluation(config.evaluation, config.endpoint)
    _check_challenges(config)
    _check_variants(config.tools)
    _check_pairs(config)
    _check_backend(config.learner)
    _check_gpus(config)
    _check_engine(config)
    _check_progress(config)
    _check_arms(config)
    _check_trackers(config.track)
    check_bind(config.bus)
    check_endpoint(config.endpoint, config.design.train)
    check_serve(config.serve)
    check_servers(config.sandbox)


def _check_texts(config: Config) -> None:
    """Refuse unprintable characters, since names and paths are printed and written into TOML and JSON."""
    for section in config.__struct_fields__:
        for field, value in msgspec.structs.asdict(getattr(config, section)).items():
            for text in value if isinstance(value, tuple) else _collect_texts(value):
                if isinstance(text, str) and not text.isprintable():
                    raise ConfigError(f"{section}.{field}: holds characters that cannot be printed: {text!r}")


def _collect_texts(value: object) -> Iterable[object]:
    """Return the value itself or, if it is a table, its keys and the keys of all tables in it."""
    if not isinstance(value, dict):
        return (value,)
    return (*value, *(text for each in value.values() if isinstance(each, dict) for text in _collect_texts(each)))


def _check_domain(config: Config) -> None:
    """Refuse skills, `play.examples` and `play.thoughts` if they do not fit the run's domain."""
    name, domain = config.run.domain, DOMAINS[config.run.domain]
    if others := [skill for skill in config.run.skills if skill not in domain.skills]:
        raise ConfigError(
            f"run.skills: {others[0]!r} is not a skill of run.domain = {name!r}; take {', '.join(domain.skills)}"
        )
    if config.play.examples and domain.takes_calls:
        raise ConfigError(f"play.examples: run.domain = {name!r} answers with calls, not with texts; leave it out")
    if config.play.thoughts not in domain.thoughts:
        raise ConfigError(
            f"play.thoughts: {config.play.thoughts!r} does not fit run.domain = {name!r}; its conversations need "
            f"{domain.thoughts[0]!r}"
        )


def _check_rounds(config: Config) -> None:
    """Refuse repeated skills, too many active skills, and a number of jobs that these cannot share evenly."""
    run, design = config.run, config.design
    if len(set(run.skills)) < len(run.skills):
        raise ConfigError(f"run.skills: names a skill twice: {', '.join(run.skills)}")
    if design.active_skills > len(run.skills):
        raise ConfigError(
            f"design.active_skills: must be 1 to {len(run.skills)} (run.skills), is {design.active_skills}"
        )
    if design.round_jobs % design.active_skills:
        raise ConfigError(
            f"design.round_jobs: {design.round_jobs} jobs cannot be shared evenly by "
            f"design.active_skills = {design.active_skills}"
        )


def _check_pool(config: Config) -> None:
    """Refuse malformed sources of pools and seeds, a run of a pool without a source, and an unused source."""
    _check_source(config.pool)
    seeds = config.design.seeds
    if seeds and not _is_source(seeds, SEED_SOURCES):
        raise ConfigError(f"design.seeds: write folder:DIR, run:RUN or shipped:POOL, is {seeds!r}")
    if config.pool.library and config.pool.library not in config.sandbox.libraries:
        needed = [*config.sandbox.libraries, config.pool.library]
        raise ConfigError(
            f"sandbox.libraries: lacks {config.pool.library!r} of pool.source; set it to {json.dumps(needed)}"
        )
    if config.design.source == "pool" and config.design.seeds:
        raise ConfigError("design.seeds: nobody designs with design.source = 'pool'; leave it out")
    if config.design.source == "pool" and not config.pool.source:
        raise ConfigError("pool.source: design.source = 'pool' needs one: folder:DIR, run:RUN or shipped:POOL")
    if config.design.source == "pool" and config.endpoint.serves("agent"):
        raise ConfigError("endpoint.roles: the endpoint samples for agents, and a run of a pool trains nothing else")
    if config.design.source == "model" and config.pool.source:
        raise ConfigError("pool.source: is played only with design.source = 'pool'; set that too, or leave it out")


def _check_source(pool: Pool) -> None:
    if pool.source.startswith("suite:"):
        raise ConfigError(f"pool.source: {pool.source!r} is a test set, so its results mean nothing after training")
    if pool.source and pool.source != pool.library and not _is_source(pool.source, POOL_SOURCES):
        libraries = ", ".join(get_args(PoolLibrary))
        raise ConfigError(
            "pool.source: write folder:DIR, run:RUN or shipped:POOL, or a library with or without :NAMES "
            f"({libraries}), is {pool.source!r}"
        )
    if not pool.library and pool.difficulty not in ("fixed", 0):
        raise ConfigError(f"pool.difficulty: only libraries have levels, and pool.source is {pool.source!r}")
    if pool.reward == "score" and pool.library not in SCORED:
        raise ConfigError(
            f"pool.reward: only programs of {', '.join(SCORED)} give a score; pool.source is {pool.source!r}"
        )


def _is_source(source: str, kinds: Collection[str]) -> bool:
    kind, _, name = source.partition(":")
    return kind in kinds and bool(name)


def _check_evaluation(evaluation: Evaluation, endpoint: Endpoint) -> None:
    """Refuse a suite that no run can play, an unknown protocol, a missing file, and a file that a suite cannot take.

    Also refuse an endpoint that would sample for the evaluator, since a run measures only its own policy.
    """
    if not evaluation.suite:
        return
    if endpoint.serves("evaluator"):
        raise ConfigError(
            "endpoint.roles: evaluation.suite measures the run's policy, which an endpoint does not have; leave "
            "'evaluator' out"
        )
    (suite, path, protocol), there = evaluation.measured, ", ".join(SUITE_TRAITS)
    if suite in HARNESS_SUITES:
        raise ConfigError(
            f"evaluation.suite: {suite!r} needs a harness, an external program that drives the policy, and a run "
            f"cannot play it; take one of {there}"
        )
    if suite and suite not in SUITE_TRAITS:
        raise ConfigError(f"evaluation.suite: unknown suite {suite!r}; take one of {there}, or write folder:DIR")
    if protocol not in get_args(ProtocolName):
        raise ConfigError(
            f"evaluation.suite: unknown protocol {protocol!r}; take one of {', '.join(get_args(ProtocolName))}"
        )
    if not path and (not suite or SUITE_TRAITS[suite].given):
        what = f"the suite {suite!r} needs its file: {suite}:FILE" if suite else "write folder:DIR"
        raise ConfigError(f"evaluation.suite: {what}; docs/evaluation.md describes it")
    if path and suite and not SUITE_TRAITS[suite].given:
        raise ConfigError(f"evaluation.suite: the suite {suite!r} brings its items itself; leave {path!r} out")


def _check_challenges(config: Config) -> None:
    """Refuse difficulties that need more turns than a play has, and questions for which the profile has no prompt."""
    if config.model.profile == "nano":  # the prompts of nano do not state a difficulty
        if config.tools.screen:
            raise ConfigError("tools.screen: model.profile 'nano' lacks the prompt; leave it out")
        if config.design.reviews:
            raise ConfigError("design.reviews: model.profile 'nano' lacks the prompt; leave it out")
        return
    domain, takes_calls = config.run.domain, DOMAINS[config.run.domain].takes_calls
    if config.design.reviews and takes_calls:
        raise ConfigError(f"design.reviews: run.domain = {domain!r} uses tools.screen instead; leave it out")
    turns = config.play.max_turns
    for name, steps in config.design.difficulties if config.design.source == "model" else ():
        if steps > turns:
            raise ConfigError(f"design.difficulties: {name!r} takes {steps} actions, over play.max_turns = {turns}")
    if config.design.source == "model" and not takes_calls and config.design.max_turns > turns:
        raise ConfigError(
            f"design.max_turns: the prompt would show {config.design.max_turns} turns, over play.max_turns = {turns}"
        )


def _check_variants(tools: ToolUse) -> None:
    """Refuse weights that are all zero, since no variant could be drawn."""
    if not sum(tools.variants):
        raise ConfigError(f"tools.variants: at least one weight must be over 0, are {list(tools.variants)}")


def _check_pairs(config: Config) -> None:
    """Refuse pairs of settings in the wrong order."""
    reward, learner, actors = config.reward, config.learner, config.actors
    if reward.anchor_low > reward.anchor_high:
        raise ConfigError(f"reward.anchor_low: {reward.anchor_low} is over reward.anchor_high = {reward.anchor_high}")
    if learner.schedule == "cosine" and learner.lr_min > learner.lr:
        raise ConfigError(
            f"learner.lr_min: {learner.lr_min} is over learner.lr = {learner.lr}, from which the cosine falls; lower "
            'learner.lr_min, or take learner.schedule = "constant"'
        )
    if learner.schedule == "cosine" and learner.schedule_steps <= learner.warmup_steps + 1:
        raise ConfigError(
            f"learner.schedule_steps: {learner.schedule_steps} leave no step for the cosine after "
            f"learner.warmup_steps = {learner.warmup_steps}; raise learner.schedule_steps, or take "
            'learner.schedule = "constant"'
        )
    for name, (least, most) in {"agents": actors.agents_bounds, "engines": actors.engines_bounds}.items():
        if not least <= most <= MOST_ACTORS:
            raise ConfigError(f"actors.{name}: write MIN..MAX with MIN <= MAX <= {MOST_ACTORS}, is {least}..{most}")


def _check_backend(learner: Learner) -> None:
    """Refuse settings that the backend would ignore."""
    if learner.backend == "torch" and (learner.processes > 1 or learner.offload != "none"):
        raise ConfigError(
            "learner.processes, learner.offload: backend 'torch' ignores both; use learner.backend=deepspeed"
        )
    if learner.checkpoint == "sharded" and (learner.backend == "torch" or learner.lora_rank):
        why = "an adapter is small" if learner.lora_rank else "backend 'torch' is one process"
        raise ConfigError(f"learner.checkpoint: {why}, so its checkpoints are whole; set learner.checkpoint=whole")
    least = {"none": 0, "optimizer": 1, "all": 3}[learner.offload]
    if learner.zero_stage < least:
        raise ConfigError(f"learner.offload: {learner.offload!r} needs learner.zero_stage {least} or more")


def _check_gpus(config: Config) -> None:
    """Refuse lists of GPUs that do not fit the number of processes."""
    engine, learner, each = config.engine, config.learner, config.engine.tensor_parallel
    for name, gpus, device in ("engine", engine.gpus, engine.device), ("learner", learner.gpus, learner.device):
        if gpus and device not in ("auto", "cuda"):
            raise ConfigError(f"{name}.gpus: has no effect with {name}.device = {device!r}; use 'auto'")
    if len(engine.gpus) % each:
        raise ConfigError(f"engine.gpus: {len(engine.gpus)} is not a multiple of engine.tensor_parallel = {each}")
    most = config.actors.engines_bounds[1]
    if engine.gpus and most * each > len(engine.gpus):
        raise ConfigError(
            f"engine.gpus: {len(engine.gpus)} are too few for actors.engines = {config.actors.engines} of "
            f"engine.tensor_parallel = {each}; name more, or one twice to share it"
        )
    parts = [engine.gpus[at : at + each] for at in range(0, len(engine.gpus), each)]
    if twice := [part for part in (*parts, learner.gpus) if len(set(part)) < len(part)]:
        name = "learner" if twice[0] is learner.gpus else "engine"
        raise ConfigError(f"{name}.gpus: {list(twice[0])} would give one model the same GPU twice")
    if learner.gpus and len(learner.gpus) < learner.processes:
        raise ConfigError(
            f"learner.gpus: {len(learner.gpus)} are too few for learner.processes = {learner.processes}, a GPU each"
        )
    if both := sorted(set(engine.gpus) & set(learner.gpus)):
        raise ConfigError(
            f"engine.gpus, learner.gpus: both name {both}; if one of them runs on another machine, leave its list "
            "empty here, for example --set learner.gpus=[]"
        )


def _check_engine(config: Config) -> None:
    """Refuse settings that this kind of engine cannot serve, and name the kinds that can."""
    kind, traits = config.engine.kind, ENGINE_KINDS[config.engine.kind]
    if config.engine.tensor_parallel > 1 and not traits.tensor_parallel:
        others = (other for other, can in ENGINE_KINDS.items() if can.tensor_parallel)
        raise ConfigError(f"engine.tensor_parallel: the {kind} engine uses one device{_suggest_kinds(others)}")
    if config.engine.arithmetic == "float64" and not traits.float64:
        others = (other for other, can in ENGINE_KINDS.items() if can.float64)
        raise ConfigError(f"engine.arithmetic: the {kind} engine lacks float64{_suggest_kinds(others)}")
    for name, temperature in ("design", config.design.temperature), ("play", config.play.temperature):
        if not traits.samples_at(temperature):
            others = (other for other, can in ENGINE_KINDS.items() if can.samples_at(temperature))
            taken = "{:g} to {:g}".format(*traits.temperatures)
            raise ConfigError(
                f"{name}.temperature: the {kind} engine takes {taken}, is {temperature}{_suggest_kinds(others)}"
            )


def _suggest_kinds(kinds: Iterable[str]) -> str:
    return "".join(f"; or take engine.kind={kind}" for kind in kinds)


def _check_progress(config: Config) -> None:
    """Refuse settings under which processes would wait for each other forever."""
    design, play, learner, engine = config.design, config.play, config.learner, config.engine
    if play.max_turn_tokens >= play.context_tokens:
        raise ConfigError("play.max_turn_tokens: must be under play.context_tokens, else no observation fits")
    if play.context_tokens > engine.context_tokens:
        raise ConfigError(
            f"play.context_tokens: {play.context_tokens} do not fit engine.context_tokens = {engine.context_tokens}"
        )
    if design.source == "model" and design.max_tokens >= engine.context_tokens:
        raise ConfigError(
            f"design.max_tokens: {design.max_tokens} leave no room for a prompt in engine.context_tokens = "
            f"{engine.context_tokens}"
        )
    if learner.batch_sequences < play.group_size:
        raise ConfigError("learner.batch_sequences: must hold at least one group (play.group_size)")
    if config.bus.silence_s <= 2 * config.bus.heartbeat_s:
        raise ConfigError("bus.silence_s: must be more than two heartbeats (bus.heartbeat_s)")
    _check_training(config)


def _check_training(config: Config) -> None:
    """Refuse a message size that cannot hold a full batch, since the learner would wait for the batch forever."""
    design, play, learner = config.design, config.play, config.learner
    # A batch takes whole groups until it is full, so the last group may exceed the limit.
    sequences = learner.batch_sequences - 1 + max(play.group_size, design.round_jobs // design.active_skills)
    # Under "strip" the trajectory of a play holds the thoughts of every turn in addition to the last context.
    thoughts = play.max_turns * play.max_turn_tokens if play.thoughts == "strip" else 0
    longest = max(play.context_tokens + thoughts, config.engine.context_tokens)
    if sequences * longest * BYTES_PER_TOKEN > config.bus.max_message_bytes:
        raise ConfigError(
            f"bus.max_message_bytes: {config.bus.max_message_bytes} do not hold a batch of {sequences} sequences of "
            f"{longest} tokens ({sequences * longest * BYTES_PER_TOKEN}), so the learner could wait for it for ever"
        )


def _check_arms(config: Config) -> None:
    """Refuse settings of plays under which the designer's reward cannot be measured.

    The regret needs plays with the hint. The change of the win rate needs plays on many instances, because the formula
    for its error assumes independent plays.
    """
    if config.uses_regret and not config.hinted:
        raise ConfigError(
            f"play.hinted: reward.kind = {config.reward.kind!r} is measured with the hint; take play.hinted=auto, or "
            "another reward.kind"
        )
    if config.uses_regret and config.reward.kind in ("progress", "finding") and config.play.instances == "group":
        raise ConfigError(
            f"play.instances: reward.kind = {config.reward.kind!r} compares the chunks of a window, each of which "
            "would have a single instance; take play.instances=play, or another reward.kind"
        )


def _check_trackers(track: Track) -> None:
    """Refuse unknown trackers, and two of one kind."""
    if len({choice.kind for choice in track.choices}) < len(track.to):
        raise ConfigError(f"track.to: names a tool twice: {', '.join(track.to)}")
