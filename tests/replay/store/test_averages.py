"""Learning potential against a plain reference, over runs with accidents whose service is killed again and again."""

from random import Random
from statistics import fmean

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.inspect.contents import read_contents
from replay.inspect.verify import find_problems
from replay.ledger.ledger import Ledger
from replay.ledger.records import Environment, PlayRecord, RunCounters
from replay.ledger.reward import FAST
from replay.store import open_reader, open_store
from replay.store.load import Header, load
from spade.config import compute_digest, dump
from tests.replay.kept_world import ACCIDENTS
from tests.replay.replay_world import SECRET, World, config, snapshot

SETTINGS = config(
    "reward.kind=learning_potential", "reward.slow=0.125", "learner.batch_sequences=24",
    "play.lease_s=4", "play.window_chunks=1", "play.group_size=4", "design.lease_s=20", "audit.replays=1",
)  # fmt: skip
UNTIL = 40.0


def live(folder, seed, kills):
    """A run in a store. After each commit of the draw by `kills` (None: never) it is thrown away and loaded again."""
    world = World(SETTINGS, seed, ACCIDENTS)
    random = Random(kills)
    with open_store(folder, "nosync") as store:
        store.commit(store.encode([("meta", "run", Header(SECRET, compute_digest(SETTINGS), dump(SETTINGS), 0.0))]))

        def commit(world):
            if changes := world.ledger.state.changes():
                store.commit(store.encode(changes))
                if kills is not None and random.random() < 0.1:
                    world.ledger = Ledger(load(store, SETTINGS, SECRET))

        world.run(UNTIL, commit)
    return world


def plain_average(rate, values):
    """The average of `values` by a rate, the oldest first, as the sum of what is left of each."""
    weights = [
        rate * (1 - rate) ** (len(values) - 1 - i) if i else (1 - rate) ** (len(values) - 1) for i in range(len(values))
    ]
    return sum(weight * value for weight, value in zip(weights, values, strict=True))


@settings(max_examples=6)
@given(st.integers(0, 1_000), st.integers(0, 1_000))
def test_rewards_are_those_of_a_plain_reference_whatever_was_killed(tmp_path_factory, seed, kills):
    folder = tmp_path_factory.mktemp("store")
    shaken = live(folder, seed, kills)
    calm = live(tmp_path_factory.mktemp("calm"), seed, None)
    assert snapshot(shaken.ledger.state) == snapshot(calm.ledger.state)
    with open_reader(folder) as store:
        assert find_problems(read_contents(store)) == []
        environments, plays = store.scan("environments", Environment), store.scan("plays", PlayRecord)
        counters = store.get("meta", "counters", RunCounters)
    over = sorted((e for e in environments if e.score), key=lambda e: (e.closed_at, e.score.order or 0))
    assert {e.state for e in over} <= {"closed", "quarantined"}
    seen = {}
    for environment in over:
        score, before = environment.score, seen.setdefault(environment.skill, [])
        mine = [play for play in plays if play.environment == environment.id]
        returns = [play.episode_return for play in mine if play.state == "finished"]
        voids = sum(play.state == "void" for play in mine)
        if environment.state == "quarantined":
            assert (score.reward, score.order) == (0.0, None)
        elif (environment.audit is not None and environment.audit.state == "left out") or not returns:
            assert (score.reward, score.order) == (None, None)
        else:
            expected = None
            if before:
                # A void counts as any return: the least distance is paid.
                slow, ended = plain_average(0.125, before), len(returns) + voids
                expected = max(0.0, (sum(returns) - voids) / ended - slow, slow - (sum(returns) + voids) / ended)
            assert score.reward == (None if expected is None else pytest.approx(expected, abs=1e-12))
            assert score.order == len(before)
            before.append(fmean(returns))
    for skill, values in seen.items():
        if values:
            kept = counters.averages[skill]
            assert (kept.fast, kept.slow) == pytest.approx((plain_average(FAST, values), plain_average(0.125, values)))
            assert kept.windows == len(values)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda score: msgspec.structs.replace(score, slow=score.slow + 0.25), "the windows before say"),
        (lambda score: msgspec.structs.replace(score, order=score.order + 1), "the windows before say"),
        (lambda score: msgspec.structs.replace(score, order=None), "its place in the averages"),
        (lambda score: msgspec.structs.replace(score, mean_return=0.123), "its mean return is 0.123"),
        (lambda score: msgspec.structs.replace(score, reward=0.123), "its designer reward is 0.123"),
    ],
    ids=["slow", "order", "left out", "mean", "reward"],
)
def test_figures_that_do_not_follow_from_the_windows_before_are_named(tmp_path, change, says):
    live(tmp_path, 1, None)
    with open_store(tmp_path, "nosync") as store:
        environment = next(e for e in store.scan("environments", Environment) if e.score and e.score.order == 1)
        environment.score = change(environment.score)
        store.commit(store.encode([("environments", environment.id, environment)]))
    with open_reader(tmp_path) as store:
        assert any(says in line for line in find_problems(read_contents(store)))


def test_averages_that_are_not_those_of_the_windows_are_named(tmp_path):
    live(tmp_path, 1, None)
    with open_store(tmp_path, "nosync") as store:
        counters = store.get("meta", "counters", RunCounters)
        skill = min(counters.averages)
        counters.averages[skill].fast += 0.5
        store.commit(store.encode([("meta", "counters", counters)]))
    with open_reader(tmp_path) as store:
        assert f"counters: the averages of {skill} are not those of its windows" in find_problems(read_contents(store))
