"""The one typed configuration of a run: frozen structs, TOML, unknown keys refused with their path.

Defaults are the paper's numbers for games; a recipe in `configs/` states only what differs. `load` is the one way in:
file, then overrides, then the checks that look across fields.
"""

import hashlib
import ipaddress
import math
import re
import tomllib
from pathlib import Path
from typing import Any, Literal

import msgspec
import tomli_w

from spade.errors import ConfigError, reason

BYTES_PER_TOKEN = 9  # of a trajectory at most: id, log-probability, and its share of what counts and names them
LONGEST_WAIT_S = 3_600.0  # of a request for work

SKILLS = (
    "mathematical reasoning",
    "logical deduction",
    "spatial reasoning",
    "pattern recognition",
    "optimization",
    "causal inference",
)


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of all sections."""


class Run(Section, frozen=True):
    """`seed` None draws the run's secret; a number derives it, so that two runs hand out the same work."""

    domain: Literal["games"] = "games"
    skills: tuple[str, ...] = SKILLS
    seed: int | None = None


class Model(Section, frozen=True):
    """`path` is a checkpoint folder, a hub name or "nano"; `profile` says which prompts fit it."""

    path: str = "nano"
    profile: Literal["nano", "full"] = "full"
    dtype: Literal["float32", "bfloat16"] = "bfloat16"
    thinking: bool = False


class Design(Section, frozen=True):
    """The designer's side. `corpus` is a JSONL of documents or "builtin"; `round_jobs` design jobs make a round.

    `lease_s` is for all attempts of a job. `round_deadline_s` counts from the opening of a group's first job: under
    lease_s + play.window_deadline_s, a window that lasts to its deadline misses its group.
    """

    active_environments: int = 24
    round_jobs: int = 24
    active_skills: int = 3
    attempts: int = 5
    temperature: float = 0.6
    max_tokens: int = 16_384
    hint_max_tokens: int = 512
    corpus: str = "builtin"
    memory_records: int = 200
    memory_seeds: int = 2
    round_deadline_s: float = 21_600.0
    lease_s: float = 7_200.0


class Play(Section, frozen=True):
    """The agent's side. A window is `window_chunks` unhinted chunks of `group_size` plays; the first has a twin."""

    group_size: int = 16
    window_chunks: int = 4
    temperature: float = 0.6
    max_turn_tokens: int = 8_192
    max_turns: int = 25
    context_tokens: int = 32_768
    win_return: float = 1.0
    void_share: float = 0.25
    chunk_wait_s: float = 600.0
    window_deadline_s: float = 7_200.0
    lease_s: float = 1_800.0


class Reward(Section, frozen=True):
    """The designer's reward: regret_weight * clip(regret / regret_scale) + anchor_weight * anchor(win rate)."""

    regret_scale: float = 0.15
    regret_weight: float = 0.4
    anchor_weight: float = 0.6
    anchor_low: float = 0.4
    anchor_high: float = 0.6
    anchor_ramp: float = 0.25
    shrink: bool = False


class Loss(Section, frozen=True):
    """docs/learner.md has the formula of each `kind`. `kl` weighs the KL to the model the run started from."""

    kind: Literal["tis", "icepop", "sequence_tis", "cispo", "gspo"] = "tis"
    aggregation: Literal["token", "sequence"] = "token"
    cap: float = 2.0
    clip_low: float = 0.20
    clip_high: float = 0.28
    mask_low: float = 0.5
    mask_high: float = 5.0
    kl: float = 0.0


