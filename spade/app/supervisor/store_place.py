"""The place of a run's store: in the run directory, or in a folder on another file system behind a link."""

import os
from pathlib import Path

from spade.app.rundir import RunDir
from spade.config import Config
from spade.disk import expand_home, find_file_system, make_private
from spade.errors import ConfigError, RunError

NETWORK = frozenset(
    {"afs", "beegfs", "ceph", "cifs", "fuse.glusterfs", "fuse.sshfs", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs",
     "nfs4", "orangefs", "smb2", "smb3", "smbfs"}
)  # fmt: skip
_DATA = "data.mdb"


def settle_store(run: RunDir, config: Config) -> None:
    """Put `run.store` at the place that `replay.store` names. The caller holds the lock of the run's replay service.

    Raises RunError if the store is already elsewhere, is gone, or belongs to another run. Raises ConfigError if it
    would be on a network file system: LMDB maps its file into memory, and no such file system keeps the map consistent
    between hosts.
    """
    if config.replay.store:
        _link(run, Path(os.path.realpath(expand_home(config.replay.store))))
    elif run.store.is_symlink():
        raise RunError(
            f"{run.path}: its store is at {os.readlink(run.store)}; give --set replay.store={os.readlink(run.store)}"
        )
    kind = find_file_system(run.store if run.store.exists() else run.path)
    if kind in NETWORK and not config.replay.network_store:
        raise ConfigError(
            f"replay.store: {os.path.realpath(run.store)} is on a network file system ({kind}), unfit for LMDB; "
            "--set replay.store=DIR names a folder of a local or block volume, replay.network_store=true takes the risk"
        )


def _link(run: RunDir, folder: Path) -> None:
    if folder.is_relative_to(run.path):
        raise ConfigError(f"replay.store: {folder} lies in the run directory; leave it out")
    if run.store.is_symlink():
        before = Path(os.readlink(run.store))
        if not (folder / _DATA).exists() and (before != folder or run.status_path.exists()):
            raise RunError(
                f"{run.path}: its store was at {before} and is not in {folder}; move it there, or delete "
                f"{run.store} to begin with an empty store"
            )
        run.store.unlink()
    elif run.store.exists():
        raise RunError(
            f"{run.path}: its store is in this directory; leave replay.store out, or move {run.store} to {folder} "
            "while the run is down"
        )
    elif (folder / _DATA).exists() and not run.metrics_path.exists():
        raise RunError(
            f"{run.path}: {folder} has the store of another run; --set replay.store=DIR names an empty folder"
        )
    make_private(folder)
    run.store.symlink_to(folder)
