"""Run a command in Linux namespaces of its own, with Bubblewrap."""

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

_SYSTEM = ("/lib", "/lib64", "/usr/lib", "/usr/lib64")


def make_walled_prefix(shown: Iterable[Path], below: Sequence[str] = ()) -> Sequence[str]:
    """Return a prefix for a command that runs it in namespaces of its own.

    The command sees only these folders and the system's libraries. Its network is a loopback of its own. `below` has
    Bubblewrap options for folders that may contain the shown ones, such as a scratch folder.

    Inside, the command is process 1. When it exits, the kernel kills all other processes of the namespaces. The command
    must exit by itself when the caller is gone, for example when a pipe to the caller closes. (--die-with-parent is not
    enough: if bubblewrap is killed while it sets up the namespaces, it leaves a process behind.) Raises
    FileNotFoundError if bubblewrap is not installed.
    """
    command = shutil.which("bwrap")
    if command is None:
        raise FileNotFoundError("bwrap (the package bubblewrap) is not installed")
    root = os.geteuid() == 0
    # Root does not need a user namespace, and inside one it could not become nobody.
    private = ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
    rights = ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"] if root else ["--unshare-user"]
    binds = [
        word
        for path in _find_outermost(shown)
        for word in (*list_folders_above(path), "--ro-bind", str(path), str(path))
    ]
    return [command, "--as-pid-1", *private, *rights, *below, *binds, "--chdir", "/"]


def _find_outermost(shown: Iterable[Path]) -> Iterator[Path]:
    """Yield each folder of `shown` and of the system that exists and does not lie in another of these folders."""
    kept: list[Path] = []
    for path in sorted({path for path in (*shown, *map(Path, _SYSTEM)) if path.is_dir()}):
        if not any(path.is_relative_to(other) for other in kept):
            kept.append(path)
    yield from kept


def list_folders_above(path: Path) -> Iterator[str]:
    """Yield Bubblewrap's options that make the folders above a path open to all users.

    By default Bubblewrap makes these folders private.
    """
    for folder in reversed(path.parents[:-1]):
        yield from ("--perms", "0755", "--dir", str(folder))
