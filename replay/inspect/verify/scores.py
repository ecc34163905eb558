"""Check scores, regrets, rewards, averages and the memory by computing their figures again from the plays."""

import math
from collections.abc import Iterator, Sequence

from replay.inspect.contents import StoreContents
from replay.ledger.records import Environment, MovingAverages, PlayRecord, Score
from replay.ledger.reward import (
    add_to_averages,
    compute_least_regret,
    compute_mean_return,
    compute_paired_regret,
    compute_win_rate,
    compute_window_reward,
    measure,
    pair_returns,
)
from spade.config import Config, Reward


def score_problems(found: StoreContents, settings: Config) -> Iterator[str]:
    """Yield one line for each violation."""
    yield from _check_scores(found, settings)
    yield from _check_averages(found, settings.reward)
    yield from _check_memory(found)


def _check_scores(found: StoreContents, settings: Config) -> Iterator[str]:
    """Compute the figures of every closed window again from its plays."""
    chunks = found.chunks()
    for key, environment in found.environments.items():
        score = environment.score
        if score is None:
            continue
        plays = [play for chunk in environment.chunks for play in chunks.get((key, chunk.index), [])]
        finished = [play for play in plays if play.state == "finished"]
        regret, mean = compute_paired_regret(pair_returns(finished)), compute_mean_return(finished)
        least = None if score.luck is None else compute_least_regret(plays)
        counts = (len(finished), sum(play.state == "void" for play in plays))
        if (score.plays, score.voids) != counts:
            yield (
                f"environments {key}: scored over {score.plays} finished and {score.voids} void plays, "
                f"it has {counts[0]} and {counts[1]}"
            )
        if (score.regret, score.regret_error) != ((regret.mean, regret.error) if regret else (None, None)):
            yield f"environments {key}: its regret is {score.regret}, its plays say {regret and regret.mean}"
        elif score.mean_return != mean:
            yield f"environments {key}: its mean return is {score.mean_return}, its plays say {mean}"
        elif score.least_regret != (least and least.mean):
            yield f"environments {key}: its least regret is {score.least_regret}, its plays say {least and least.mean}"
        elif not 0 <= (score.luck or 0) <= _count_most_luck(environment, plays):
            yield f"environments {key}: {score.luck} lost plays count as void, its plays and its audit do not allow it"
        elif score.reward != _compute_earned(environment, score, plays, settings):
            yield f"environments {key}: its designer reward is {score.reward}, which does not follow from its figures"


def _count_most_luck(environment: Environment, plays: Sequence[PlayRecord]) -> int:
    """Return the greatest number of lost plays that may count as void. Returns 0 if no audit played lost instances, or
    if the solution won all of them."""
    audit = environment.audit
    if audit is None or not audit.lost or (audit.tried and audit.tried == audit.solved):
        return 0
    return sum(play.state == "finished" and not play.hinted for play in plays)


def _compute_earned(
    environment: Environment, score: Score, plays: Sequence[PlayRecord], settings: Config
) -> float | None:
    """Recompute the designer's reward by the rules that were valid when the window was scored."""
    if _is_unaudited(environment):
        return None
    win_return = _find_win_return(plays, score, settings.play.win_return)
    window = measure(plays, score, environment.measures.similarity, win_return)
    return compute_window_reward(window, environment.state == "quarantined", settings.reward)


def _find_win_return(plays: Sequence[PlayRecord], score: Score, newest: float) -> float:
    """Return a `play.win_return` under which the plays have the win rates of the score.

    A resume may have changed the setting since the window was scored. So `newest`, the present setting, is only the
    first value to try. If no value fits, return `newest`.
    """
    finished = [play for play in plays if play.state == "finished"]
    rates = (False, score.win_rate), (True, score.win_rate_hinted)
    for value in (newest, *(play.episode_return for play in finished), math.inf):
        if all(compute_win_rate(finished, hinted, value) == rate for hinted, rate in rates):
            return value
    return newest


def _is_unaudited(environment: Environment) -> bool:
    return environment.audit is not None and environment.audit.state == "left out"


def _check_averages(found: StoreContents, reward: Reward) -> Iterator[str]:
    """Compute the averages of each skill again from its windows, in the order in which they closed."""
    closed: dict[str, list[tuple[int, str, Score, float]]] = {}
    for key, environment in found.environments.items():
        score = environment.score
        if score is None:
            continue
        enters = environment.state == "closed" and not _is_unaudited(environment) and score.mean_return is not None
        if enters != (score.order is not None):
            where = f"its place in the averages of {environment.skill} is {score.order}"
            yield f"environments {key}: {where}, although it is {environment.state}"
        if score.order is not None and score.mean_return is not None:
            closed.setdefault(environment.skill, []).append((score.order, key, score, score.mean_return))
    for skill in closed.keys() | found.counters.averages.keys():
        averages: MovingAverages | None = None
        for place, (order, key, score, mean) in enumerate(sorted(closed.get(skill, []))):
            slow = None if averages is None else averages.slow
            if (order, score.slow) != (place, slow):
                yield (
                    f"environments {key}: is window {order} of {skill} with the slow average {score.slow} before it, "
                    f"the windows before say {place} and {slow}"
                )
            averages = add_to_averages(averages, mean, reward)
        if averages != found.counters.averages.get(skill):
            yield f"counters: the averages of {skill} are not those of its windows"


def _check_memory(found: StoreContents) -> Iterator[str]:
    numbers = [record.number for record in found.memory.values()]
    if numbers != list(range(found.counters.remembered - len(numbers), found.counters.remembered)):
        yield f"memory: its {len(numbers)} records are not the last of {found.counters.remembered}"
    for key, record in found.memory.items():
        if record.environment not in found.sources:
            yield f"memory {key}: the program of {record.environment} is missing"
        environment = found.environments.get(record.environment)
        score = None if environment is None else environment.score
        if score is None:
            continue
        regret = score.regret if score.luck is None else score.least_regret
        if (record.regret, record.win_rate, record.reward) != (regret, score.win_rate, score.reward):
            yield f"memory {key}: its figures are not those of {record.environment}"
