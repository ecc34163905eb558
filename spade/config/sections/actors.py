"""Settings of designing, playing and evaluating, and of the processes that do it."""

from typing import Annotated, Literal, get_args

from msgspec import Meta

from spade.config.sections.bounds import (
    MOST,
    RANGE,
    Bytes,
    Count,
    CountOrZero,
    Name,
    Positive,
    Seconds,
    Section,
    Share,
    ShareAboveZero,
)
from spade.config.suites import Library, SuiteChoice
from spade.protocol import MOST_ACTORS, MOST_PROGRAMS

PoolLibrary = Literal["reasoning-gym", "rlve", "gem", "gymnasium", "verifiers"]
"""Libraries that are sources of pools."""
Processes = Annotated[int, Meta(ge=0, le=MOST_ACTORS)]
ProcessRange = Annotated[str, Meta(pattern=RANGE)]


class Design(Section, frozen=True):
    """The work of designers. Rounds of design jobs ask for the skills in turn.

    `single_turn_share`, `difficulties` and `max_turns` apply to `model.profile` "full". The domain `tools` uses only
    `difficulties` of these. The profile "nano" asks for nothing but a skill and a document.
    docs/designing.md describes the prompts.
    """

    source: Literal["model", "pool"] = "model"
    """Source of the environments: "model" has designers write them, "pool" plays the programs of `pool.source`. With
    "pool", only `active_environments`, `round_jobs`, `active_skills` and `lease_s` of this section have an effect
    (docs/pools.md)."""

    active_environments: Count = 24
    """Environments that are open at once, including unfinished designs. The default is the paper's 24 a rollout."""

    round_jobs: Count = 24
    """Design jobs of a round, shared evenly by its skills. The default is the paper's 24. If a resume sets another
    number, it applies from the next round."""

    active_skills: Count = 3
    """Number of skills in a round. Rounds take the skills round-robin. The default is the paper's three of six."""

    attempts: Count = 5
    """Programs that a designer may write for one job until one is admitted. The default is the paper's."""

    temperature: Positive = 0.6
    """Sampling temperature of programs and hints. The default is the paper's; vLLM takes 0.01 to 2."""

    max_tokens: Count = 16_384
    """Largest number of tokens of one program with the designer's reasoning, and of one answer to a question about a
    program (`design.reviews`, `tools.screen`). The default is the paper's (20,000 for Qwen3-8B)."""

    hint_max_tokens: Count = 512
    """Largest number of tokens of one hint, thoughts included. A hint that is cut off is useless, so a model that
    thinks needs more tokens."""

    corpus: str = "builtin"
    """The documents that ground designs: a JSONL file, each line an object with a `text`; a Parquet file or a folder;
    `builtin`, the documents in the package (230 for games, 106 notes of APIs for tools); or `none`, designs without a
    document. The paper has 15,000 (docs/corpora.md). A run keeps the documents it was started with."""

    memory_records: Count = 200
    """Largest number of environments in the memory. A full memory drops its oldest one. The default is the paper's."""

    memory_seeds: CountOrZero = 2
    """Programs of the memory that a prompt shows as examples to vary. It also shows one to avoid. 0 shows neither."""

    seeds: str = ""
    """Source of programs that prompts show from the start as examples to vary, written as in `pool.source`. These
    programs are neither played nor trained on (docs/pools.md, "Seeds"). "" shows no such programs."""

    round_deadline_s: Seconds = 86_400.0
    """Seconds from the opening of a designer group's first job until the group is scored with the windows that have
    closed. If this is less than `design.lease_s` + `play.window_deadline_s`, a window that lasts to its deadline misses
    its group."""

    lease_s: Seconds = 7_200.0
    """Seconds that a designer has for all attempts of one job; then the job is leased again."""

    single_turn_share: Share = 0.0
    """Probability that a job asks for a program with one question and one answer. Other programs take several
    actions."""

    difficulties: Annotated[tuple[tuple[Name, Count], ...], Meta(min_length=1)] = (
        ("moderately difficult", 5), ("difficult", 8), ("very difficult", 12),
    )  # fmt: skip
    """Difficulties that jobs ask for, all equally likely. Each has a name, and the fewest actions or tool calls that a
    good player needs, at most `play.max_turns`."""

    max_turns: Count = 12
    """Turns of a game in the interface that the prompt shows, at most `play.max_turns`. A design may set any number up
    to `play.max_turns`, but each further turn lets a player guess once more. The default is the paper's."""

    train: bool = True
    """False trains the policy only on plays. Designs are kept and never trained on. If a resume sets another value, it
    applies from the next designer group."""

    reviews: Annotated[int, Meta(ge=0, le=16)] = 0
    """Number of times that the model is asked whether the code of a program does what it tells the player
    (docs/designing.md, "Self-review"). A single "no" rejects the program. For games of `model.profile` "full"."""

    novelty_bound: Share = 1.0
    """Greatest similarity, 0 to 1, that an admitted program may have to one of the 32 newest programs of the memory or
    to a seed (docs/designing.md, "Novelty"). The default rejects no program."""