class Learner(Section, frozen=True):
    """Optimisation, batches and the bounds on policy lag (in published versions).

    The learning rate rises over `warmup_steps` to `lr`; then `schedule` "constant" keeps it, and "cosine" takes it to
    `lr_min` at step `schedule_steps`. A micro-batch packs whole sequences of up to `microbatch_tokens`;
    `activation_checkpointing` keeps each layer's input alone and computes the rest again for the gradient.

    Backend "deepspeed" takes `processes` on this machine (a GPU each), shards by `zero_stage` and keeps the optimiser's
    state, or "all" the parameters too, in the CPU's memory by `offload`. With `lora_rank` an adapter alone is trained,
    and published merged. Process r takes the r-th of `gpus`; () is all that are visible.
    """

    backend: Literal["torch", "deepspeed"] = "torch"
    processes: int = 1
    zero_stage: Literal[0, 1, 2, 3] = 2
    offload: Literal["none", "optimizer", "all"] = "none"
    lora_rank: int = 0
    lora_alpha: float = 32.0
    device: str = "auto"
    gpus: tuple[int, ...] = ()
    threads: int = 0
    lr: float = 1e-6
    schedule: Literal["constant", "cosine"] = "constant"
    warmup_steps: int = 0
    schedule_steps: int = 400
    lr_min: float = 0.0
    adam_beta1: float = 0.9
    adam_beta2: float = 0.98
    weight_decay: float = 0.1
    max_grad_norm: float = 1.0
    batch_sequences: int = 192
    microbatch_tokens: int = 65_536
    steps_per_batch: int = 1
    publish_every: int = 1
    checkpoint_every: int = 10
    keep_checkpoints: int = 2
    agent_lag: int = 4
    designer_lag: int = 12
    designer_weight_max: float = 32.0
    group_deadline_s: float = 7_200.0
    adam_eps: float = 1e-8
    activation_checkpointing: bool = True


class Actors(Section, frozen=True):
    """How many processes of each role `spade up` starts, and how much each does at once.

    `agents` "auto" grows and shrinks them by starvation and load, from `agents_min` to `agents_max`.
    """

    designers: int = 1
    agents: int | Literal["auto"] = 2
    runners: int = 1
    engines: int = 1
    designs_in_flight: int = 8
    episodes_in_flight: int = 64
    agents_min: int = 1
    agents_max: int = 8


class Evaluation(Section, frozen=True):
    """The policy measured on the same programs again and again, unhinted; nothing of it is trained on.

    `programs` is a folder of environment programs (*.py), "builtin" (nano's held-out ones) or "" for no evaluation.
    One is `plays` episodes, `in_flight` at once, on the same instance and sampling seeds each time; the next is of a
    policy at least `every_steps` learner steps later.
    """

    programs: str = ""
    plays: int = 256
    in_flight: int = 8
    every_steps: int = 10


class Engine(Section, frozen=True):
    """`rows` sequences at once, each of at most play.context_tokens or the designer's prompt and answer.

    `canary_tolerance` is how far an engine's log-probabilities of the canary may be off the learner's, in nats; None:
    1e-3 in float32, 0.25 in bfloat16.
    `kv_bytes` bounds the keys and values of all of them (docs/engines.md says what happens when they are full).
    At new weights `swap` "keep" lets the sequences in flight go on with them; "wait" lets them end with the old ones
    first, and begins nothing meanwhile.

    `tensor_parallel` GPUs hold one copy of the model (vLLM). The first engine takes the first so many of `gpus`, the
    next the next; a GPU named twice is shared. () is all that are visible, to each.
    """

    kind: Literal["torch", "vllm"] = "torch"
    device: str = "auto"
    gpus: tuple[int, ...] = ()
    threads: int = 0
    rows: int = 64
    context_tokens: int = 32_768
    request_deadline_s: float = 1_800.0
    tensor_parallel: int = 1
    canary_tolerance: float | None = None
    kv_bytes: int = 17_179_869_184
    swap: Literal["keep", "wait"] = "keep"


class Endpoint(Section, frozen=True):
    """An OpenAI-compatible server that samples for `roles`, which are not trained then; `url` "" is none.

    url     root of its API, for example http://127.0.0.1:8000/v1
    model   its name there; "" is the only one
    key     file that holds the API key; "" sends none
    """

    url: str = ""
    model: str = ""
    key: str = ""
    roles: tuple[Literal["designer", "agent"], ...] = ("designer",)


