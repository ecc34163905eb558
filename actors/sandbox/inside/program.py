"""Use a program as an environment: find its class, construct it, and check its answers against the interface."""

import builtins
import inspect
import keyword
import math
import random
import sys
import types
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any, Literal

from .given import BASES, GIVEN
from .messages import NAME_CHARACTERS
from .repair import REPAIR, compile_program

MODULE = "environment"
FILE = f"{MODULE}.py"
TEXT_CHARACTERS = 2_000
OPTIONAL = ("solution", "close")
"""Optional methods of an environment. `reset` and `step` are required."""

LISTS = (list, tuple, deque, Iterator)
"""The types that count as a list if a solution returns them."""

Kind = Literal["exception", "protocol", "reward"]
Stage = Literal["parse", "class", "interface", "construct", "schema", "play"]
Answer = dict[str, object]


class ProgramError(Exception):
    """A fault of a program, and the stage in which it happened: while the program was parsed, constructed, played …"""

    def __init__(self, kind: Kind, stage: Stage, reason: str) -> None:
        self.kind = kind
        self.stage = stage
        self.reason = escape_surrogates(reason)[:TEXT_CHARACTERS]


class LoadedProgram:
    """One loaded program. Every `reset` constructs a new instance, so a second episode knows nothing of the first.

    `random` is seeded before any code of the program runs: with 0 for the module, then with the instance's seed. Every
    method raises only ProgramError, even if a value from the program runs code when it is used.
    """

    def __init__(self, kind: type, repairs: tuple[str, ...], max_turns: int, observation_bytes: int) -> None:
        self.kind = kind
        self.repairs = repairs
        self.observation_bytes = observation_bytes
        with guard_calls("class"):
            self.name = check_name(kind)
        with guard_calls("construct"):
            self.arguments = find_turn_budget(kind, max_turns)
            kinds = read_kinds(getattr(kind, "step", None))
            self.names_action = kinds.get("action") is inspect.Parameter.KEYWORD_ONLY
        self.instance: Any = None

    def loaded(self) -> Answer:
        """Return the first message to the host."""
        return {"is": "loaded", "name": self.name, "repairs": self.repairs}

    def reset(self, seed: int) -> Answer:
        with guard_calls("construct"):
            seed_generators(seed)
            self.build()
        with guard_calls("play"):
            seed_generators(seed)
            answer = plain(begin(self.instance, seed))
            if is_a(answer, str):  # as in old versions of Gym
                answer = answer, {}
            if not (type(answer) is tuple and len(answer) == 2):
                raise ProgramError(
                    "protocol", "play", f"reset must return (observation, info), not {describe_type(answer)}"
                )
            return self.observed("reset", answer[0], answer[1], 0.0, False, False)

    def build(self) -> None:
        """Construct a new instance."""
        self.instance = self.kind(**self.arguments)

    def step(self, action: str) -> Answer:
        with guard_calls("play"):
            step = self.instance.step
            with explain_refused_call("step", "action"):
                answer = step(action=action) if self.names_action else step(action)
            return self.stepped(answer)

    def stepped(self, answer: object) -> Answer:
        """Check the result of `step` and return it as an answer."""
        answer = plain(answer)
        if not (type(answer) is tuple and len(answer) == 5):
            wanted = "(observation, reward, terminated, truncated, info)"
            raise ProgramError("protocol", "play", f"step must return {wanted}, not {describe_type(answer)}")
        observation, reward, terminated, truncated, info = answer
        paid, over, cut = (
            require_number(reward),
            require_flag("terminated", terminated),
            require_flag("truncated", truncated),
        )
        return self.observed("step", observation, info, paid, over, cut)

    def solve(self) -> Answer:
        """Return the reference solution as a list of actions, or None if the program only describes it or lacks it."""
        with guard_calls("play"):
            answer = self.instance.solution() if hasattr(self.kind, "solution") else ""
            actions = None
            if is_a(answer, LISTS):
                actions = [escape_surrogates(str(convert_scalar(action))) for action in answer]
            elif answer is not None and not is_a(answer, str):
                wanted = "a list of actions or a text"
                raise ProgramError("protocol", "play", f"solution must return {wanted}, not {describe_type(answer)}")
            return {"is": "solved", "actions": actions}

    def observed(
        self, method: str, text: object, info: object, reward: float, terminated: bool, truncated: bool
    ) -> Answer:
        if not is_a(text, str):
            raise ProgramError(
                "protocol", "play", f"{method}: the observation must be a str, not {describe_type(text)}"
            )
        if info is not None and not is_a(info, dict):
            raise ProgramError("protocol", "play", f"{method}: info must be a dict, not {describe_type(info)}")
        said = escape_surrogates(text)  # type: ignore[arg-type]
        if len(said.encode()) > self.observation_bytes:
            raise ProgramError("protocol", "play", f"{method}: the observation is over {self.observation_bytes} bytes")
        return {"is": "observed", "text": said, "reward": reward, "terminated": terminated, "truncated": truncated}