class Pool(Section, frozen=True):
    """The environments of a run of a pool, which has no designers. docs/pools.md says how they are drawn."""

    source: str = ""
    """The pool that `design.source` "pool" plays. `folder:DIR` has programs with their hints. `run:RUN` has the
    environments of another run. `shipped:small` has the worlds in the package (docs/pools.md, "Worlds that ship").
    `reasoning-gym`, `rlve:NAME,NAME` and so on have all or some environments of a library (docs/pools.md, "Libraries").
    The pool is copied into the run's directory when the run starts."""

    difficulty: Literal["fixed", "window"] | CountOrZero = "fixed"
    """The levels of a library's programs, if they have levels. A number plays them at this level, and "fixed" at level
    0. "window" starts at level 0 and raises the levels of a name as its programs are won (docs/pools.md, "Levels")."""

    window_plays: Count = 128
    """Number of plays at the highest level of a window before the window may rise. The default is RLVE's, 8 groups of
    16."""

    window_rate: ShareAboveZero = 0.9
    """Share of these plays that must be won for the window to rise by a level. The default is RLVE's."""

    reward: Literal["win", "score"] = "win"
    """The return of a play of a library's program: "win" pays 1 if the library counts the play as right, else 0.
    "score" pays the library's score in [-1, 1] (not for gymnasium). In both cases a play is won at 1."""

    @property
    def level(self) -> int:
        """The level of programs that have levels, or the level at which their windows start."""
        return self.difficulty if isinstance(self.difficulty, int) else 0

    @property
    def library(self) -> str:
        """The library whose environments are played, by its name in `sandbox.libraries`; "" for other programs."""
        kind = self.source.partition(":")[0]
        return kind if kind in get_args(PoolLibrary) else ""


PROGRAM_SHARE = 0.5
"""The share of `play.lease_s` that is left to the program (`Play.program_s`)."""