Tier = Literal["namespaces", "landlock", "seccomp", "none"]


class Sandbox(Section, frozen=True):
    """The walls, the limits of one episode's process, and those of the env-runner as a whole.

    `tier` "auto" takes the strongest that holds here and refuses to run without any; "none" is for one's own programs.
    A program that faults `quarantine_faults` times in a row is run no more.
    """

    tier: Literal["auto"] | Tier = "auto"
    load_s: float = 10.0
    step_s: float = 5.0
    memory_bytes: int = 268_435_456
    runner_bytes: int = 4_294_967_296
    observation_bytes: int = 262_144
    episodes: int = 256
    quarantine_faults: int = 8
    random_plays: int = 8
    random_win_share: float = 0.25


class Replay(Section, frozen=True):
    """`sync` fsyncs every commit; `nosync` survives the death of the process, not of the machine.

    A run without a learner step or a finished play for `stall_s` has stalled: the log says once who waits for whom.
    A commit waits up to `commit_delay_ms` after its first request for as many as the last one had. Trajectories that
    were trained and that no resume of the learner needs are deleted once they are `retain_s` old, or while all take
    more than `retain_bytes`; 0 keeps them.
    """

    durability: Literal["sync", "nosync"] = "sync"
    learnable_slots: int = 24
    statistics_plays: int = 512
    stall_s: float = 600.0
    commit_delay_ms: float = 2.0
    retain_s: float = 0.0
    retain_bytes: int = 0


class Bus(Section, frozen=True):
    """Beats, silences and sizes. A peer silent for `silence_s` is given up.

    `bind` "tcp://HOST:PORT" is where the replay service listens, its engines and env-runners at free ports of the same
    host; "" is ipc in the run directory. `keys` is a key folder (`spade keys new`), needed beyond loopback.
    """

    heartbeat_s: float = 1.0
    silence_s: float = 10.0
    call_deadline_s: float = 60.0
    max_message_bytes: int = 67_108_864
    window: int = 256
    bind: str = ""
    keys: str = ""


class Supervise(Section, frozen=True):
    """Restart budget of each process, and how long a starting and a draining one may take.

    A start that fails is noticed at once; `ready_s` is for one that hangs. vLLM on busy cores takes over three minutes.
    """

    restarts: int = 20
    restart_window_s: float = 600.0
    ready_s: float = 600.0
    drain_s: float = 10.0


class Config(Section, frozen=True):
    """A whole run."""

    run: Run = Run()
    model: Model = Model()
    design: Design = Design()
    play: Play = Play()
    reward: Reward = Reward()
    loss: Loss = Loss()
    learner: Learner = Learner()
    actors: Actors = Actors()
    evaluation: Evaluation = Evaluation()
    engine: Engine = Engine()
    endpoint: Endpoint = Endpoint()
    sandbox: Sandbox = Sandbox()
    replay: Replay = Replay()
    bus: Bus = Bus()
    supervise: Supervise = Supervise()


# Changing these changes what a run means, so a resume or a peer with others is refused.
MEANING = ("run", "model", "reward")


def recipes() -> dict[str, Path]:
    """The shipped recipes by name."""
    here = Path(__file__).parent
    folder = here / "configs" if (here / "configs").is_dir() else here.parent / "configs"
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def load(name: str = "nano", overrides: tuple[str, ...] = ()) -> Config:
    """The recipe or TOML file `name` with `overrides` ("learner.lr=1e-5") applied and checked.

    Raises ConfigError with one line that says what, where and what to do.
    """
    path = recipes().get(name, Path(name))
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"no config {name!r}: give a TOML file or one of {', '.join(recipes())}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: is no TOML: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {reason(error)}") from None
    for override in overrides:
        _override(tree, override)
    try:
        config = msgspec.convert(tree, Config)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{name}: {_told(str(error))}") from None
    if config.bus.keys:  # a run's processes and its observers stand in different folders
        keys = str(Path(config.bus.keys).expanduser().absolute())
        config = msgspec.structs.replace(config, bus=msgspec.structs.replace(config.bus, keys=keys))
    check(config)
    return config


