"""Splits of eight GPUs, publications, checkpoints, deadlines and disk of each recipe, in simulated time.

    python -m tests.bench.splits [--cases NAME…] [--steps 60] [--out splits.json]

The real ledger plays a recipe as in `tests.bench.pacing`, but the times follow from the sizes. A play lasts as long as
its tokens take on engines with as many busy rows as the simulation comes to, so each case is simulated until both
agree. A learner step ends with its publication, and every `learner.checkpoint_every`-th one with a checkpoint, during
which nothing is trained. No figure was measured on a GPU; RATES has what is assumed.
"""

import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from learner.weights import KEPT
from replay.ledger.records import Environment
from spade.config import Config, load
from tests.bench.harness import command, conclude
from tests.replay.replay_world import Pace, World

RATES = {
    "flops": 160e12,  # a GPU's, for 8 FLOP a trained token and active parameter
    "memory": 1.4e12,  # bytes of a GPU's memory read in a second while it decodes
    "bus": 12e9,  # bytes between a GPU and its host
    "disk": 2e9,  # bytes written
    "hash": 0.9e9,  # bytes of one core (BLAKE2b; 0.93 were measured)
    "cast": 2.5e9,  # bytes of float32 to bfloat16, one core (2.5 were measured)
    "host": 10e9,  # bytes of the host's memory, for the canary of parameters that lie there
}
CORES = 16  # that hash the tensors of published weights side by side
TOKEN_S = 0.002  # of a decode step beside the reading of memory
TURN_S = 1.0  # of a turn beside its decode steps: its prompt, its environment
AUDIT_S, FAILED = 10.0, 0.5
ROUNDS = 4  # of simulations, after which plays and rows agree


class Model(NamedTuple):
    """A checkpoint: parameters, those active for a token, bytes of keys and values of a token."""

    parameters: float
    active: float
    token_bytes: int


class Plays(NamedTuple):
    """The mean play: sampled tokens, tokens that training reads beside them, turns; tokens of an attempt at a design.

    `context` is the mean length behind a sampled token.
    """

    sampled: float
    read: float
    turns: float
    context: float
    design: float


class Case(NamedTuple):
    """A recipe with settings over it."""

    recipe: str
    model: Model
    plays: Plays
    settings: tuple[str, ...] = ()


M4, M8, M30 = Model(4.0e9, 4.0e9, 147_456), Model(8.2e9, 8.2e9, 147_456), Model(30.5e9, 3.3e9, 98_304)
LLAMA = Model(8.0e9, 8.0e9, 131_072)
PLAIN = Plays(sampled=4_500, read=3_300, turns=8, context=5_000, design=4_500)
THINKING = Plays(sampled=26_000, read=3_000, turns=12, context=9_000, design=12_000)
KEEPING = Plays(sampled=20_000, read=3_000, turns=10, context=12_000, design=12_000)  # its context fills up


def split(engines: int, tensor_parallel: int = 1, gpus: int = 8) -> tuple[str, ...]:
    """The settings of so many engines and of a learner on the other GPUs."""
    taken = engines * tensor_parallel
    return (
        f"engine.gpus={list(range(taken))}", f"actors.engines={engines}", f"learner.gpus={list(range(taken, gpus))}",
        f"learner.processes={gpus - taken}",
    )  # fmt: skip


