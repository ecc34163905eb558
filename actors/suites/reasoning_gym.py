"""Reasoning-Gym: generated problems.

`reasoning-gym-hard` has a hundred hard data sets in four categories. `reasoning_gym_hard.json` has the parameters of
the library's own hard evaluation. The library draws 500 problems of each data set with seed 42. The suite's items are
some of these. The suite keeps game_of_life_halting, although the library's scorer rewards nonsense there.
`reasoning-gym-nano` has the six small data sets that `nano-fixed` and `smol` train. `reasoning-gym-transfer` has twelve
other data sets of that size, which no recipe trains. Its answers may be longer than in training, so that a policy
gains nothing by only learning to be brief.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from msgspec.structs import replace

from actors.suites.programs import make_class_name, write_program
from actors.suites.suite import Suite
from spade.evaluations import Protocol, Sampling, SuiteItem

PACKAGES = {"reasoning-gym": "0.1.23"}
_ASK = """{problem}

Put the answer in \\boxed{}."""
_SEED, _PLACES = 42, 500
_PAPER = Sampling(temperature=0.6, top_p=0.8, top_k=20, max_tokens=8_192)
_NANO = Sampling(temperature=1.0, max_tokens=24)
_TRANSFER = Sampling(temperature=1.0, max_tokens=64)

HARD: Mapping[str, Mapping[str, Mapping[str, Any]]] = msgspec.json.decode(
    Path(__file__).with_name("reasoning_gym_hard.json").read_bytes()
)
"""Parameters by category and data set."""

SMALL: Mapping[str, Mapping[str, Any]] = {
    "basic_arithmetic": {  # "/" is left out, because the library shows another divisor than the one it computed with
        "min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 1, "allow_parentheses": False,
        "operators": ["+", "-", "*"],
    },
    "chain_sum": {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 1},
    "count_primes": {"min_n": 1, "max_n": 9},
    "gcd": {"min_numbers": 2, "max_numbers": 2, "min_value": 1, "max_value": 9},
    "letter_counting": {"min_words": 1, "max_words": 3},
    "spell_backward": {"min_word_len": 3, "max_word_len": 3},
}  # fmt: skip
"""Parameters by data set, for very small problems: one-digit numbers, and words of a few letters or a few words."""

TRANSFER: Mapping[str, Mapping[str, Any]] = {
    "calendar_arithmetic": {},
    "count_bits": {"min_n": 1, "max_n": 15},
    "decimal_chain_sum": {
        "min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 1, "min_decimal_places": 1,
        "max_decimal_places": 1,
    },
    "fraction_simplification": {"min_value": 1, "max_value": 9, "min_factor": 2, "max_factor": 5},
    "isomorphic_strings": {"max_string_length": 4},
    "lcm": {"min_numbers": 2, "max_numbers": 2, "min_value": 1, "max_value": 9},
    "leg_counting": {"min_animals": 1, "max_animals": 2, "min_instances": 1, "max_instances": 3},
    "needle_haystack": {"min_num_statements": 2, "max_num_statements": 4},
    "number_sequence": {"min_value": 1, "max_value": 9, "max_complexity": 1},
    "prime_factorization": {"min_value": 2, "max_value": 30},
    "products": {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 1},
    "simple_equations": {
        "min_terms": 2, "max_terms": 2, "min_value": 1, "max_value": 9, "operators_weights": [0.5, 0.5, 0.0],
    },
}  # fmt: skip
"""Parameters by data set, for problems about as small as those of `SMALL`. No data set is in both."""


def read_hard(protocol: Protocol, _: Path | None) -> list[SuiteItem]:
    """See Reader. Item n of a data set is the problem at the place that seed n draws."""
    places = [Random(number).randrange(_PLACES) for number in range(protocol.draws)]
    return [
        SuiteItem(f"{dataset}/{place}", category, _make_program(dataset, _set_size(parameters), index=place), _SEED)
        for category, datasets in HARD.items()
        for dataset, parameters in datasets.items()
        for place in places
    ]


def read_small(datasets: Mapping[str, Mapping[str, Any]], protocol: Protocol, _: Path | None) -> list[SuiteItem]:
    """See Reader. Each data set has the instances of the seeds from 0."""
    return [
        SuiteItem(f"{dataset}/{seed}", dataset, _make_program(dataset, parameters), seed)
        for dataset, parameters in datasets.items()
        for seed in range(protocol.draws)
    ]


def _make_small_suite(name: str, datasets: Mapping[str, Mapping[str, Any]], sampling: Sampling, samples: int) -> Suite:
    """Make a suite that asks the questions of small data sets as they are. `samples` is for the protocol `paper`."""
    whole = Protocol(name="paper", prompt="{problem}", sampling=sampling, samples=samples, grading="box", draws=32)
    short = replace(whole, name="short", samples=1, draws=8)
    return Suite(name, {"paper": whole, "short": short}, partial(read_small, datasets), packages=PACKAGES)


def _set_size(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters for a data set of 500. The size matters, because the problems of `acre` depend on it."""
    return {**parameters, "size": _PLACES}


def _make_program(dataset: str, parameters: Mapping[str, Any], **more: int) -> str:
    return write_program(
        "ReasoningGymEnv", make_class_name(dataset), dataset=dataset, parameters=dict(parameters), **more
    )


REASONING_GYM = Suite(
    "reasoning-gym-hard",
    {
        "paper": Protocol(name="paper", prompt=_ASK, sampling=_PAPER, samples=1, grading="box", draws=4),
        "release": Protocol(name="release", prompt=_ASK, sampling=_PAPER, samples=1, grading="box", draws=8),
        "short": Protocol(name="short", prompt=_ASK, sampling=_PAPER, samples=1, grading="box", draws=1),
    },
    read_hard,
    packages=PACKAGES,
)

REASONING_GYM_NANO = _make_small_suite("reasoning-gym-nano", SMALL, _NANO, samples=2)
REASONING_GYM_TRANSFER = _make_small_suite("reasoning-gym-transfer", TRANSFER, _TRANSFER, samples=1)
