"""Write programs of a run as a Python package for Gymnasium, verifiers or OpenEnv."""

import keyword
import re
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import msgspec

from actors.play.domains import load_profile
from actors.sandbox.host import REWARD_BOUND
from actors.sandbox.inside.libraries import LIBRARIES
from actors.sandbox.wire import OBSERVATION_BYTES
from actors.text.conversation import GameChatFormat
from actors.text.profile import ChatMessage
from spade.app.pools.cards import render
from spade.app.supervisor.pools import write_programs
from spade.config import Config
from spade.disk import write_whole
from spade.errors import RunError
from spade.pools import PoolProgram
from spade.protocol import Observed
from spade.text import as_line

TAKEN = {
    "actors", "learner", "replay", "spade", "spade_rl",
    "harbor", "nemo_gym", "openenv", "textarena", "verifiers",  # names that tasksets of verifiers have already
    "fastapi", "openai", "starlette", "uvicorn", "websockets",  # needed by the libraries, which may be installed later
    "client", "core", "models", "server",  # names of OpenEnv's modules, and of the modules around a package
    *(re.split(r"[^\w-]", need)[0].replace("-", "_").lower() for need in metadata.requires("spade-rl") or ()),
    *sys.stdlib_module_names,
}  # fmt: skip
"""Names of modules that a package must not replace."""
PackageFormat = Literal["gymnasium", "verifiers", "openenv"]
_MODULES = Path(__file__).with_name("package")
_PLAYERS: Mapping[PackageFormat, str] = {"gymnasium": "environments.py", "verifiers": "tasksets.py"}
"""The module that offers the programs through the interface of a library, by format."""
_SERVED = {
    "openenv.yaml": "openenv/openenv.yaml", "models.py": "openenv/models.py.txt", "client.py": "openenv/client.py.txt",
    "server/app.py": "openenv/app.py.txt",
}  # fmt: skip
"""The files that an export for OpenEnv has beside the package, with their templates."""
_SETTINGS = "settings.json"
_SLOT = "{observation}"
_ROOT = Path(sys.modules["spade"].__path__[0]).parent
_OURS = (
    "actors/text/actions.py", "spade/returns.py", "spade/tokens/marks.py",
    *(f"actors/sandbox/inside/{name}.py"
      for name in ("__init__", "fstrings", "given", "messages", "program", "repair", "scopes")),
)  # fmt: skip
"""Modules of SPADE that play a program without a sandbox."""
_PACKAGES = ("math_verify", "mpmath", "sympy")
"""Packages other than numpy that programs may import."""
_VERSION = metadata.version("spade-rl")


def write_package(
    folder: Path, programs: Iterator[PoolProgram], config: Config, run: str, format: PackageFormat, bare: bool
) -> int:
    """Write programs of a run as a package with the name of its folder. Return the number of programs.

    The package runs them in the sandbox, or, if `bare`, in the process that imports it. Raises RunError if the folder
    exists, its name cannot be the name of a package, or the programs cannot be run in this way.
    """
    module = _module_name(folder)
    if config.run.domain != "games":
        raise RunError(f"--format {format}: exports games, and the domain of {run} is {config.run.domain}")
    if bare and (external := list_external(config)):
        raise RunError(f"--bare: the programs of {run} need the sandbox for {', '.join(external)}")
    with write_whole(folder) as part:
        inner = part / module
        count = write_player(inner, programs, config, bare)
        used = list_used_packages(inner) if bare else _list_needed_packages(config)
        facts = {
            "run": run, "module": module, "format": format, "bare": bare, "count": count, "packages": used,
            "version": _VERSION, "name": "".join(map(str.capitalize, module.replace("_env", "").split("_"))),
        }  # fmt: skip
        files = {"pyproject.toml": "package.toml", "README.md": "package.md", f"{module}/__init__.py": "package.py.txt"}
        for file, template in (files | (_SERVED if format == "openenv" else {})).items():
            (part / file).parent.mkdir(exist_ok=True)
            (part / file).write_text(render(template, config, **facts), encoding="utf-8")
        write_license(part)
        if player := _PLAYERS.get(format):
            _copy_module(_MODULES / player, inner / player, module if bare else "")
    return count


