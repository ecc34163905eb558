"""Base classes of programs that play a library's environment, or an item in their own text.

The host reads LIBRARIES. A zygote loads the modules of the libraries in `sandbox.libraries` before it forks a child.
A program is a subclass:

    class ChainSumEnv(ReasoningGymEnv):
        dataset = "chain_sum"
        parameters = {"min_terms": 2, "max_terms": 2}

`excluded` lists the environments that are not worth playing, with the reasons.
"""

import importlib
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from .excluded import EXCLUDED


class Library(NamedTuple):
    """A module of this package with its base classes."""

    module: str
    """The name of the module."""
    classes: tuple[str, ...]
    """The names of the base classes."""
    requirement: str = ""
    """The supported distribution with its exact version; "" if the module needs none."""
    packages: tuple[str, ...] = ()
    """The packages of the distribution that programs can import."""
    remedy: str = ""
    """The command that installs the distribution; "" if the extra `suites` installs it."""


LIBRARIES = {
    "reasoning-gym": Library("reasoning_gym", ("ReasoningGymEnv",), "reasoning-gym==0.1.23", ("reasoning_gym",)),
    "rlve": Library("rlve", ("RlveEnv",), "rlve-gym==0.0.1", ("Gym", "networkx")),
    "gem": Library("gem", ("GemEnv",), "gem-llm==0.1.0", ("gem",), "pip install --no-deps gem-llm==0.1.0"),
    "gymnasium": Library("gymnasium", ("GymnasiumTextEnv",), "gymnasium==1.4.0", ("gymnasium",)),
    "verifiers": Library(
        "verifiers", ("VerifiersEnv",), "verifiers==0.4.0", ("verifiers",), "pip install 'verifiers[ta]==0.4.0'"
    ),
    "answers": Library("answers", ("MathAnswerEnv", "ChoiceEnv")),
    "code": Library("code_tests", ("CodeTestsEnv",)),
}
"""The libraries by the names that `sandbox.libraries` uses."""

JUDGES = ("CodeTestsEnv",)
"""Base classes of programs that may have code executed in further processes."""


def load(names: Sequence[str]) -> dict[str, object]:
    """Load these libraries and reset each of their environments once. Return their base classes by name."""
    found: dict[str, object] = {}
    digits = sys.get_int_max_str_digits()
    for name in names:
        library = LIBRARIES[name]
        module = importlib.import_module(f"{__name__}.{library.module}")
        module.warm()
        found |= {each: getattr(module, each) for each in library.classes}
    sys.set_int_max_str_digits(digits)  # `code_tests.warm` has raised this limit
    return found


def programs(name: str, asked: Sequence[str] = ()) -> dict[str, dict[str, Any]]:
    """Return the program attributes of each environment of a library, except EXCLUDED. Used for pools.

    The attribute `refused` is the reason why an environment cannot be played here. Environments of verifiers that are
    named in `asked` get their tasks.
    """
    module = importlib.import_module(f"{__name__}.{LIBRARIES[name].module}")
    found = {each: attributes for each, attributes in module.programs().items() if each not in EXCLUDED[name]}
    for each in asked if name == "verifiers" else ():
        if "taskset" in found.get(each, {}):
            found[each]["tasks"] = module.read_tasks(**found[each])
    return found


def list_packages(names: Sequence[str]) -> list[str]:
    """Return the packages that programs of these libraries can import."""
    return [package for name in names for package in LIBRARIES[name].packages]
