"""Waste and deadlines of each recipe, in simulated time over the real ledger, from quick plays to slow.

    python -m tests.bench.pacing [--recipes games-4b games-8b games-30b] [--steps 240] [--seed 1] [--apart 0.5]
                                  [--endless] [--out pacing.json]

Of each recipe everything holds but the time that things take, which is drawn log-normally: plays of a mean of 20 to
400 s, sigma 1 in all, of which `--apart` is between environments (a slow one is slow in every play); an attempt, a
learner step and an audit of the means in ASSUMED and AUDIT_S. All episodes and designs that the actors hold go on at
once, each at its pace however many there are. Half of the attempts fail and 5 % of the jobs, win rates are even over 0
to 1, and nothing is lost on its way. `--endless` lifts deadlines and leases, to see how long everything lasts by
itself.
"""

import math
from pathlib import Path

import msgspec

from replay.ledger.pacing import compute_lag_bound
from replay.ledger.records import Environment, Job
from spade.config import Config, load
from tests.bench.harness import command, conclude
from tests.replay.replay_world import Pace, World

PLAYS_S = (20.0, 30.0, 50.0, 75.0, 110.0, 170.0, 260.0, 400.0)
APART = 0.5  # sigma between environments; with the rest within them 1 in all
# Seconds of an attempt and of a learner step. Arithmetic: 4,500 sampled tokens an attempt at 40 a second (8B: 12,000,
# for it thinks), and 8 FLOP a trained token and active parameter (1.5 million tokens; 8B: 3 million) at 160 TFLOP/s a
# GPU.
ASSUMED = {"games-4b": (112.0, 75.0), "games-8b": (300.0, 245.0), "games-30b": (112.0, 65.0)}
AUDIT_S = 10.0
ENDLESS = (
    "design.round_deadline_s=1e9", "design.lease_s=1e9", "play.window_deadline_s=1e9", "play.lease_s=1e9",
    "learner.group_deadline_s=1e9",
)  # fmt: skip


class Found(msgspec.Struct, frozen=True):
    """One simulated run. Times are s, the longest of all where nothing else is said; lags versions, shares of 1.

    step_s          from step to step
    wasted_…        of all that became trainable of the role
    designs         that became trainable
    bound, lag      of designers: the bound, and the longest that was trained
    window_s        of a window, from admission to its end with its audit; `window_median_s`
    cut_windows     that ended at their deadline
    round_s         of a designer group, from its first job to its last window
    queued_s        of a group in the queue
    twice           leases that ran out, of all plays
    """

    play_s: float
    steps: int
    step_s: float
    wasted_agent: float
    wasted_designer: float
    designs: int
    bound: int
    lag: int
    window_median_s: float
    window_s: float
    cut_windows: float
    round_s: float
    queued_s: float
    twice: float


def pace(recipe: str, config: Config, play_s: float, apart: float) -> Pace:
    """The assumed pace of a recipe whose plays take `play_s` on average."""
    design_s, step_s = ASSUMED[recipe]
    actors = config.actors
    return Pace(
        play_s=play_s, spread=math.sqrt(1 - apart * apart), apart=apart, design_s=design_s, step_s=step_s,
        audit_s=AUDIT_S, episodes=actors.agents_bounds[0] * actors.episodes_in_flight,
        designs=actors.designers * actors.designs_in_flight, failed_attempts=0.5, tick_s=play_s / 10,
    )  # fmt: skip


def simulate(
    recipe: str, play_s: float, steps: int, overrides: tuple[str, ...] = (), seed: int = 1, apart: float = APART
) -> Found:
    """So many learner steps of a recipe."""
    config = load(recipe, overrides)
    world = World(config, seed, pace(recipe, config, play_s, apart))
    state, counters = world.ledger.state, world.ledger.state.counters
    while counters.taken_step < steps:
        world.run(world.now + play_s)
    records = [record for _, _, record in state.changes()]
    closed = [each for each in records if isinstance(each, Environment) and each.closed_at is not None]
    opened = {each.id: each.opened_at for each in records if isinstance(each, Job)}
    windows = sorted((each.closed_at or 0.0) - each.opened_at for each in closed)
    trained = [(batch, group, member) for batch in world.batches for group in batch.groups for member in group.members]
    return Found(
        play_s=play_s,
        steps=counters.taken_step,
        step_s=world.now / counters.taken_step,
        wasted_agent=counters.wasted_share_agent,
        wasted_designer=counters.wasted_share_designer,
        designs=counters.designer_trainable,
        bound=compute_lag_bound("designer", config),
        lag=max(state.lag(b.step, state.steps[m.version]) for b, group, m in trained if group.role == "designer"),
        window_median_s=windows[len(windows) // 2],
        window_s=windows[-1],
        cut_windows=sum(each.closed_at >= each.deadline for each in closed if each.closed_at) / len(closed),
        round_s=max(_rounds(closed, opened)),
        queued_s=max(batch.at - group.ready_at for batch, group, _ in trained),
        twice=counters.expired_leases / counters.plays,
    )


def _rounds(closed: list[Environment], opened: dict[str, float]) -> list[float]:
    """Seconds that each designer group lasted so far."""
    first: dict[tuple[int, str], float] = {}
    last: dict[tuple[int, str], float] = {}
    for each in closed:
        key, at = (each.round, each.skill), opened[each.job]
        first[key] = min(first.get(key, at), at)
        last[key] = max(last.get(key, 0.0), each.closed_at or 0.0)
    return [last[key] - first[key] for key in first]


def table(found: list[Found]) -> str:
    """The figures for a person."""
    lines = [
        f"{'mean play':>9} {'a step':>7} {'wasted: agent':>13} {'designer':>9} {'its lag':>8} {'window':>7}"
        f" {'longest':>8} {'cut':>6} {'round':>8} {'queued':>8} {'leased twice':>12}"
    ]
    lines += [
        f"{one.play_s:>7.0f} s {one.step_s:>5.0f} s {one.wasted_agent:>13.2%} {one.wasted_designer:>9.2%}"
        f" {one.lag:>3} / {one.bound} {one.window_median_s:>5.0f} s {one.window_s:>6.0f} s {one.cut_windows:>6.1%}"
        f" {one.round_s:>6.0f} s {one.queued_s:>6.0f} s {one.twice:>12.2%}"
        for one in found
    ]
    return "\n".join(lines)


def main() -> None:
    parser = command(__doc__, steps=240, seed=1, apart=APART, out=Path("pacing.json"))
    parser.add_argument("--recipes", nargs="+", choices=tuple(ASSUMED), default=list(ASSUMED))
    parser.add_argument("--endless", action="store_true")
    arguments = parser.parse_args()
    results: dict[str, list[Found]] = {}
    for recipe in arguments.recipes:
        overrides = ENDLESS if arguments.endless else ()
        results[recipe] = [
            simulate(recipe, play_s, arguments.steps, overrides, arguments.seed, arguments.apart) for play_s in PLAYS_S
        ]
    tables = "\n".join(f"{recipe}\n{table(found)}\n" for recipe, found in results.items())
    conclude(arguments.out, msgspec.to_builtins(results), tables)


if __name__ == "__main__":
    main()
