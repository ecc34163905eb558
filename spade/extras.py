"""Optional packages. Only the versions named in `pyproject.toml` are supported."""

import re
from importlib import metadata

from spade.config import ENGINE_KINDS
from spade.errors import ConfigError

_PROJECT = "spade-rl"
_PACKAGES = {kind.extra: kind.packages for kind in ENGINE_KINDS.values() if kind.extra} | {
    "measures": ("sentence-transformers",),
    "ray": ("ray",),
    "prometheus": ("prometheus-client",),
}


def get_requirement(extra: str) -> str:
    """Return the requirement of an extra, for example "vllm==0.32.0".

    Raises ConfigError if the installed package is older than this extra, for example after an update of the clone.
    """
    for line in metadata.requires(_PROJECT) or ():
        requirement, _, marker = line.partition(";")
        if re.search(rf"extra\s*==\s*['\"]{extra}['\"]", marker):
            return requirement.strip()
    raise ConfigError(f"{extra}: the installed {_PROJECT} is older than this code; {describe_installing(extra)}")


def describe_installing(extra: str) -> str:
    """Return the commands that install an extra.

    The project is in no package index, so the commands need the clone or a wheel.
    """
    return f"pip install -e '.[{extra}]' in the clone, or pip install 'WHEEL[{extra}]' with the wheel's path"


def find_installed(extra: str) -> str | None:
    """Return the installed version of the extra's package, or None if it is not installed."""
    for name in _PACKAGES.get(extra, (extra,)):
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None


def is_supported(extra: str) -> bool:
    """Return True if the installed version is supported."""
    found = find_installed(extra)
    _, exact, version = get_requirement(extra).partition("==")
    # The version may have a local tag, such as 0.32.0+cu130.
    return found is not None and (not exact or found.partition("+")[0] == version)


def require(extra: str) -> None:
    """Raise ConfigError, with advice, if no supported version of `extra` is installed."""
    if not is_supported(extra):
        found = find_installed(extra)
        state = f"{found} is installed" if found else "it is not installed"
        raise ConfigError(f"{extra}: {get_requirement(extra)} is supported, {state}; {describe_installing(extra)}")
