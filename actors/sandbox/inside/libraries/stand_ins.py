"""Replace packages that a library imports but does not need for playing: torch, matplotlib, NLTK."""

import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager


class StandIn(types.ModuleType):
    """A module that has every attribute. Calling an attribute raises RuntimeError."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__: list[str] = []

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return StandIn(f"{self.__name__}.{name}")

    def __call__(self, *_: object, **__: object) -> object:
        raise RuntimeError(f"{self.__name__} is not loaded here")


@contextmanager
def put_stand_ins(*names: str, **given: object) -> Iterator[None]:
    """Put a stand-in for each of these modules into `sys.modules`. `given` has attributes of the last stand-in.

    On exit the stand-ins are removed, so that no program imports one instead of the package.
    """
    before = {name: sys.modules.get(name) for name in names}
    for name in names:
        module = sys.modules[name] = StandIn(name)
        above, _, last = name.rpartition(".")
        if above:
            setattr(sys.modules[above], last, module)
    vars(sys.modules[names[-1]]).update(given)
    try:
        yield
    finally:
        for name, module_before in before.items():
            del sys.modules[name]
            if module_before is not None:
                sys.modules[name] = module_before