def run_module(source: str) -> tuple[type, tuple[str, ...]]:
    """Compile and run the module. Returns its environment class and the repairs that its text needed."""
    source = source.removeprefix("\ufeff")  # remove the byte order mark that some editors write
    module = types.ModuleType(MODULE)
    vars(module).update(GIVEN)
    with guard_calls("parse"):
        code, text = compile_program(source, FILE, (vars(module), vars(builtins), keyword.kwlist))
    sys.modules[MODULE] = module  # dataclasses look up their module in sys.modules
    seed_generators(0)
    with guard_calls("class"):
        exec(code, vars(module))
        return find_environment_class(module), () if text == source else (REPAIR,)


def find_environment_class(module: types.ModuleType) -> type:
    """Return the class with `reset` and `step` that no other such class extends.

    If there are several, return the one whose name ends with `Env`. Raises ProgramError if there is no unique class.
    """
    own = {kind: None for kind in vars(module).values() if isinstance(kind, type) and kind.__module__ == MODULE}
    if taken := [base.__name__ for base in BASES if base.__name__ in map(name_of, own)]:
        raise ProgramError("protocol", "class", f"it must not define {taken[0]}, which the runtime provides")
    playable = [kind for kind in own if all(callable(getattr(kind, name, None)) for name in ("reset", "step"))]
    leaves = [kind for kind in playable if not any(kind in other.__mro__[1:] for other in playable)]
    leaves = [kind for kind in leaves if not is_interface(kind)] or leaves
    chosen = leaves if len(leaves) == 1 else [kind for kind in leaves if name_of(kind).endswith("Env")]
    if len(chosen) != 1:
        names = ", ".join(name_of(kind) for kind in chosen or own) or "none"
        wanted = "one class with reset and step, named …Env if there are several"
        raise ProgramError("protocol", "class", f"needs {wanted}; found: {names}")
    hidden = [name for name in OPTIONAL if hasattr(chosen[0], name) and not callable(getattr(chosen[0], name))]
    if hidden:
        raise ProgramError("protocol", "interface", f"{' and '.join(hidden)} of {name_of(chosen[0])} is not a method")
    return chosen[0]


def is_interface(kind: type) -> bool:
    """Return True for an abstract class or a Protocol."""
    return inspect.isabstract(kind) or bool(getattr(kind, "_is_protocol", False))


def find_turn_budget(kind: type, max_turns: int) -> dict[str, int]:
    """Return the constructor's arguments: `max_turns`, or {} if the constructor has no such parameter.

    The value is the parameter's default, if that is an int and less than ours, else our `max_turns`.
    """
    try:
        parameters = inspect.signature(kind).parameters
    except (TypeError, ValueError):
        return {}
    if "max_turns" not in parameters:
        return {}
    own = parameters["max_turns"].default
    return {"max_turns": min(own, max_turns) if type(own) is int else max_turns}


def begin(instance: Any, seed: int) -> object:
    """Call `reset` with the seed: by name if the method has such a parameter, as in Gymnasium, else by position."""
    kinds = read_kinds(instance.reset)
    by_name = {inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD}
    if "seed" in kinds:
        named = kinds["seed"] in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    else:
        named = by_name.issuperset(kinds.values()) and inspect.Parameter.VAR_KEYWORD in kinds.values()
    with explain_refused_call("reset", "seed"):
        return instance.reset(seed=seed) if named else instance.reset(seed)


@contextmanager
def explain_refused_call(name: str, value: str) -> Iterator[None]:
    """Turn the TypeError of a method that does not take its value into a ProgramError that says what to write.

    Python raises such an error before any line of the method runs. If a wrapper has run, the error is about the method
    behind it.
    """
    try:
        yield
    except TypeError as error:
        traces = list_program_traces(error)
        if not traces:
            reason = f"{name} must take the {value}: write `def {name}(self, {value})`"
        elif len(traces) == 1 and traces[0].tb_frame.f_code.co_name != name and "argument" in str(error):
            reason = f"a wrapper hides the parameters of {name}: write `@functools.wraps(method)` above its `def`"
        else:
            raise
        raise ProgramError("protocol", "interface", reason) from None