def _told(error: str) -> str:
    """msgspec's words about a setting, with its path as it is written here."""
    text, _, path = error.partition(" - at `$.")
    path = path.removesuffix("`")
    unknown = re.fullmatch("Object contains unknown field `(.+)`", text)
    if unknown is None:
        return f"{path}: {text}" if path else text
    return f"unknown setting {path}{path and '.'}{unknown[1]}; `spade config show` lists all"


def _override(tree: dict[str, Any], override: str) -> None:
    """Set one `section.key=value`; the value is TOML, or a bare word taken as a string."""
    key, equals, text = override.partition("=")
    section, dot, field = key.strip().partition(".")
    if not (equals and dot and section and field):
        raise ConfigError(f"--set {override!r}: write section.key=value, for example learner.lr=1e-5")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    table = tree.setdefault(section, {})
    if not isinstance(table, dict):
        raise ConfigError(f"--set {override!r}: {section} is no section")
    table[field] = value


def check(config: Config) -> None:
    """Refuse what cannot work, naming the fields. Raises ConfigError."""
    for section in config.__struct_fields__:
        _check_positive(section, getattr(config, section))
    _check_ranges(config)
    _check_backend(config.learner)
    _check_gpus(config)
    _check_progress(config)
    _check_bind(config.bus)
    _check_endpoint(config.endpoint)


_MAY_BE_ZERO = {
    "learner.threads", "engine.threads", "learner.weight_decay", "learner.agent_lag", "learner.designer_lag",
    "design.memory_seeds", "play.void_share", "actors.designers", "actors.agents", "actors.runners", "actors.engines",
    "supervise.restarts", "reward.regret_weight", "reward.anchor_weight", "reward.anchor_low", "sandbox.random_plays",
    "learner.warmup_steps", "learner.lr_min", "learner.zero_stage", "learner.lora_rank", "loss.kl",
    "run.seed", "replay.commit_delay_ms", "replay.retain_s", "replay.retain_bytes",
}  # fmt: skip


def _check_positive(name: str, section: Section) -> None:
    for field in section.__struct_fields__:
        value = getattr(section, field)
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        path = f"{name}.{field}"
        if not math.isfinite(value):
            raise ConfigError(f"{path}: must be a finite number, is {value}")
        if value < 0 or (value == 0 and path not in _MAY_BE_ZERO):
            raise ConfigError(f"{path}: must be {'at least' if path in _MAY_BE_ZERO else 'more than'} 0, is {value}")


def _check_ranges(config: Config) -> None:
    run, design, reward, learner, play = config.run, config.design, config.reward, config.learner, config.play
    unknown = [skill for skill in run.skills if skill not in SKILLS]
    if unknown:
        raise ConfigError(f"run.skills: unknown skill {unknown[0]!r}; known: {', '.join(SKILLS)}")
    if not 1 <= design.active_skills <= len(run.skills):
        raise ConfigError(
            f"design.active_skills: must be 1 to {len(run.skills)} (run.skills), is {design.active_skills}"
        )
    if design.round_jobs % design.active_skills:
        raise ConfigError(
            f"design.round_jobs: {design.round_jobs} jobs cannot be shared evenly by "
            f"design.active_skills = {design.active_skills}"
        )
    if not reward.anchor_low <= reward.anchor_high <= 1:
        raise ConfigError("reward.anchor_low, reward.anchor_high: must satisfy low <= high <= 1")
    if not (learner.adam_beta1 < 1 and learner.adam_beta2 < 1):
        raise ConfigError("learner.adam_beta1, learner.adam_beta2: must be under 1")
    if config.loss.clip_low >= 1:
        raise ConfigError(f"loss.clip_low: must be under 1, is {config.loss.clip_low}")
    if not config.loss.mask_low <= 1 <= config.loss.mask_high:
        raise ConfigError(
            "loss.mask_low, loss.mask_high: must satisfy low <= 1 <= high, else on-policy tokens are masked"
        )
    if learner.lr_min > learner.lr:
        raise ConfigError(f"learner.lr_min: {learner.lr_min} is over learner.lr = {learner.lr}")
    if learner.schedule == "cosine" and learner.schedule_steps <= learner.warmup_steps + 1:
        raise ConfigError(
            f"learner.schedule_steps: {learner.schedule_steps} leave nothing to fall over after "
            f"learner.warmup_steps = {learner.warmup_steps}"
        )
    if config.actors.agents_min > config.actors.agents_max:
        raise ConfigError("actors.agents_min: must be at most actors.agents_max")
    if play.group_size < 2:
        raise ConfigError("play.group_size: a group of fewer than 2 plays has no baseline; use 2 or more")