class Play(Section, frozen=True):
    """The plays of agents. An environment is played in chunks. Its unhinted chunks, and a hinted twin of the first
    chunk, form its window."""

    group_size: Annotated[int, Meta(ge=2, le=MOST)] = 16
    """Plays of a chunk. Their mean return is the baseline of each play, so a chunk needs two. The default is the
    paper's G."""

    window_chunks: Count = 4
    """Unhinted chunks of an environment before it is scored and closed. The default is the paper's k for games."""

    temperature: Positive = 0.6
    """Sampling temperature of actions. The default is the paper's; vLLM takes 0.01 to 2."""

    max_turn_tokens: Count = 8_192
    """Tokens that one turn may sample, thoughts included. The default is the paper's."""

    max_turns: Count = 25
    """Turns of an episode; then it is truncated and returns 0. The default is the paper's."""

    context_tokens: Count = 32_768
    """Tokens that a turn of an episode may read and sample. The default is the paper's (later 49,152 at 4B)."""

    examples: tuple[tuple[str, str], ...] = ()
    """Examples that show a small model the form of an answer: pairs of an observation and the answer to it. Each play
    of a game begins with them, in both arms. A model of a billion parameters or more needs no examples."""

    win_return: ShareAboveZero = 1.0
    """Least episode return that counts as won. The default is the highest return, which a program gives only at its
    goal."""

    chunk_wait_s: Seconds = 600.0
    """Seconds after the scoring of a chunk until the next chunk of its window begins even without newer weights."""

    window_deadline_s: Seconds = 43_200.0
    """Seconds after which a window ends even if plays are missing. The default is chosen by simulation
    (docs/learner.md, "Policy lag")."""

    lease_s: Seconds = 7_200.0
    """Seconds that an agent has for one play; then the play is leased again. The answers of its program may take half
    of them. The default is chosen by simulation."""

    thoughts: Literal["keep", "strip"] = "keep"
    """Thoughts of earlier turns: "keep" leaves them in the context, "strip" removes them as the model's own chat
    template does. "strip" refuses a checkpoint if its template keeps thoughts (docs/learner.md, "Thoughts")."""

    instances: Literal["play", "group"] = "play"
    """Instances of a chunk: "play" gives each play its own instance, shared with its hinted twin. "group" gives all
    plays of a chunk the same instance, as RLVE does. If a resume sets another value, it applies from the next
    environment."""

    hinted: Literal["auto"] | bool = "auto"
    """True also plays the first chunk of a window with the hint. "auto" does so if the regret is used. That is the case
    under `reward.kind` "regret", "progress" and "finding", if designers are trained (`design.train`) or prompts show
    programs of the memory (`design.memory_seeds`), but never in a run of a pool. Without hinted plays designers write
    no hints, and no regret is measured."""

    @property
    def program_s(self) -> float:
        """Seconds by the clock that all answers of a program may take in one play.

        A play that exceeds its lease is played again. Without this bound, a program could sleep in the plays that it
        loses, and have them repeated.
        """
        return PROGRAM_SHARE * self.lease_s


class Actors(Section, frozen=True):
    """Number of processes of each role that `spade up` starts, and the work that one process does at once."""

    designers: Processes = 1
    """Designer processes or, if `design.source` is "pool", curator processes, which bring its programs."""

    agents: Processes | ProcessRange = 2
    """Agent processes. "1..8" begins with 1 process, and starts and retires processes by load, up to 8."""

    runners: Processes = 1
    """Env-runner processes, which run the environment programs."""

    engines: Processes | ProcessRange = 1
    """Engine processes, which sample tokens. "1..4" begins with 1 process, and starts and drains processes by load, up
    to 4 (docs/clusters.md, "Numbers by load")."""

    designs_in_flight: Count = 8
    """Number of design jobs that one designer or curator works on at once."""

    episodes_in_flight: Count = 64
    """Number of plays that one agent works on at once. They are asynchronous tasks of one process."""

    @property
    def agents_bounds(self) -> tuple[int, int]:
        """The least and the greatest number of agents; a run starts with the least."""
        return _bounds(self.agents)

    @property
    def engines_bounds(self) -> tuple[int, int]:
        """The least and the greatest number of engines; a run starts with the least."""
        return _bounds(self.engines)


def _bounds(processes: int | str) -> tuple[int, int]:
    least, _, most = str(processes).partition("..")
    return int(least), int(most or least)


