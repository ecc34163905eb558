"""Bits of a store flipped one at a time, and all that reads a store run over each copy.

    python -m tests.fuzz.store [--flips 300] [--seed 1] [--run DIR]

Each flip is named in one line, or changes nothing that the store holds. Without `--run` the store is that of a run in
simulated time. Prints a table of what became of each command, and a line for each flip with which something is wrong.
"""

import gc
import hashlib
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from random import Random

import msgspec

from replay.inspect.contents import read_contents
from replay.inspect.verify import find_problems
from replay.ledger.ledger import Ledger
from replay.ledger.records import Clock
from replay.store import DamagedError, open_reader, open_store
from replay.store.load import open_run
from replay.store.past_batches import read_packed_batch
from spade.app.commands.env import programs as env
from spade.app.commands.replay import store as stores
from spade.app.commands.replay.lineage import lineage
from spade.app.rundir import RunDir
from spade.config import Config
from spade.errors import SpadeError
from tests.app import forked  # noqa: F401 - all that the commands import, once
from tests.bench.harness import command
from tests.replay.kept_world import SETTINGS, keep_world

DEADLINE_S = 30.0
GOOD = ("same", "named")
SIZES = ("file ", "MiB")  # lines that say how large files are


def dump(folder: Path) -> str:
    """A digest of all that a store holds."""
    hashed = hashlib.blake2b(digest_size=16)
    with open_reader(folder) as store, store.pinned():
        for table in store.extents():
            for key, data in store.each(table):
                hashed.update(b"%s\0%s\0%d\0" % (table.encode(), key.encode(), len(data)) + data)
    return hashed.hexdigest()


def _serve(run: RunDir, config: Config) -> None:
    """The start of the service, and a commit."""
    with open_store(run.store, "nosync") as store:
        opened = open_run(store, config)
        ledger = Ledger(opened.state)
        for record in list(opened.state.batches.values()):
            read_packed_batch(store, record)
        ledger.advance(opened.elapsed_s)
        changes = ledger.state.changes()
        store.commit(store.encode([*changes, ("meta", "clock", Clock(opened.elapsed_s + 1))]))
        print(msgspec.json.encode(opened.state.counters).decode())


def _export(run: RunDir) -> None:
    out = run.path / "export"
    stores.export(run.path, out)
    for file in sorted(out.iterdir()):
        print(file.name, hashlib.blake2b(file.read_bytes()).hexdigest())


def _compact(run: RunDir) -> None:
    stores.compact(run.path)
    try:
        print(dump(run.store))
    except SpadeError as error:
        print(f"copied what is damaged: {error}")


def _verify(run: RunDir) -> None:
    """Problems that `verify` finds in the store alone: a run in simulated time has no weights and no checkpoints."""
    try:
        with open_reader(run.store) as store:
            lines = find_problems(read_contents(store))
    except DamagedError as error:
        lines = list(error.what)
    print("\n".join(lines))
    if lines:
        raise SystemExit(1)


COMMANDS: dict[str, Callable[[RunDir, Config], None]] = {
    "verify": lambda run, _: _verify(run),
    "dump": lambda run, _: print(dump(run.store)),
    "stats": lambda run, _: stores.stats(run.path),
    "env ls": lambda run, _: env.ls(run.path, rejected=False),
    "env ls --rejected": lambda run, _: env.ls(run.path, rejected=True),
    "env show": lambda run, _: env.show(run.path, "e000001"),
    "lineage": lambda run, _: lineage(run.path, "2"),
    "export": lambda run, _: _export(run),
    "service": _serve,
    "compact": lambda run, _: _compact(run),
}


class Ended:
    """The end of a command: its exit code (negative: a signal; None: the deadline) and what it printed."""

    def __init__(self, code: int | None, text: str) -> None:
        self.code = code
        self.lines = [line for line in text.splitlines() if not any(word in line for word in SIZES)]

    def against(self, sound: "Ended") -> str:
        """The outcome of a command whose store was damaged, beside what it says of the sound one."""
        if self.code is None:
            return "hangs"
        if self.code < 0:
            return signal.Signals(-self.code).name
        if any(line.startswith("Traceback") for line in self.lines):
            return "traceback"
        if self.code:
            return "named" if all(self.lines) and self.lines else "no line"
        return "same" if self.lines == sound.lines else "other"