def _check_backend(learner: Learner) -> None:
    """Settings that the backend would not heed."""
    if learner.backend == "torch" and (learner.processes > 1 or learner.offload != "none"):
        raise ConfigError(
            "learner.processes, learner.offload: backend 'torch' has neither; use learner.backend=deepspeed"
        )
    least = {"none": 0, "optimizer": 1, "all": 3}[learner.offload]
    if learner.zero_stage < least:
        raise ConfigError(f"learner.offload: {learner.offload!r} needs learner.zero_stage {least} or more")


def _check_gpus(config: Config) -> None:
    """Lists of GPUs that cannot be shared out."""
    engine, learner, each = config.engine, config.learner, config.engine.tensor_parallel
    for name, gpus, device in ("engine", engine.gpus, engine.device), ("learner", learner.gpus, learner.device):
        if any(gpu < 0 for gpu in gpus):
            raise ConfigError(f"{name}.gpus: indices count from 0, is {list(gpus)}")
        if gpus and device not in ("auto", "cuda"):
            raise ConfigError(f"{name}.gpus: {name}.device = {device!r} does not heed them; use 'auto'")
    if len(engine.gpus) % each:
        raise ConfigError(f"engine.gpus: {len(engine.gpus)} cannot be shared by engine.tensor_parallel = {each}")
    if engine.gpus and config.actors.engines * each > len(engine.gpus):
        raise ConfigError(
            f"engine.gpus: {len(engine.gpus)} are too few for actors.engines = {config.actors.engines} of "
            f"engine.tensor_parallel = {each}; name more, or one twice to share it"
        )
    parts = [engine.gpus[at : at + each] for at in range(0, len(engine.gpus), each)]
    if twice := [part for part in (*parts, learner.gpus) if len(set(part)) < len(part)]:
        name = "learner" if twice[0] is learner.gpus else "engine"
        raise ConfigError(f"{name}.gpus: {list(twice[0])} name a GPU twice for one model")
    if learner.gpus and len(learner.gpus) < learner.processes:
        raise ConfigError(
            f"learner.gpus: {len(learner.gpus)} are too few for learner.processes = {learner.processes}, a GPU each"
        )
    if both := sorted(set(engine.gpus) & set(learner.gpus)):
        raise ConfigError(
            f"engine.gpus, learner.gpus: both name {both}; where one of them runs on another machine, leave its list "
            "empty here, for example --set learner.gpus=[]"
        )


def _check_progress(config: Config) -> None:
    """Settings that would wait for each other for ever."""
    design, play, learner, engine = config.design, config.play, config.learner, config.engine
    if play.max_turn_tokens >= play.context_tokens:
        raise ConfigError("play.max_turn_tokens: must be under play.context_tokens, else no observation fits")
    if play.context_tokens > engine.context_tokens:
        raise ConfigError(
            f"play.context_tokens: {play.context_tokens} do not fit engine.context_tokens = {engine.context_tokens}"
        )
    if design.max_tokens >= engine.context_tokens:
        raise ConfigError(
            f"design.max_tokens: {design.max_tokens} leave no room for a prompt in "
            f"engine.context_tokens = {engine.context_tokens}"
        )
    if engine.kind == "torch" and engine.tensor_parallel > 1:
        raise ConfigError("engine.tensor_parallel: the torch engine uses one device; take engine.kind=vllm")
    if learner.batch_sequences < play.group_size:
        raise ConfigError("learner.batch_sequences: must hold at least one group (play.group_size)")
    if config.bus.silence_s <= 2 * config.bus.heartbeat_s:
        raise ConfigError("bus.silence_s: must be more than two heartbeats (bus.heartbeat_s)")
    if config.bus.call_deadline_s > LONGEST_WAIT_S:
        raise ConfigError(f"bus.call_deadline_s: must be at most {LONGEST_WAIT_S:g}, the longest a request may wait")
    _check_training(config)


