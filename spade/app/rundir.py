"""Find and lock the files of a run directory: config, store, weights, checkpoints, logs and sockets."""

import hashlib
import os
import platform
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from difflib import SequenceMatcher
from functools import partial
from importlib import metadata
from itertools import islice
from pathlib import Path
from shutil import rmtree

import msgspec

import spade
from spade.config import (
    PATH_SETTINGS,
    Config,
    compute_digest,
    dump,
    get_setting,
    load,
    make_paths_absolute,
    make_short_name,
    replace_settings,
)
from spade.decoding import UnreadableError, try_decode
from spade.disk import list_folder, make_private, read, refuse_linked_folders, refuse_unprintable, replace
from spade.errors import RunError
from spade.locks import Holder, find_holder, hold_folder, hold_lock
from spade.policy.model_folder import strip_commit
from spade.processes import sockets
from spade.text import quote

_IPC = "ipc://"
_BUS = "bus"  # the folder of a run's sockets, if its path is short enough
_LOCK = ".lock"
_CONFIG_FILE = "config.toml"  # a folder with this file is a run
_RUNS = "runs"  # the default folder of runs
_LEAST_ALIKE, _MOST_NEAR = 0.5, 3  # minimum similarity of a suggested name, maximum number of suggestions
_MOST_NAMES = 2_000  # maximum number of entries of a folder that are searched for suggestions
_PACKAGES = ("torch", "transformers", "tokenizers", "pyzmq", "msgspec", "trio", "lmdb", "numpy", "safetensors")


class RunRecord(msgspec.Struct, frozen=True):
    """Facts about the start of a run, saved as `run.json`."""

    started: float
    """Time of the start, s since the epoch."""
    spade: str
    """Version of spade."""
    python: str
    """Version of Python."""
    platform: str
    """Name of the platform."""
    packages: dict[str, str]
    """Versions of the packages in `_PACKAGES`, by name."""
    digest: str
    """Digest of [run], [model] and [reward] of the config (`spade.config.compute_digest`)."""
    replay: str
    """Address of the replay service."""
    corpus: str = ""
    """Digest of the corpus, or "" if no command of this run has read it yet."""


class Origin(msgspec.Struct, frozen=True):
    """The older run that supplied the first policy of a run, saved as `origin.json`."""

    path: str
    """Directory of the older run."""
    run: str
    """Id of the older run."""
    step: int
    """Learner step after which the older run had this policy."""
    digest: str
    """Digest of the policy's weights."""
    model: str
    """`model.path` of the older run or, if that run has an origin too, `model` of that origin."""
    memory: int | None = None
    """Number of environments taken from the older run's memory. None if the memory was not asked for."""

    def __str__(self) -> str:
        memory = "" if self.memory is None else f", and {self.memory} environments of its memory"
        return f"began with the policy of {self.path} (run {self.run}) after step {self.step}, {self.digest}{memory}"


_records: msgspec.json.Decoder[RunRecord] = msgspec.json.Decoder(RunRecord)
_origins: msgspec.json.Decoder[Origin] = msgspec.json.Decoder(Origin)


