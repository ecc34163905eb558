"""What every program finds: names that need no import, since designers forget the line, and modules loaded in advance.

Loading them once in the zygote saves each child the time. And where the host is root with an interpreter that only root
may read, what is not loaded in advance cannot be imported by a child at all.
"""

import importlib

_MODULES = (
    "abc", "bisect", "cmath", "collections", "copy", "dataclasses", "datetime", "decimal", "enum", "fractions",
    "functools", "hashlib", "heapq", "itertools", "json", "math", "numbers", "operator", "os", "random", "re",
    "statistics", "string", "sys", "textwrap", "time", "types", "typing", "uuid",
)  # fmt: skip

_LOADED = (
    "_strptime", "argparse", "array", "ast", "base64", "binascii", "calendar", "collections.abc", "colorsys",
    "contextlib", "csv", "ctypes", "difflib", "errno", "graphlib", "html", "inspect", "io", "logging", "pprint",
    "queue", "sched", "secrets", "shlex", "signal", "struct", "threading", "timeit", "traceback", "unicodedata",
    "warnings", "weakref", "zlib",
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
    "typing": "Any Callable Dict List Optional Sequence Set Tuple Union",
}


def _given() -> dict[str, object]:
    for module in _LOADED:
        importlib.import_module(module)
    names: dict[str, object] = {module: importlib.import_module(module) for module in _MODULES}
    for module, listed in _NAMES.items():
        names |= {name: getattr(names[module], name) for name in listed.split()}
    return names


GIVEN = _given()
"""Name to module, class or function; the heavy zygote adds `np`."""