DEFAULTS = (
    "play.window_deadline_s=43_200", "play.lease_s=7_200", "design.round_deadline_s=86_400",
    "learner.group_deadline_s=28_800",
)  # fmt: skip
WHOLE = ("learner.checkpoint=whole",)
CASES: Mapping[str, Case] = {
    "games-4b, 4 + 4": Case("games-4b", M4, PLAIN, split(4)),
    "games-4b, 5 + 3": Case("games-4b", M4, PLAIN, split(5)),
    "games-4b, 6 + 2": Case("games-4b", M4, PLAIN, split(6)),
    "games-8b, 3 + 5, defaults": Case("games-8b", M8, THINKING, (*split(3), *DEFAULTS, *WHOLE)),
    "games-8b, 3 + 5": Case("games-8b", M8, THINKING, split(3)),
    "games-8b, 4 + 4": Case("games-8b", M8, THINKING, split(4)),
    "tools-8b, 3 + 5, defaults": Case("tools-8b", M8, KEEPING, (*split(3), *DEFAULTS, *WHOLE)),
    "tools-8b, 3 + 5": Case("tools-8b", M8, KEEPING, split(3)),
    "games-llama-8b, 4 + 4": Case("games-llama-8b", LLAMA, PLAIN, split(4)),
    "games-llama-8b, 5 + 3": Case("games-llama-8b", LLAMA, PLAIN, split(5)),
    "games-30b, 4 + 4, whole": Case("games-30b", M30, PLAIN, (*split(2, 2), *WHOLE)),
    "games-30b, 4 + 4": Case("games-30b", M30, PLAIN, split(2, 2)),
    "games-30b, 6 + 2": Case("games-30b", M30, PLAIN, split(3, 2)),
}


class Found(msgspec.Struct, frozen=True):
    """The figures of a case. Times are s, shares of 1, `disk_gb` 10^9 bytes.

    play_s      of a play on average, at `rows` busy rows of an engine
    train_s     of a learner step; `publish_s` of its publication, `checkpoint_s` of a checkpoint
    step_s      from step to step
    training    share of the time in which the learner trains; `writing`: publishes or saves
    cut         windows that ended at their deadline; `twice`: leases that ran out, of all plays
    wasted      of what became trainable, of agents and designers
    disk_gb     most that weights, checkpoints, the best and the kept policies of 700 steps take
    """

    play_s: float
    rows: float
    train_s: float
    publish_s: float
    checkpoint_s: float
    step_s: float
    training: float
    writing: float
    cut: float
    twice: float
    wasted: tuple[float, float]
    disk_gb: float


def train_s(case: Case, config: Config) -> float:
    """Seconds of a learner step on the learner's GPUs."""
    tokens = config.learner.batch_sequences * (case.plays.sampled + case.plays.read)
    reference = 4 / 3 if config.loss.kl else 1.0  # a forward of the model of the KL
    return 8 * reference * tokens * case.model.active / (config.learner.processes * RATES["flops"])


def publish_s(case: Case, config: Config) -> float:
    """Seconds in which weights are gathered, written in bfloat16, hashed, and their canary is computed."""
    low, full = 2 * case.model.parameters, 4 * case.model.parameters
    gathered = full if config.learner.zero_stage == 3 else 0.0
    moved = gathered / RATES["bus"] + gathered / RATES["cast"] + gathered / RATES["host"]
    return moved + low / RATES["disk"] + low / (RATES["hash"] * CORES)


def checkpoint_s(case: Case, config: Config) -> float:
    """Seconds in which the state is written and hashed, and the policy beside it is hashed by one core."""
    state, policy = 12 * case.model.parameters, 2 * case.model.parameters
    writers = config.learner.processes if config.learner.checkpoint == "sharded" else 1
    gathered = state / RATES["bus"] / writers
    return gathered + state / RATES["disk"] + (state / writers + policy) / RATES["hash"]


def disk_bytes(case: Case, config: Config, steps: int = 700) -> float:
    """Most bytes on the disk: each kind with the draft that is written beside it. The store is not in it."""
    policy, state = 2 * case.model.parameters, 12 * case.model.parameters
    learner = config.learner
    kept = steps // learner.keep_policy_every if learner.keep_policy_every else 0
    # A checkpoint's policy is a further name of published files, which stays when these are retired.
    return (learner.keep_checkpoints + 1) * (state + policy) + (KEPT + 1 + 1 + kept) * policy


def play_s(case: Case, config: Config, rows: float) -> float:
    """Seconds of a play on an engine with so many busy rows; more than its cache holds wait."""
    held = config.engine.kv_bytes * config.engine.tensor_parallel / (case.model.token_bytes * case.plays.context)
    room = min(held, config.engine.rows)
    active = min(max(rows, 1.0), room)
    weights = 2 * case.model.parameters
    if case.model.active < case.model.parameters:  # experts: a few rows already choose most of them
        weights *= min(1.0, case.model.active / case.model.parameters * active)
    read = weights + active * case.plays.context * case.model.token_bytes
    token = TOKEN_S + read / (RATES["memory"] * config.engine.tensor_parallel)
    return (case.plays.sampled * token + case.plays.turns * TURN_S) * max(1.0, rows / room)


