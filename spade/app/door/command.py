"""Commands of `spade` as children of this process, so that their signals, logs and imports stay out of a notebook."""

import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Literal, TypedDict, Unpack

import msgspec

from spade.app.screen.evaluations import MeasuredSuite
from spade.decoding import UnreadableError, try_decode
from spade.errors import RunError

_MOST_LINES = 12  # most lines to quote from a failed command's errors
_MOST_BYTES = 1 << 16

_measured: msgspec.json.Decoder[tuple[MeasuredSuite]] = msgspec.json.Decoder(tuple[MeasuredSuite])


class EvaluationOptions(TypedDict, total=False):
    """The options of `spade eval`."""

    policy: str
    """The policy to measure: newest (the default), start, step:N or a digest."""
    against: str
    """A policy, or a run, to compare with by paired differences."""
    protocol: Literal["paper", "release", "short"]
    """Name of the rules by which the suite is played."""
    samples: int
    """Plays of each item."""
    items: int
    """Number of items, from the first. Only for the protocol short."""
    seed: int
    """Seed of all sampling."""
    config: str
    """Recipe or file with the settings of sampling and playing."""
    settings: Mapping[str, object]
    """Changed settings, for example {"engine.rows": 8}."""


class Command:
    """A running `spade` command. It gets its own session, so that Ctrl-C of the caller does not reach it.

    `words` are the command's name and flags. `arguments` are never read as options, even if they begin with a dash.
    """

    def __init__(
        self, words: str, *arguments: str, settings: Mapping[str, object] | None = None, **options: object
    ) -> None:
        changed = [f"--set={name}={json.dumps(value, ensure_ascii=False)}" for name, value in (settings or {}).items()]
        given = [f"--{name}={value}" for name, value in options.items() if value is not None]
        self._files = TemporaryFile(), TemporaryFile()  # noqa: SIM115
        # -P: a folder replay/ or actors/ in the working directory must not shadow our package.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", f"{__package__}.guarded", *words.split(), *given, *changed, "--", *arguments],
            stdin=subprocess.PIPE,
            stdout=self._files[0],
            stderr=self._files[1],
            start_new_session=True,
        )
        self._stopped = False
        self.printed = self._errors = b""
        """Standard output of the ended command."""

    @property
    def pid(self) -> int:
        """Return the process's id."""
        return self._process.pid

    @property
    def ended(self) -> bool:
        """Return True once the command has ended."""
        return self._process.poll() is not None

    def stop(self) -> None:
        """Tell the command to end, as SIGTERM does."""
        self._stopped = self._stopped or not self.ended
        assert self._process.stdin is not None
        with suppress(OSError, ValueError):  # the command has ended, or was asked before
            self._process.stdin.write(b"\n")  # closing may not be enough: a forked child may hold the pipe, too
            self._process.stdin.flush()
        with suppress(OSError):
            self._process.stdin.close()

    def wait(self, limit_s: float | None = None) -> RunError | None:
        """Wait until the command ends. Return the error with which it ended, or None after an orderly end.

        Raises subprocess.TimeoutExpired.
        """
        code = self._process.wait(limit_s)
        if not self._files[0].closed:
            self.stop()
            self.printed, self._errors = map(_read_all, self._files)
        if code == 0 or (self._stopped and code == -signal.SIGTERM):  # the command had no handler yet
            return None
        lines = self._errors[-_MOST_BYTES:].decode(errors="replace").splitlines()[-_MOST_LINES:]
        return RunError("\n".join(lines).removeprefix("spade: ") or f"the command ended with exit code {code}")


def evaluate(model: Path | str, suite: str, **options: Unpack[EvaluationOptions]) -> MeasuredSuite:
    """Measure a policy on a suite as `spade eval` does, and return the result.

    `model` is a run directory, a checkpoint folder, a name of the hub, or "nano". Only missing samples are played.
    Raises RunError if the suite cannot be played.
    """
    given: dict[str, Any] = {**options}
    command = Command("eval run --json", str(model), suite=suite, **given)
    try:
        error = command.wait()
    except BaseException:
        command.stop()
        command.wait()
        raise
    try:
        return try_decode(_measured.decode, command.printed)[0]
    except UnreadableError:
        raise error or RunError(f"{model}: {suite} names several suites or policies") from None


def _read_all(file: IO[bytes]) -> bytes:
    with file:
        file.seek(0)
        return file.read()
