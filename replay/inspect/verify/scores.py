"""Checks of figures computed from plays: scores, regret, rewards and the memory are computed again."""

from collections.abc import Iterator

from replay.inspect.contents import Contents
from replay.ledger.records import Environment
from replay.ledger.reward import Regret, paired_regret, paired_returns, window_reward
from spade.config import Reward


def score_problems(found: Contents, reward: Reward) -> Iterator[str]:
    """One line for each violation."""
    yield from _scores(found, reward)
    yield from _memory(found)


def _scores(found: Contents, reward: Reward) -> Iterator[str]:
    """Compute the figures of every closed window again from its plays."""
    chunks = found.chunks()
    for key, environment in found.environments.items():
        score = environment.score
        if score is None:
            continue
        plays = [play for chunk in environment.chunks for play in chunks.get((key, chunk.index), [])]
        finished = [play for play in plays if play.state == "finished"]
        regret = paired_regret(paired_returns(finished))
        counts = (len(finished), sum(play.state == "void" for play in plays))
        if (score.plays, score.voids) != counts:
            yield f"environments {key}: scored over {score.plays} plays and {score.voids} voids, it has {counts}"
        if (score.regret, score.regret_error) != ((regret.mean, regret.error) if regret else (None, None)):
            yield f"environments {key}: its regret is {score.regret}, its plays say {regret and regret.mean}"
        elif score.reward != _earned(environment, regret, reward):
            yield f"environments {key}: its designer reward is {score.reward}, its figures say otherwise"


def _earned(environment: Environment, regret: Regret | None, reward: Reward) -> float | None:
    assert environment.score is not None
    if environment.audit is not None and environment.audit.state == "left out":
        return None
    return window_reward(regret, environment.score.win_rate, environment.state == "quarantined", reward)


def _memory(found: Contents) -> Iterator[str]:
    numbers = [record.number for record in found.memory.values()]
    if numbers != list(range(found.counters.remembered - len(numbers), found.counters.remembered)):
        yield f"memory: its {len(numbers)} records are not the last of {found.counters.remembered}"
    for key, record in found.memory.items():
        if record.environment not in found.sources:
            yield f"memory {key}: the program of {record.environment} is missing"
        environment = found.environments.get(record.environment)
        score = None if environment is None else environment.score
        if score is not None and (record.regret, record.win_rate) != (score.regret, score.win_rate):
            yield f"memory {key}: its figures are not those of {record.environment}"
