"""A run directory: where a run keeps its config, store, weights, checkpoints, logs and sockets."""

import fcntl
import hashlib
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import TextIO

import msgspec

import spade
from spade.config import Config, digest, dump, load
from spade.errors import RunError

# A socket's path holds 107 bytes on Linux; the longest name we append stays under this.
_LONGEST_SOCKET = 107
_SOCKET_NAME_BYTES = 40
_PID_WIDTH = 10
_LOCK_PATIENCE_S = 1.0
_PACKAGES = ("torch", "transformers", "tokenizers", "pyzmq", "msgspec", "trio", "lmdb", "numpy", "safetensors")


class RunRecord(msgspec.Struct, frozen=True):
    """What a run was started with, saved as `run.json`: versions, digest and the address of its replay service."""

    started: float
    spade: str
    python: str
    platform: str
    packages: dict[str, str]
    digest: str
    replay: str


class RunDir:
    """Paths of one run and the locks on them."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self.config_path = self.path / "config.toml"
        self.record_path = self.path / "run.json"
        self.status_path = self.path / "status.json"
        self.store = self.path / "store"
        self.weights = self.path / "weights"
        self.checkpoints = self.path / "checkpoints"
        self.logs = self.path / "logs"

    @property
    def exists(self) -> bool:
        """True where a run was started here before."""
        return self.config_path.is_file()

    def require(self) -> "RunDir":
        """Raises RunError where no run was ever started."""
        if self.path.is_file():
            raise RunError(f"{self.path}: is a file; give a run directory")
        if not self.exists:
            raise RunError(f"{self.path}: no run here (no config.toml); `spade up --run {self.path}` starts one")
        return self

    def config(self) -> Config:
        """The resolved config this run has."""
        return load(str(self.require().config_path))

    def create(self, config: Config) -> None:
        """Make the directory, or open it again under a config that means the same; save the config as resolved."""
        if self.exists:
            before = self.config()
            if digest(before) != digest(config):
                raise RunError(
                    f"{self.path}: this run was started with another [run], [model] or [reward]; "
                    "resume it as it was (`spade config show` compares), or choose another --run"
                )
        self.logs.mkdir(parents=True, exist_ok=True)
        _write(self.config_path, dump(config))
        record = _record(config, self)
        if self.record_path.exists():  # what it was started with stays; where it listens may have changed
            try:
                started = msgspec.json.decode(self.record_path.read_bytes(), type=RunRecord)
            except msgspec.DecodeError as error:
                raise RunError(f"{self.record_path}: is damaged ({error}); without it, it is made anew") from None
            record = msgspec.structs.replace(started, replay=record.replay)
        _write(self.record_path, msgspec.json.format(msgspec.json.encode(record)).decode())

    def socket(self, name: str) -> str:
        """The ipc address of a service; below the system's temporary directory where the run's path is too long."""
        folder = self.path / "bus"
        if len(os.fsencode(folder)) + _SOCKET_NAME_BYTES > _LONGEST_SOCKET:
            key = hashlib.blake2b(os.fsencode(self.path), digest_size=8).hexdigest()
            folder = Path(tempfile.gettempdir()) / f"spade-{os.getuid()}-{key}"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return f"ipc://{folder}/{name}.sock"

    @property
    def replay_address(self) -> str:
        """Where this run's replay service listens."""
        return self.config().bus.bind or self.socket("replay")

    @contextmanager
    def lock(self, part: str) -> Iterator[None]:
        """Hold `part` of the run ("replay", "learner") for this process. Raises RunError where another has it."""
        self.path.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(self.path / f"{part}.lock", os.O_RDWR | os.O_CREAT, 0o644), "r+") as file:
            if not _acquire(file):
                raise RunError(
                    f"{self.path}: its {part} is already up (pid {file.read().strip()}); "
                    f"`spade top {self.path}` attaches, `spade stop {self.path}` stops it"
                )
            # In one write of one length, so that whoever looks sees the number before or this one, never a part.
            os.pwrite(file.fileno(), f"{os.getpid():<{_PID_WIDTH}}".encode(), 0)
            yield

    def holders(self) -> list[int]:
        """The processes that hold a part of this run now."""
        held: set[int] = set()
        for part in sorted(self.path.glob("*.lock")):
            with part.open() as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    # Empty for the moment between a first lock and its number.
                    held.update(int(number) for number in file.read().split())
        return sorted(held)


def _acquire(file: TextIO) -> bool:
    """Lock a file. Who only looks (`holders`) has the lock for an instant, so a refusal has to last to count."""
    deadline = time.monotonic() + _LOCK_PATIENCE_S
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOCK_PATIENCE_S / 10)
        else:
            return True


def _record(config: Config, run: RunDir) -> RunRecord:
    return RunRecord(
        started=time.time(),
        spade=spade.__version__,
        python=sys.version.split()[0],
        platform=platform.platform(),
        packages={name: metadata.version(name) for name in _PACKAGES},
        digest=digest(config),
        replay=run.replay_address,
    )


def _write(path: Path, text: str) -> None:
    """Replace a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(path.suffix + ".part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)