class Evaluation(Section, frozen=True):
    """Measurements during a run: of the policy, again and again on the same items without hints, and of the diversity
    of the newest programs.

    An item is a program and an instance of it. The policy is not trained on these plays.
    """

    suite: str = ""
    """The items, "" for none. "folder:DIR" has environment programs (`*.py`), which are played like the run's own.
    Otherwise it is a suite, with its own prompts and settings (docs/evaluation.md, "While a run trains"): `nano`,
    `nano-tools`, `reasoning-gym-nano`, `reasoning-gym-transfer`, `reasoning-gym-hard`, `gem`, or, each with the file of
    its items ("aime25:FILE"), `aime25`, `aime26`, `gpqa-diamond`, `livecodebench-v6`. With "@short" at its end, it
    plays fewer samples, and accepts a part of a given file and any version of a library. Its libraries need not be in
    `sandbox.libraries`."""

    plays: CountOrZero = 256
    """Episodes of one evaluation, on the same instance and sampling seeds in each evaluation. They take the suite's
    items in turn, in an order that `run.seed` draws. They take the programs of a folder in turn, each time on another
    instance. 0 plays all samples of the protocol, or each program once."""

    in_flight: Count = 8
    """Episodes played at once, and so the most engine rows that the evaluator uses."""

    every_steps: Count = 10
    """Least number of learner steps between the policies of two evaluations, and between two measurements of the
    diversity."""

    diversity_programs: Annotated[int, Meta(ge=0, le=MOST_PROGRAMS)] = 0
    """Number of newest admitted programs among which the diversity is measured (docs/metrics.md, "Diversity"). 0
    measures no diversity."""

    embedding: Name = "tfidf"
    """Measure of the similarity of two programs: `tfidf` compares their words. The folder or hub name of a
    sentence-transformers model (extra `measures`) compares their embeddings, on the evaluator's CPU."""

    @property
    def measured(self) -> SuiteChoice:
        """The parts of `suite`."""
        return SuiteChoice.parse(self.suite)


Tier = Literal["namespaces", "landlock", "seccomp", "none"]

PATIENCE = 10.0
"""The limits of a program are seconds of processor time. By the wall clock it may take this many times as long, because
it may sleep, or may get only a part of a processor on a busy machine."""


class Sandbox(Section, frozen=True):
    """The sandbox of programs: its isolation, and the limits of an episode's process and of the whole env-runner."""

    tier: Literal["auto"] | Tier = "auto"
    """The isolation of programs (docs/sandbox.md, "Tiers"). "auto" takes the strongest tier that works on the machine,
    and refuses to run if only "none" is left. "none" isolates nothing and is for your own programs."""

    load_s: Seconds = 10.0
    """Seconds of processor time within which a program must be loaded."""

    step_s: Seconds = 5.0
    """Seconds of processor time within which a program must answer `reset`, `step`, or all calls of a message to its
    tools. A program that sleeps has ten times as many seconds by the clock (docs/sandbox.md)."""

    memory_bytes: Bytes = 268_435_456
    """Bytes by which the address space of an episode's process may grow (256 MiB)."""

    libraries: tuple[Library, ...] = ()
    """Libraries whose environments programs may extend (docs/sandbox.md, "Libraries"): `reasoning-gym`, `rlve`, `gem`,
    `gymnasium`, `verifiers`, `answers` (mathematics and multiple choice) and `code` (programming problems with tests).
    A library is loaded when a program first names one of its base classes."""

    servers: tuple[str, ...] = ()
    """Addresses of environment servers of OpenEnv, such as `http://127.0.0.1:8000`. A program that names one of them is
    played there (docs/sandbox.md, "Servers"). No other server is ever reached."""

    episodes: Count = 256
    """Largest number of episodes that an env-runner has open at once. It refuses further episodes, and their plays are
    leased again."""

    random_win_share: Share = 0.25
    """Share of plays that random actions may win; 1 rejects no program. Admission estimates the share from samples. It
    rejects a program with exactly this share, or admits one with this share + 0.15, at most once in a hundred times."""

    readable_actions: bool = False
    """True rejects a program if its first observation, or one on the way of its solution, offers no actions that
    admission can read (docs/designing.md)."""
