"""Import modules from memory. A child opens no file, so the zygote reads the libraries before it forks the child.

The sources lie in a file in memory, which is mapped. All children share the mapping, and a fork does not copy it.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import mmap
import os
import sys
import types
from collections.abc import Iterable, Iterator, Sequence

PACKAGES = ("numpy", "sympy", "mpmath", "math_verify", "latex2sympy2_extended", "antlr4")
"""The only packages of site-packages that programs of the heavy zygote can import. Programs of a zygote that loads
libraries can also import the packages of these libraries."""

_LEFT_OUT = {
    "ensurepip",
    "idlelib",
    "lib2to3",
    "pydoc_data",
    "test",
    "tests",
    "tkinter",
    "turtle",
    "turtledemo",
    "venv",
}


class Sources(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """A finder and loader (PEP 302) of the modules in `files` (name, path) that are not loaded yet."""

    def __init__(self, files: Iterable[tuple[str, str]]) -> None:
        # Name of a module: its path, offset in the mapping, number of bytes.
        self._places: dict[str, tuple[str, int, int]] = {}
        memory, end = os.memfd_create("sources"), 0
        for name, path in files:
            if name not in sys.modules:
                with open(path, "rb") as file:
                    source = file.read()
                with open(memory, "wb", closefd=False) as all_of_them:
                    all_of_them.seek(end)
                    all_of_them.write(source)
                self._places[name] = (path, end, len(source))
                end += len(source)
        self._sources = mmap.mmap(memory, max(end, 1), mmap.MAP_PRIVATE, mmap.PROT_READ) if end else b""
        os.close(memory)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find the module of that full name. The path of its package is not searched."""
        if name not in self._places:
            return None
        origin = self._places[name][0]
        package = os.path.basename(origin) == "__init__.py"
        spec = importlib.machinery.ModuleSpec(name, self, origin=origin, is_package=package)
        spec.has_location = True
        return spec

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        """Return None, so that the import system makes its own kind of module."""

    def exec_module(self, module: types.ModuleType) -> None:
        """Run the module."""
        path, start, length = self._places[module.__name__]
        code = compile(self._sources[start : start + length], path, "exec", dont_inherit=True)
        exec(code, module.__dict__)

    def get_source(self, name: str) -> str:
        """Return a module's source, for tracebacks and `inspect`."""
        _, start, length = self._places[name]
        return importlib.util.decode_source(self._sources[start : start + length])


def allow_imports(packages: Iterable[str]) -> None:
    """Let imports come only from memory from now on: the standard library and these packages."""
    files = list(_list_standard())
    for package in packages:
        spec = importlib.util.find_spec(package)
        if spec is not None:
            for folder in spec.submodule_search_locations or ():
                files += _list_modules(folder, package)
    sources = Sources(files)
    sys.meta_path[:] = [importlib.machinery.BuiltinImporter, importlib.machinery.FrozenImporter, sources]
    sys.path.clear()
    sys.path_hooks.clear()
    sys.path_importer_cache.clear()


def _list_standard() -> Iterator[tuple[str, str]]:
    folder = os.path.dirname(os.__file__)
    for name in sys.stdlib_module_names - _LEFT_OUT:
        path = os.path.join(folder, name)
        if os.path.isdir(path):
            yield from _list_modules(path, name)
        elif os.path.isfile(path + ".py"):
            yield name, path + ".py"


def _list_modules(folder: str, package: str) -> Iterator[tuple[str, str]]:
    """Yield name and path of all modules of a package, without its tests."""
    for entry in os.scandir(folder):
        stem, suffix = os.path.splitext(entry.name)
        if suffix == ".py" and entry.is_file():
            yield package if stem == "__init__" else f"{package}.{stem}", entry.path
        elif entry.is_dir() and entry.name.isidentifier() and entry.name not in _LEFT_OUT and stem != "__pycache__":
            yield from _list_modules(entry.path, f"{package}.{entry.name}")