def list_external(config: Config) -> list[str]:
    """Return the libraries and OpenEnv servers that programs of a run reach through the sandbox."""
    return [*config.sandbox.libraries, *config.sandbox.servers]


def _list_needed_packages(config: Config) -> list[str]:
    """Return the requirements of a run's libraries and servers. Leaves out those that pip alone cannot install."""
    libraries = [LIBRARIES[name] for name in config.sandbox.libraries]
    needs = [each.requirement for each in libraries if each.requirement and not each.remedy]
    return [*needs, *(["trio-websocket"] if config.sandbox.servers else [])]


def write_player(inner: Path, programs: Iterator[PoolProgram], config: Config, bare: bool) -> int:
    """Write programs and the modules that play them as the Python package `inner`. Return the number of programs.

    If `bare`, the package runs without SPADE.
    """
    count = write_programs(inner / "programs", programs)
    settings = {
        "runner": "bare" if bare else "sandboxed", "max_turns": config.play.max_turns,
        "observation_bytes": OBSERVATION_BYTES, "reward_bound": REWARD_BOUND, "sandbox": config.sandbox, "slot": _SLOT,
        "openings": [_write_opening(config, single_turn) for single_turn in (False, True)],
    }  # fmt: skip
    (inner / _SETTINGS).write_bytes(msgspec.json.format(msgspec.json.encode(settings)))
    for name in (f"{settings['runner']}.py", "playing.py"):
        _copy_module(_MODULES / name, inner / name, inner.name if bare else "")
    for name in _OURS if bare else ():
        _copy_module(_ROOT / name, inner / "parts" / name, inner.name)
    return count


def list_used_packages(inner: Path) -> list[str]:
    """Return the packages other than numpy that programs in `inner` mention, and so may import."""
    return [name for name in _PACKAGES if _is_named(name, inner / "programs")]


def write_license(folder: Path) -> None:
    """Write the licence of SPADE's modules into a folder."""
    (folder / "LICENSE").write_text(metadata.distribution("spade-rl").read_text("licenses/LICENSE") or "")


def _write_opening(config: Config, single_turn: bool) -> list[ChatMessage]:
    """Return the messages before a model's first turn, with a slot for the observation."""
    opening = partial(load_profile(config).play, single_turn=single_turn)
    return GameChatFormat(opening, examples=config.play.examples).open(Observed(_SLOT), None).messages


def _copy_module(file: Path, to: Path, bare: str) -> None:
    """Copy a module. If `bare` names a package, the copy imports parts of this package instead of SPADE."""
    text = file.read_text(encoding="utf-8")
    if bare:
        text = re.sub(r"^from (actors|spade)\.", rf"from {bare}.parts.\1.", text, flags=re.MULTILINE)
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_text(text, encoding="utf-8")


def _module_name(folder: Path) -> str:
    """Return the name of the package in a folder. Raises RunError if the name is invalid or taken."""
    name = folder.name.replace("-", "_")
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,63}", name) or keyword.iskeyword(name):
        raise RunError(
            f"{as_line(folder.name, 80)!r} is not a package name; name DIR with lower-case letters, digits, '_' and '-'"
        )
    if name in TAKEN or _is_installed(name):
        raise RunError(f"{name!r} is the name of another package; give DIR another name")
    return name


def _is_installed(name: str) -> bool:
    """Return True if a package of this name is installed here. An earlier export does not count."""
    spec = find_spec(name)
    if spec is not None and spec.origin is not None:
        return not Path(spec.origin).with_name(_SETTINGS).exists()
    # A distribution may be installed without a module of its name: PyYAML has the module yaml.
    return next(iter(metadata.distributions(name=name)), None) is not None


def _is_named(package: str, folder: Path) -> bool:
    return any(re.search(rf"\b{package}\b", file.read_text(encoding="utf-8")) for file in folder.glob("*.py"))