class RunDir:
    """The paths of one run and the locks on its parts."""

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.realpath(path))  # not Path.resolve(), which raises for circular links
        self.config_path = self.path / _CONFIG_FILE
        self.record_path = self.path / "run.json"
        self.status_path = self.path / "status.json"
        self.metrics_path = self.path / "metrics.jsonl"  # the replay service makes this file when the run begins
        self.store = self.path / "store"
        self.weights = self.path / "weights"
        self.checkpoints = self.path / "checkpoints"
        self.logs = self.path / "logs"
        self.start = self.path / "start"  # the first policy, if it came from another run
        self.origin_path = self.path / "origin.json"

    @property
    def exists(self) -> bool:
        """Return True if a run was started here before."""
        return self.config_path.is_file()

    @property
    def served(self) -> bool:
        """Return True if a replay service has run in this directory. False for the log folder of joined actors."""
        return (self.path / f"replay{_LOCK}").exists()

    @property
    def origin(self) -> Origin | None:
        """Return the older run that this one began from, or None. Raises RunError if the file is damaged."""
        try:
            return try_decode(_origins.decode, read(self.origin_path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except UnreadableError as error:
            raise RunError(f"{self.origin_path}: is damaged ({error}); restore it") from None

    def set_origin(self, origin: Origin) -> None:
        """Save the older run that this one begins from."""
        replace(self.origin_path, msgspec.json.format(msgspec.json.encode(origin)), durable=True)

    def require(self) -> "RunDir":
        """Return this run. Raises RunError if no run was ever started here."""
        if self.path.is_file():
            raise RunError(f"{self.path}: is a file; give a run directory")
        if not self.exists:
            suggestion = suggest_runs(self.path)
            raise RunError(
                f"{self.path}: no run here (no config.toml); {suggestion}`spade up --run {quote(self.path)}` starts one"
            )
        return self

    def refuse_links(self) -> None:
        """Raise RunError if a folder of this run is a link, which may lead to other files. The store may be a link."""
        refuse_linked_folders(self.path, self.store)

    def config(self) -> Config:
        """Load the run's resolved config."""
        return load(str(self.require().config_path))

    def settle(self, config: Config) -> Config:
        """Return `config` with absolute paths and, in an existing run, with the run's saved paths and model commit.

        A resume may begin in another working directory, and a hub name may mean another model by then. So an existing
        run keeps each of its saved paths if `config` names the same place.
        """
        settled = make_paths_absolute(config)
        if self.exists:
            kept = self.config()
            for name in PATH_SETTINGS:
                had, given = get_setting(kept, name), (get_setting(config, name), get_setting(settled, name))
                same = get_setting(make_paths_absolute(kept, (name,)), name) in given
                if same or (name == "model.path" and strip_commit(had) in given):
                    settled = replace_settings(settled, {name: had})
        return settled

    def reopen(self, config: Config) -> None:
        """Save the config. Keep the replay service's address, which another command saved. See `_check_same`."""
        self._check_same(config)
        replace(self.config_path, dump(config).encode(), durable=True)

    def create(self, config: Config, corpus: str = "") -> None:
        """Make the directory, or reopen it with a config that may continue the run. Save the resolved config.

        The caller starts the run's replay service next, so this also saves the service's address for other commands.
        `corpus` is the digest of the documents. Raises RunError as `_check_same`, or if the corpus has changed.
        """
        self._check_same(config)
        refuse_unprintable(self.path, "choose another --run")
        started = self.record()
        if started is not None and corpus and started.corpus not in ("", corpus):
            raise RunError(
                f"{self.path}: this run was started with another corpus (digest {started.corpus[:8]}, design.corpus "
                f"or tools.settings has {corpus[:8]} now); give the first corpus again, or choose another --run"
            )
        make_private(self.path)
        self.logs.mkdir(exist_ok=True)
        replace(self.config_path, dump(config).encode(), durable=True)
        address = config.bus.bind or f"{_IPC}{self._choose_socket_folder()}/replay.sock"
        if started is None:
            record = _record(config, address, corpus)
        else:  # keep the versions from the first start, but save the address, which may have changed
            record = msgspec.structs.replace(started, replay=address, corpus=started.corpus or corpus)
        replace(self.record_path, msgspec.json.format(msgspec.json.encode(record)), durable=True)

    def _check_same(self, config: Config) -> None:
        """Raise RunError if the saved config or `config` changes [run], [model], [reward] or the source of programs."""
        if self.exists:
            before = self.config()
            started = self.record()
            if started is not None and started.digest != compute_digest(before):
                raise RunError(
                    f"{self.config_path}: its [run], [model] or [reward] was changed since the run began "
                    f"({self.record_path.name} has the digest); restore it, or choose another --run"
                )
            if compute_digest(before) != compute_digest(config):
                raise RunError(
                    f"{self.path}: this run was started with another [run], [model] or [reward]; "
                    "resume it as it was (`spade config diff` compares), or choose another --run"
                )
            if before.design.seeds != config.design.seeds:
                raise RunError(
                    f"{self.path}: this run was started with design.seeds = {before.design.seeds!r}; resume it as it "
                    "was, or choose another --run"
                )
            if (before.design.source, before.pool) != (config.design.source, config.pool):
                raise RunError(
                    f"{self.path}: this run was started with design.source = {before.design.source!r} and "
                    f"pool.source = {before.pool.source!r}; resume it as it was, or choose another --run"
                )

    def record(self) -> RunRecord | None:
        """Read the record of the run's start. Returns None before the start. Raises RunError if the file is damaged."""
        if not self.record_path.exists():
            return None
        try:
            return try_decode(_records.decode, read(self.record_path))
        except UnreadableError as error:
            raise RunError(f"{self.record_path}: is damaged ({error}); delete it, the next start writes it") from None

    def socket(self, name: str) -> str:
        """Return the ipc address of a service of this run, in the folder of the replay service's socket."""
        return f"{_IPC}{self.socket_folder()}/{name}.sock"

    def socket_folder(self) -> Path:
        """Make or find the folder of the run's sockets. Raises RunError if no path is short enough."""
        folder = Path(self._read_recorded_address().removeprefix(_IPC)).parent
        if folder.name == self._temporary_name:
            with suppress(OSError):  # the temporary directory is gone
                sockets.make_closed(folder)
                return folder
        return self._choose_socket_folder()

    def _choose_socket_folder(self) -> Path:
        """Make the folder for sockets in the run directory or, if that path is too long, in a temporary directory."""
        folder = self.path / _BUS
        if not sockets.is_short_enough(folder):
            return sockets.make_short_folder(self._temporary_name, self.path)
        make_private(folder)
        return folder

    @property
    def _temporary_name(self) -> str:
        key = hashlib.blake2b(os.fsencode(self.path), digest_size=8).hexdigest()
        return f"spade-{os.getuid()}-{key}"

    @property
    def replay_address(self) -> str:
        """Return the address of this run's replay service.

        Prefers the address in `run.json`, because a socket may be in the temporary directory of the command that
        started the service.
        """
        return self._read_recorded_address() or self.config().bus.bind or self.socket("replay")

    def _read_recorded_address(self) -> str:
        """Return the address in `run.json`, with the run's present path, or "" if the file is missing or damaged."""
        try:
            record = self.record()
        except RunError:
            return ""
        if record is None:
            return ""
        inside = record.replay.startswith(_IPC) and record.replay.endswith(f"/{_BUS}/replay.sock")
        if inside and sockets.is_short_enough(self.path / _BUS):  # the run directory may have been moved since
            return f"{_IPC}{self.path / _BUS}/replay.sock"
        return record.replay

    @contextmanager
    def lock(self, *parts: str) -> Iterator[None]:
        """Lock parts of the run ("replay", "learner") for this process.

        The last process that releases a part deletes the sockets in a temporary directory. Raises RunError if another
        process holds one of `parts`, or as `refuse_links` does.
        """
        make_private(self.path)
        self.refuse_links()

        def describe(part: str, holder: Holder) -> str:
            if holder.far:
                return self.held_by(holder)
            return (
                f"{self.path}: its {part} is already up ({holder}); "
                f"`spade top {quote(self.path)}` attaches, `spade stop {quote(self.path)}` stops it"
            )

        with ExitStack() as locks:
            with hold_folder(self.path):  # otherwise an ending command could delete the sockets of a starting command
                for part in parts:
                    locks.enter_context(hold_lock(self.path / f"{part}{_LOCK}", partial(describe, part)))
            try:
                yield
            finally:
                with hold_folder(self.path):
                    if self.holders().keys() <= set(parts):
                        self.discard_temporary_sockets()
                    locks.close()

    def discard_temporary_sockets(self) -> None:
        """Delete the folder of the sockets, if it is in a temporary directory. Killed processes leave sockets there."""
        folder = Path(self._read_recorded_address().removeprefix(_IPC)).parent
        if folder.name == self._temporary_name:
            rmtree(folder, ignore_errors=True)

    def holders(self) -> dict[str, Holder]:
        """Return the processes that now hold a part of this run, by part. Other locks on its files do not count."""
        locks = [name for name in list_folder(self.path) if name.endswith(_LOCK)]
        found = {name.removesuffix(_LOCK): find_holder(self.path / name) for name in locks}
        return {part: one for part, one in found.items() if one is not None}

    def held_by(self, holder: Holder) -> str:
        """Say what to do about a holder that this process cannot see, for example one on another host."""
        files = " and ".join(f"{part}{_LOCK}" for part, one in self.holders().items() if one == holder)
        return (
            f"{self.path}: is held by {holder}. Stop the run by `spade stop {quote(self.path)}`, on that host if this "
            f"host cannot reach the run. If that host is gone, delete {files} in the run directory"
        )

    def tell(self, holder: Holder, number: signal.Signals) -> None:
        """Signal a holder on this host. Never signals a process that reuses the pid of a former holder."""
        if not holder.near:
            return
        with suppress(ProcessLookupError):
            process = os.pidfd_open(holder.pid)
            try:
                # If the holder still holds its lock, the descriptor refers to the holder and not to a later process.
                if holder in self.holders().values():
                    signal.pidfd_send_signal(process, number)
            finally:
                os.close(process)


def _record(config: Config, address: str, corpus: str) -> RunRecord:
    return RunRecord(
        started=time.time(),
        spade=spade.__version__,
        python=sys.version.split()[0],
        platform=platform.platform(),
        packages={name: metadata.version(name) for name in _PACKAGES},
        digest=compute_digest(config),
        replay=address,
        corpus=corpus,
    )


def choose_run(config: str | None, path: Path | None) -> Path:
    """Return the directory of a run: `path` or, by default, runs/CONFIG."""
    return path or Path(_RUNS) / make_short_name(config or "nano")


def suggest_runs(path: Path | str) -> str:
    """Return "did you mean A or B? " with the closest runs near a path, or "" if no run is close.

    Searches the path itself, its parent, the parent's folder `runs`, and `runs` of the working directory.
    """
    try:
        cwd, asked = Path.cwd(), Path(os.path.abspath(path))
    except OSError:  # the working directory was deleted
        return ""
    inside = dict.fromkeys(_find_runs(asked), 1.0)
    around = (asked.parent, asked.parent / _RUNS, cwd / _RUNS)
    alike = {run: _compute_likeness(asked.name, run.name) for folder in around for run in _find_runs(folder)}
    similar = {run: score for run, score in alike.items() if score >= _LEAST_ALIKE and run != asked}
    best = sorted({**similar, **inside}.items(), key=lambda each: (-each[1], str(each[0])))[:_MOST_NEAR]
    return f"did you mean {' or '.join(_shorten_path(run, cwd) for run, _ in best)}? " if best else ""


def _find_runs(folder: Path) -> Iterator[Path]:
    with suppress(OSError, ValueError), os.scandir(folder) as entries:
        for entry in islice(entries, _MOST_NAMES):
            with suppress(OSError):
                if os.path.isfile(os.path.join(entry.path, _CONFIG_FILE)):
                    yield Path(entry.path)


def _compute_likeness(asked: str, name: str) -> float:
    return SequenceMatcher(None, asked.casefold()[:200], name.casefold()[:200]).ratio()


def _shorten_path(run: Path, cwd: Path) -> str:
    """Return the path of a run. It is relative if the run is inside `cwd`."""
    return str(run.relative_to(cwd)) if run.is_relative_to(cwd) else str(run)