def run_apart(command: Callable[[RunDir, Config], None], folder: Path, config: Config) -> Ended:
    """A command in a child of its own."""
    with tempfile.TemporaryFile("w+") as file:
        if (child := os.fork()) == 0:
            _in_child(command, folder, config, file)
        deadline = time.monotonic() + DEADLINE_S
        while True:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                break
            if time.monotonic() > deadline:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return Ended(None, "")
            time.sleep(0.002)
        file.seek(0)
        return Ended(os.waitstatus_to_exitcode(status), file.read().replace(str(folder), "RUN"))


def _in_child(command, folder, config, file) -> None:  # type: ignore[no-untyped-def]
    code = 1
    os.dup2(file.fileno(), 1)
    os.dup2(file.fileno(), 2)
    with redirect_stdout(file), redirect_stderr(file):
        try:
            command(RunDir(folder), config)
            code = 0
        except SpadeError as error:
            print(f"error: {error}")
        except SystemExit:
            pass
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
    os._exit(code)


def trial(sound: dict[str, Ended], source: Path, place: int, bit: int, config: Config) -> dict[str, str]:
    """The outcome of every command over a copy of the run in `source` with one bit flipped."""
    with tempfile.TemporaryDirectory(prefix="flip-") as folder:
        copy = Path(folder) / source.name
        shutil.copytree(source, copy)
        with (copy / "store" / "data.mdb").open("r+b") as file:
            file.seek(place)
            byte = file.read(1)[0]
            file.seek(place)
            file.write(bytes([byte ^ 1 << bit]))
        ended = {name: run_apart(command, copy, config) for name, command in COMMANDS.items()}
    found = {name: one.against(sound[name]) for name, one in ended.items()}
    if found["verify"] == "named" and ended["verify"].lines:
        found["says"] = ended["verify"].lines[0]
    if found["verify"] == "same" and found["dump"] != "same":
        found["verify"] = "silent"
    return found


def wrong(found: dict[str, str]) -> bool:
    """True if anything ended otherwise than it should."""
    return any(found[name] not in GOOD for name in COMMANDS)


def flips(source: Path, config: Config, seed: int, count: int) -> list[tuple[int, int, dict[str, str]]]:
    """`count` trials: the byte and bit that flipped, and what became of each command."""
    with tempfile.TemporaryDirectory(prefix="sound-") as folder:
        copy = Path(shutil.copytree(source, Path(folder) / source.name))
        sound = {name: run_apart(command, copy, config) for name, command in COMMANDS.items()}
    if bad := {name: one.lines for name, one in sound.items() if one.code != 0}:
        raise SystemExit(f"the store is not sound as it is: {bad}")
    random = Random(seed)
    size = (source / "store" / "data.mdb").stat().st_size
    places = [(random.randrange(size), random.randrange(8)) for _ in range(count)]
    return [(place, bit, trial(sound, source, place, bit, config)) for place, bit in places]


def simulated(folder: Path, until: float = 60.0) -> Path:
    """The folder of a run in simulated time."""
    run = RunDir(folder / "run")
    run.create(SETTINGS)
    keep_world(run.store, 4, until)
    return run.path


def main() -> None:
    given = command(__doc__, flips=300, seed=1, run=None).parse_args()
    gc.freeze()  # else a collection in a fork would copy the pages of all that is imported here
    with tempfile.TemporaryDirectory(prefix="run-") as folder:
        source = given.run or simulated(Path(folder))
        results = flips(source, RunDir(source).config(), given.seed, given.flips)
    for place, bit, found in results:
        if wrong(found):
            print(place, bit, {name: what for name, what in found.items() if what not in GOOD})
    for name in COMMANDS:
        print(f"{name:<18} {dict(Counter(found[name] for _, _, found in results))}")
    bad = sum(wrong(found) for _, _, found in results)
    print(f"{len(results)} flips: with {bad} something is wrong")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