def simulate(case: Case, steps: int, seed: int = 1, rounds: int = ROUNDS) -> Found:
    """Simulate so many learner steps of a case, at the times at which plays and rows agree after so many rounds."""
    config = load(case.recipe, ("learner.device=auto", *case.settings))
    agents = config.actors.agents
    assert isinstance(agents, int), "the recipes have a number of agents"
    engines = config.actors.engines_bounds[0]
    designs = config.actors.designers * config.actors.designs_in_flight
    most = agents * config.actors.episodes_in_flight
    rows = (most + designs) / engines
    for _ in range(rounds):
        lasts = play_s(case, config, rows)
        token = (lasts - case.plays.turns * TURN_S) / case.plays.sampled
        pace = Pace(
            play_s=lasts, spread=math.sqrt(0.75), apart=0.5, design_s=case.plays.design * token,
            step_s=train_s(case, config), audit_s=AUDIT_S, episodes=most, designs=designs, failed_attempts=FAILED,
            tick_s=lasts / 10, publish_s=publish_s(case, config), checkpoint_s=checkpoint_s(case, config),
        )  # fmt: skip
        world = World(config, seed, pace)
        while world.ledger.state.counters.taken_step < steps:
            world.run(world.now + lasts)
        rows = (rows + (world.played_s / world.now + designs) / engines) / 2
    return _found(case, config, pace, world, rows)


def _found(case: Case, config: Config, pace: Pace, world: World, rows: float) -> Found:
    state, counters = world.ledger.state, world.ledger.state.counters
    closed = [one for _, _, one in state.changes() if isinstance(one, Environment) and one.closed_at is not None]
    taken, learner = counters.taken_step, config.learner
    writing = taken // learner.publish_every * pace.publish_s + taken // learner.checkpoint_every * pace.checkpoint_s
    return Found(
        play_s=pace.play_s,
        rows=rows,
        train_s=pace.step_s,
        publish_s=pace.publish_s,
        checkpoint_s=pace.checkpoint_s,
        step_s=world.now / taken,
        training=taken * pace.step_s / world.now,
        writing=writing / world.now,
        cut=sum(one.closed_at >= one.deadline for one in closed if one.closed_at) / max(len(closed), 1),
        twice=counters.expired_leases / counters.plays,
        wasted=(counters.wasted_share_agent, counters.wasted_share_designer),
        disk_gb=disk_bytes(case, config) / 1e9,
    )


def table(found: Mapping[str, Found]) -> str:
    """The figures for a person."""
    lines = [
        f"{'':<27}{'play':>7} {'rows':>5} {'train':>6} {'publish':>7} {'save':>6} {'a step':>7} {'training':>8}"
        f" {'writing':>7} {'cut':>6} {'twice':>6} {'wasted':>13} {'disk':>8}"
    ]
    lines += [
        f"{name:<27}{one.play_s:>5.0f} s {one.rows:>5.1f} {one.train_s:>4.0f} s {one.publish_s:>5.0f} s"
        f" {one.checkpoint_s:>4.0f} s {one.step_s:>5.0f} s {one.training:>8.0%} {one.writing:>7.0%} {one.cut:>6.1%}"
        f" {one.twice:>6.2%} {one.wasted[0]:>5.2%} / {one.wasted[1]:>5.2%} {one.disk_gb:>5.0f} GB"
        for name, one in found.items()
    ]
    return "\n".join(lines)


def main() -> None:
    parser = command(__doc__, steps=60, seed=1, out=Path("splits.json"))
    parser.add_argument("--cases", nargs="+", choices=tuple(CASES), default=list(CASES))
    arguments = parser.parse_args()
    found: dict[str, Found] = {}
    for name in arguments.cases:
        found[name] = simulate(CASES[name], arguments.steps, arguments.seed)
        print(table({name: found[name]}), file=sys.stderr, flush=True)
    conclude(arguments.out, msgspec.to_builtins(found), table(found))


if __name__ == "__main__":
    main()
