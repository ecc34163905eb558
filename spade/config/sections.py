"""The sections of a run's configuration and their settings. Defaults are the paper's numbers for games.

Deadlines and leases of design, play and learner are chosen by simulation (docs/learner.md, "Policy lag").
"""

from typing import Literal

import msgspec

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
    """The designer's side. `corpus` is a JSONL of documents or "builtin".

    `round_jobs` design jobs, shared by `active_skills`, make a round; other numbers at a resume hold from the next one.

    `lease_s` is for all attempts of a job. `round_deadline_s` counts from the opening of a group's first job: under
    lease_s + play.window_deadline_s, a window that lasts to its deadline misses its group.

    A job asks for a world of one turn with the chance `single_turn_share`, and for one of the `difficulties`: its name,
    and the fewest actions that a good player needs. `example_worlds` adds a few ideas of the skill. These three are for
    the profile "full"; "nano" asks for nothing but a skill and a document. `memory_seeds` programs of the memory are to
    be varied, and one is to be avoided; 0 shows neither.
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
    round_deadline_s: float = 86_400.0
    lease_s: float = 7_200.0
    single_turn_share: float = 0.0
    difficulties: tuple[tuple[str, int], ...] = (("moderately difficult", 5), ("difficult", 8), ("very difficult", 12))
    example_worlds: bool = False


class Play(Section, frozen=True):
    """The agent's side. A window is `window_chunks` unhinted chunks of `group_size` plays; the first has a twin.

    A play that lasts longer than `lease_s` is given up and leased again. A window ends at `window_deadline_s` with the
    plays it has.

    A turn samples up to `max_turn_tokens`, or what is left of `context_tokens`. Where that is less than both of
    `max_turn_tokens` and `min_turn_tokens` the play is truncated.
    """

    group_size: int = 16
    window_chunks: int = 4
    temperature: float = 0.6
    max_turn_tokens: int = 8_192
    max_turns: int = 25
    context_tokens: int = 32_768
    win_return: float = 1.0
    void_share: float = 0.25
    chunk_wait_s: float = 600.0
    window_deadline_s: float = 43_200.0
    lease_s: float = 7_200.0
    min_turn_tokens: int = 1_024


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
    """Optimisation, batches and the agent's bound on policy lag (in published versions).

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
    designer_weight_max: float = 32.0
    group_deadline_s: float = 28_800.0
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
    A program that faults `quarantine_faults` times in a row is run no more. Admission refuses one that random play wins
    with 0.15 more than `random_win_share`, and lets one pass that it wins with that or less, each but for one time in a
    hundred; 1 lets pass what random play always wins.
    """

    tier: Literal["auto"] | Tier = "auto"
    load_s: float = 10.0
    step_s: float = 5.0
    memory_bytes: int = 268_435_456
    runner_bytes: int = 4_294_967_296
    observation_bytes: int = 262_144
    episodes: int = 256
    quarantine_faults: int = 8
    random_win_share: float = 0.25


class Audit(Section, frozen=True):
    """The audit of a window before its designer is paid; with `replays` and `random_plays` 0 there is none.

    `replays` recorded plays of each arm are run again. Of the instances that were won, `random_plays` are played with
    random actions; `random_wins` won ones are a finding.
    """

    replays: int = 2
    random_plays: int = 16
    random_wins: int = 13


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
    audit: Audit = Audit()
    replay: Replay = Replay()
    bus: Bus = Bus()
    supervise: Supervise = Supervise()
