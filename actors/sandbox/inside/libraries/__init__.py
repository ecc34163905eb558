"""Base classes of programs that play a library's environment, or an item that their own text holds.

The host reads LIBRARIES; a zygote loads the modules of those that `sandbox.libraries` names, before any child is born.
A program is a subclass:

    class ChainSumEnv(ReasoningGymEnv):
        dataset = "chain_sum"
        parameters = {"min_terms": 2, "max_terms": 2}

`excluded` names the environments that are not worth playing, with the reasons.
"""

import importlib
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from .excluded import EXCLUDED


class Library(NamedTuple):
    """A module of this package with its base classes.

    `requirement`: the distribution that is supported, exactly; "" for none. `packages`: what programs can import of it.
    `remedy`: the command that installs it; "" if the extra `suites` does.
    """

    module: str
    classes: tuple[str, ...]
    requirement: str = ""
    packages: tuple[str, ...] = ()
    remedy: str = ""


LIBRARIES = {
    "reasoning-gym": Library("reasoning_gym", ("ReasoningGymEnv",), "reasoning-gym==0.1.23", ("reasoning_gym",)),
    "rlve": Library("rlve", ("RlveEnv",), "rlve-gym==0.0.1", ("Gym", "networkx")),
    "gem": Library("gem", ("GemEnv",), "gem-llm==0.1.0", ("gem",), "pip install --no-deps gem-llm==0.1.0"),
    "gymnasium": Library("gymnasium", ("GymnasiumTextEnv",), "gymnasium==1.4.0", ("gymnasium",)),
    "answers": Library("answers", ("MathAnswerEnv", "ChoiceEnv")),
    "code": Library("code_tests", ("CodeTestsEnv",)),
}
"""By the names of `sandbox.libraries`."""

JUDGES = ("CodeTestsEnv",)
"""The base classes whose programs may have code executed in further processes."""


def load(names: Sequence[str]) -> dict[str, object]:
    """The base classes of these libraries, by name, once each environment of theirs has been reset."""
    found: dict[str, object] = {}
    digits = sys.get_int_max_str_digits()
    for name in names:
        library = LIBRARIES[name]
        module = importlib.import_module(f"{__name__}.{library.module}")
        module.warm()
        found |= {each: getattr(module, each) for each in library.classes}
    sys.set_int_max_str_digits(digits)  # what one program's judge allows itself is not for all programs
    return found


def programs(name: str) -> dict[str, dict[str, Any]]:
    """The attributes of a program of each environment of a library that is a source of pools, but for EXCLUDED."""
    found: dict[str, dict[str, Any]] = importlib.import_module(f"{__name__}.{LIBRARIES[name].module}").programs()
    return {each: attributes for each, attributes in found.items() if each not in EXCLUDED[name]}


def packages(names: Sequence[str]) -> list[str]:
    """The packages that programs of these libraries can import."""
    return [package for name in names for package in LIBRARIES[name].packages]
