"""Estimate pass@k and pass^k of an item without bias, from n samples of which c are right."""

from collections.abc import Callable, Iterable
from math import comb, fsum

from spade.errors import ConfigError


def compute_any_of(n: int, c: int, k: int) -> float:
    """Return the share of k-subsets that hold a right sample: pass@k = 1 − C(n − c, k) / C(n, k).

    M. Chen and others, Evaluating large language models trained on code, 2021. Raises ConfigError unless 1 <= k <= n.
    """
    return 1 - comb(n - c, k) / _count_subsets(n, k)


def compute_all_of(n: int, c: int, k: int) -> float:
    """Return the share of k-subsets that hold only right samples: pass^k = C(c, k) / C(n, k).

    S. Yao and others, τ-bench, 2024. Raises ConfigError unless 1 <= k <= n.
    """
    return comb(c, k) / _count_subsets(n, k)


def pass_share(each: Callable[[int, int, int], float], items: Iterable[tuple[int, int]], k: int) -> float:
    """Return the mean of `compute_any_of` or `compute_all_of` over items, each given as (samples, right samples)."""
    values = [each(n, c, k) for n, c in items]
    return fsum(values) / len(values)


def _count_subsets(n: int, k: int) -> int:
    if not 1 <= k <= n:
        raise ConfigError(f"k = {k}: passes need a k from 1 to {n}, the number of samples of an item")
    return comb(n, k)
