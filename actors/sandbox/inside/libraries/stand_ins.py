"""Empty modules in the place of packages that a library imports and does not need to play: torch, matplotlib, NLTK."""

import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager


class StandIn(types.ModuleType):
    """A module that has whatever is asked of it, and can do nothing."""

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
def standing_in(*names: str, **given: object) -> Iterator[None]:
    """Import nothing but stand-ins under these full names; those `given` (of the last name) are real.

    They leave the import system in the end, so that no program takes one of them for the package.
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
