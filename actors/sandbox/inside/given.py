"""Names that a program can use without an import, and modules that the zygote loads in advance.

Designers often forget imports. The zygote loads each module once, which saves each child the time. Modules in machine
code must be loaded before a child restricts itself, since it cannot make memory executable afterwards.
"""

import importlib
import importlib.machinery
import importlib.util
import sys
import warnings
import zoneinfo
from contextlib import suppress

_MODULES = (
    "abc", "bisect", "cmath", "collections", "copy", "dataclasses", "datetime", "decimal", "enum", "fractions",
    "functools", "hashlib", "heapq", "itertools", "json", "math", "numbers", "operator", "os", "random", "re",
    "statistics", "string", "sys", "textwrap", "time", "types", "typing", "uuid",
)  # fmt: skip

_LOADED = (
    "_strptime", "argparse", "array", "ast", "base64", "binascii", "bz2", "calendar", "collections.abc", "colorsys",
    "contextlib", "csv", "ctypes", "difflib", "errno", "graphlib", "html", "inspect", "io", "logging", "lzma", "pprint",
    "queue", "sched", "secrets", "shlex", "signal", "socket", "struct", "subprocess", "threading", "timeit",
    "traceback", "unicodedata", "warnings", "weakref", "zipfile", "zlib",
)  # fmt: skip

_NAMES = {
    "abc": "ABC abstractmethod",
    "collections": "Counter OrderedDict defaultdict deque namedtuple",
    "copy": "deepcopy",
    "dataclasses": "dataclass field",
    "enum": "Enum IntEnum auto",
    "fractions": "Fraction",
    "functools": "lru_cache reduce",
    "itertools": "combinations permutations product",
    "typing": "Any Callable Dict List Literal Optional Sequence Set Tuple Union",
}


class ToolUseBaseEnv:
    """The base of a program whose player uses tools. It needs `reset`, `solution` and a method `tool_<name>` per tool.

    The runtime (`tools/runtime.py`) calls these methods, shows the instructions and grades. `reset` sets `_state` (a
    dict), `_user_messages` (the instructions) and `_message_criteria` (a function of the state for each instruction).
    The runtime writes the index of the present instruction to `_current_msg`. Programs in the paper's style may set
    `_tools`, read the other attributes, and define grading methods of their own, which nobody calls.
    """

    _tools: object = None

    def __init__(self, max_turns: int | None = None, **_: object) -> None:
        # None means that the program's own constructor passes no limit. Otherwise the runtime passes the play's limit.
        self.max_turns = 25 if max_turns is None else max_turns
        self.turn_count = 0
        if self._tools is None:
            self._tools = {}
        self._state: object = {}
        self._user_messages: object = []
        self._message_criteria: object = []
        self._current_msg = 0
        self._expected_answer: object = "done"
        self._call_history: list[object] = []

    def reset(self, seed: int | None = None) -> tuple[str, dict[str, object]]:
        """Return "" and {}. The program overrides this method to make the instance, and may call it."""
        return "", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, object]]:
        """Raise NotImplementedError: the runtime calls the tools instead."""
        raise NotImplementedError("the runtime calls the tools")

    def _advance_if_done(self) -> str:
        """Return "": the runtime gives the next instruction."""
        return ""


BASES = (ToolUseBaseEnv,)
"""Base classes that a program can use without an import. It must not define a class with the name of one of them."""


def _make_given() -> dict[str, object]:
    for module in (*_LOADED, *_list_machine_code()):
        with suppress(ImportError), warnings.catch_warnings():  # this Python may lack it, or deprecate it
            warnings.simplefilter("ignore", DeprecationWarning)
            importlib.import_module(module)
    names: dict[str, object] = {module: importlib.import_module(module) for module in _MODULES}
    for module, listed in _NAMES.items():
        names |= {name: getattr(names[module], name) for name in listed.split()}
    return names | {base.__name__: base for base in BASES}


def _list_machine_code() -> list[str]:
    """Return the standard library's extension modules, except modules for its own tests and for terminals."""
    wanted = sorted(name for name in sys.stdlib_module_names if "test" not in name and "curses" not in name)
    extension = importlib.machinery.ExtensionFileLoader
    return [
        name
        for name in wanted
        if name not in ("readline", "_tkinter", "_dbm", "_gdbm", "nis")
        and (spec := importlib.util.find_spec(name)) is not None
        and isinstance(spec.loader, extension)
    ]


GIVEN = _make_given()
"""The modules, classes and functions that a program can use without an import, by name. `load_heavy` adds `np`."""


def load_time_zones() -> None:
    """Load all time zones and keep them, so that `ZoneInfo` finds them in its cache. A child can open no file.

    Some systems list the machine's own time zone as well. It is left out, as it would differ between machines.
    """
    zones = {key: zoneinfo.ZoneInfo(key) for key in sorted(zoneinfo.available_timezones() - {"localtime"})}
    zoneinfo.available_timezones = lambda: set(zones)


_HEAVY = ("numpy", "numpy.fft", "numpy.linalg", "numpy.ma", "numpy.polynomial", "numpy.random", "math_verify")
_ANSWERS = (r"$1$", r"$0.5$", r"$1/2$", r"$\frac{1}{2}$", r"$\sqrt{2}x^2+1$", r"$\{1, 2\}$", r"$(1, 2)$", r"$x = 3$")
"""One mathematical answer of each form. The first answer of a form builds tables, which all children then share."""


def load_heavy() -> None:
    """Load numpy and math_verify into the heavy zygote; run math_verify once, so that children share its tables."""
    for module in _HEAVY:
        importlib.import_module(module)
    GIVEN["np"] = sys.modules["numpy"]
    mathematics = sys.modules["math_verify"]
    for answer in _ANSWERS:
        mathematics.verify(mathematics.parse(answer), mathematics.parse(answer))
