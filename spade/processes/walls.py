"""Bubblewrap: a command in namespaces of its own."""

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

_SYSTEM = ("/lib", "/lib64", "/usr/lib", "/usr/lib64")


def walled(shown: Iterable[Path], below: Sequence[str] = ()) -> Sequence[str]:
    """The command that runs what follows it in namespaces, where it sees these folders and the system's libraries.

    It has no network but a loopback of its own. `below`: options for what these folders may lie in, such as a scratch
    folder.

    What it runs is process 1 there, so that its end is the end of all; it ends when its control socket does. (Not by
    --die-with-parent: bubblewrap, killed while it sets the namespaces up, leaves a process behind.) Raises
    FileNotFoundError if bubblewrap is not installed.
    """
    command = shutil.which("bwrap")
    if command is None:
        raise FileNotFoundError("bwrap (the package bubblewrap) is not installed")
    root = os.geteuid() == 0
    # Root needs no user namespace, and inside of one could not become nobody.
    private = ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
    rights = ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"] if root else ["--unshare-user"]
    binds = [word for path in _outermost(shown) for word in (*folders_above(path), "--ro-bind", str(path), str(path))]
    return [command, "--as-pid-1", *private, *rights, *below, *binds, "--chdir", "/"]


def _outermost(shown: Iterable[Path]) -> Iterator[Path]:
    """Those folders, and the system's, that are there and are not inside of another."""
    kept: list[Path] = []
    for path in sorted({path for path in (*shown, *map(Path, _SYSTEM)) if path.is_dir()}):
        if not any(path.is_relative_to(other) for other in kept):
            kept.append(path)
    yield from kept


def folders_above(path: Path) -> Iterator[str]:
    """Bubblewrap's options that make the folders above a path open to all users; its default is private ones."""
    for folder in reversed(path.parents[:-1]):
        yield from ("--perms", "0755", "--dir", str(folder))