def _check_training(config: Config) -> None:
    """Settings under which something would never be trained, or a batch never arrive."""
    design, play, learner = config.design, config.play, config.learner
    least = play.window_chunks - 1
    if learner.designer_lag < least:
        raise ConfigError(
            f"learner.designer_lag: {learner.designer_lag} is under play.window_chunks - 1 = {least}, "
            "the versions a window sees at least, so no design could ever be trained on"
        )
    if play.win_return > 1:
        raise ConfigError(f"play.win_return: {play.win_return} is over 1, the highest return, so no play could win")
    # A batch is whole groups until it is full, so its last group may be over.
    sequences = learner.batch_sequences - 1 + max(play.group_size, design.round_jobs // design.active_skills)
    longest = max(play.context_tokens, config.engine.context_tokens)
    if sequences * longest * BYTES_PER_TOKEN > config.bus.max_message_bytes:
        raise ConfigError(
            f"bus.max_message_bytes: {config.bus.max_message_bytes} do not hold a batch of {sequences} sequences of "
            f"{longest} tokens ({sequences * longest * BYTES_PER_TOKEN}), so the learner could wait for it for ever"
        )


def _check_endpoint(endpoint: Endpoint) -> None:
    scheme, _, rest = endpoint.url.partition("://")
    if endpoint.url and not (scheme in ("http", "https") and rest):
        raise ConfigError(f"endpoint.url: write http://HOST:PORT/v1, is {endpoint.url!r}")
    if {"designer", "agent"} <= set(endpoint.roles) and endpoint.url:
        raise ConfigError("endpoint.roles: designer and agent both sample elsewhere, so nothing would ever be trained")


def is_local(address: str) -> bool:
    """Whether a bus address can be reached from this machine alone."""
    host = address.removeprefix("tcp://").rpartition(":")[0].strip("[]")
    try:
        return address.startswith("ipc://") or host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check_bind(bus: Bus) -> None:
    if not bus.bind:
        return
    host, _, port = bus.bind.removeprefix("tcp://").rpartition(":")
    if not (bus.bind.startswith("tcp://") and host and port.isdecimal() and 0 < int(port) < 65_536):
        raise ConfigError(f"bus.bind: write tcp://HOST:PORT, is {bus.bind!r}")
    if host in ("*", "0.0.0.0", "[::]"):
        raise ConfigError(f"bus.bind: {bus.bind} says nothing to others; give the address of this host they reach")
    if not (bus.keys or is_local(bus.bind)):
        raise ConfigError(
            f"bus.bind: {bus.bind} can be reached by other machines and needs keys: "
            "`spade keys new DIR`, then --set bus.keys=DIR"
        )


def dump(config: Config) -> str:
    """The resolved config as TOML; `load` of it gives the same config. TOML has no null: what is None is left out."""
    tree = {
        name: {field: value for field, value in msgspec.to_builtins(getattr(config, name)).items() if value is not None}
        for name in config.__struct_fields__
    }
    return tomli_w.dumps(tree)


def digest(config: Config) -> str:
    """Digest of the run-wide fields: peers and resumes must agree on it."""
    meaning = {name: msgspec.to_builtins(getattr(config, name)) for name in MEANING}
    return hashlib.blake2b(msgspec.json.encode(meaning), digest_size=16).hexdigest()