def read_kinds(method: Any) -> dict[str, object]:
    """Return the kind of each parameter of a method. Returns {} if the signature cannot be read.

    If the method only has `*args` and `**kwargs`, read the parameters of the method that it wraps (`functools.wraps`).
    """
    anything = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    kinds: dict[str, object] = {}
    try:
        for follow in (False, True):
            parameters = inspect.signature(method, follow_wrapped=follow).parameters
            kinds = {name: each.kind for name, each in parameters.items() if name != "self"}
            if set(kinds.values()) != anything:
                break
    except (TypeError, ValueError):
        return {}
    return kinds


@contextmanager
def guard_calls(stage: Stage) -> Iterator[None]:
    """Turn every exception of the program, including SystemExit and KeyboardInterrupt, into ProgramError."""
    try:
        yield
    except ProgramError:
        raise
    except BaseException as error:
        raise ProgramError("exception", stage, describe_exception(error)) from None


def describe_exception(error: BaseException) -> str:
    """Return type and text of an exception, and the line of the program that raised it."""
    traces = list_program_traces(error)
    try:
        text = f"{name_of(type(error))}: {error}"
    except BaseException:
        text = name_of(type(error))
    return f"{text} (line {traces[-1].tb_lineno})" if traces else text


def list_program_traces(error: BaseException) -> list[types.TracebackType]:
    """Return the entries of an exception's traceback that are in the program, the outermost first."""
    traces, trace = list[types.TracebackType](), error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == FILE:
            traces.append(trace)
        trace = trace.tb_next
    return traces


def seed_generators(seed: int) -> None:
    """Seed the global generators of `random` and numpy."""
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % 2**32)


def require_number(reward: object) -> float:
    """Return the reward as a float. Raises ProgramError unless `convert_scalar` gives a finite int, float or bool."""
    reward = convert_scalar(reward)
    if type(reward) not in (int, float, bool):
        raise ProgramError(
            "reward", "play", f"step: the reward must be an int, float or bool, not {describe_type(reward)}"
        )
    try:
        value = float(reward)  # type: ignore[arg-type]
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        raise ProgramError("reward", "play", f"step: the reward must be finite, is {value}")
    return value


def require_flag(name: str, value: object) -> bool:
    value = convert_scalar(value)
    if type(value) is not bool:
        raise ProgramError("protocol", "play", f"step: {name} must be a bool, not {describe_type(value)}")
    return value


def convert_scalar(value: object) -> object:
    """Convert a numpy scalar to Python's type, and a member of an Enum to its value. Return others unchanged."""
    if is_a(value, Enum):
        return value.value  # type: ignore[attr-defined]
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        return value.item()  # type: ignore[attr-defined]
    return value


def plain(value: object) -> object:
    """Return an instance of a subclass of tuple, such as a named tuple, as a tuple. Return other values unchanged."""
    return tuple.__getitem__(value, slice(None)) if is_a(value, tuple) else value  # type: ignore[call-overload]


def describe_type(value: object) -> str:
    """Describe the type of a value for a message."""
    exact = type(value) is tuple or type(value) is list
    return f"a {name_of(type(value))} of {len(value)}" if exact else name_of(type(value))  # type: ignore[arg-type]


def name_of(kind: type) -> str:
    """Return the name of a class. A metaclass cannot forge it."""
    return str(type.__dict__["__name__"].__get__(kind))


def check_name(kind: type) -> str:
    """Return the name of a class. Raises ProgramError unless it is an ASCII identifier, so that no names look alike."""
    name = name_of(kind)
    if not (name.isascii() and name.isidentifier() and len(name) <= NAME_CHARACTERS):
        wanted = f"an ASCII identifier of at most {NAME_CHARACTERS} characters, is {name[:NAME_CHARACTERS]!a}"
        raise ProgramError("protocol", "class", f"the name of the class must be {wanted}")
    return name


def is_a(value: object, kind: type | tuple[type, ...]) -> bool:
    """Return isinstance(value, kind), but ignore `__class__`, by which a value could forge its class."""
    return issubclass(type(value), kind)


def escape_surrogates(text: str) -> str:
    """Escape lone surrogates, so that the text can be encoded as UTF-8."""
    return str.encode(text, errors="backslashreplace").decode()
