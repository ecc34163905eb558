"""Write programs of a run as a Python package that registers them with Gymnasium."""

import keyword
import re
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from shutil import copyfile

import msgspec

from actors.sandbox.wire import OBSERVATION_BYTES
from spade.app.pools.cards import render
from spade.app.supervisor.pools import write_pool
from spade.config import Config
from spade.disk import write_whole
from spade.errors import RunError
from spade.pools import PoolProgram
from spade.text import as_line

TAKEN = {"actors", "gymnasium", "learner", "numpy", "replay", "spade", *sys.stdlib_module_names}
"""Names of modules that a package must not replace."""
_MODULES = Path(__file__).with_name("package")
INSIDE = Path(sys.modules["actors.sandbox.inside"].__path__[0])
COPIED = ("__init__", "fstrings", "given", "messages", "program", "repair", "scopes")
"""Modules of `actors/sandbox/inside` that run a program without walls."""
_PACKAGES = ("math_verify", "mpmath", "sympy")
"""Packages beside numpy that programs may import."""
_VERSION = metadata.version("spade-rl")


def write_package(folder: Path, programs: Iterator[PoolProgram], config: Config, run: str, bare: bool) -> int:
    """Write programs of a run as a package named like its folder. Return their number.

    The package runs them behind the sandbox, or if `bare` in the process of its user. Raises RunError if the folder
    exists, its name cannot be the name of a package, or the programs cannot be run in this way.
    """
    module = _module_name(folder)
    if config.run.domain != "games":
        raise RunError(f"--format gymnasium: exports games, and the domain of {run} is {config.run.domain}")
    if bare and config.sandbox.libraries:
        raise RunError(f"--bare: the programs of {run} need the sandbox for {', '.join(config.sandbox.libraries)}")
    with write_whole(folder) as part:
        inner = part / module
        count = write_pool(inner / "programs", programs)
        used = [name for name in _PACKAGES if bare and _is_named(name, inner / "programs")]
        facts = {"run": run, "module": module, "bare": bare, "count": count, "packages": used, "version": _VERSION}
        for file, template in (
            (part / "pyproject.toml", "package.toml"), (part / "README.md", "package.md"),
            (inner / "__init__.py", "package.py.txt"),
        ):  # fmt: skip
            file.write_text(render(template, config, **facts), encoding="utf-8")
        settings = {
            "max_turns": config.play.max_turns, "observation_bytes": OBSERVATION_BYTES, "sandbox": config.sandbox,
        }  # fmt: skip
        (inner / "settings.json").write_bytes(msgspec.json.format(msgspec.json.encode(settings)))
        copy_license(part)
        copyfile(_MODULES / "environments.py", inner / "environments.py")
        if bare:
            source = (_MODULES / "bare.py").read_text(encoding="utf-8")
            (inner / "bare.py").write_text(source.replace("actors.sandbox.inside", ".inside"), encoding="utf-8")
            (inner / "inside").mkdir()
            for name in COPIED:
                copyfile(INSIDE / f"{name}.py", inner / "inside" / f"{name}.py")
        else:
            copyfile(_MODULES / "sandboxed.py", inner / "sandboxed.py")
    return count


def copy_license(folder: Path) -> None:
    """Write the licence of SPADE's modules into a folder."""
    (folder / "LICENSE").write_text(metadata.distribution("spade-rl").read_text("licenses/LICENSE") or "")


def _module_name(folder: Path) -> str:
    """Return the name of the package in a folder. Raises RunError if the name is invalid or taken."""
    name = folder.name.replace("-", "_")
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,63}", name) or keyword.iskeyword(name):
        raise RunError(
            f"{as_line(folder.name, 80)!r} is no name of a package; name DIR with small letters, digits, '_' and '-'"
        )
    if name in TAKEN:
        raise RunError(f"{name!r} is the name of another package; give DIR another name")
    return name


def _is_named(package: str, folder: Path) -> bool:
    return any(re.search(rf"\b{package}\b", file.read_text(encoding="utf-8")) for file in folder.glob("*.py"))
