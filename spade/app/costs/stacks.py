"""Processor time by part of the code, from stacks that py-spy samples.

py-spy reads the memory of a process from outside and does not stop it. So the processes need no code for it.
"""

import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from subprocess import STDOUT
from tempfile import TemporaryDirectory

import trio

from spade.extras import describe_installing
from spade.processes.ending import interrupt_at_signal

RATE = 5
"""Samples of a process in a second. More would cost the run more than 2 % of two cores."""
OTHER = "other"
CHILDREN = "sandboxed programs"
_WAITING = "(trio/_core/_io_epoll.py:"
"""The innermost frame of a waiting event loop is in this file. Such samples are dropped. On busy cores py-spy often
reports a waiting loop as working, because an event woke it and it waits for a core."""
_GRACE_S = 60.0  # py-spy reads the symbols of a process before its first sample

PARTS = {
    "actors/engines/": "engine: plans and keys",
    "actors/engines/foreign/": "requests and messages",
    "actors/engines/torch/dense.py": "model arithmetic",
    "actors/engines/torch/flash.py": "model arithmetic",
    "actors/engines/torch/forward.py": "model arithmetic",
    "actors/engines/torch/graphs.py": "model arithmetic",
    "actors/engines/torch/kv_store.py": "model arithmetic",
    "actors/engines/torch/sampling.py": "sampling",
    "actors/engines/torch/sequence.py": "sampling",
    "actors/engines/service/": "requests and messages",
    "actors/engines/weights/": "weights and checkpoints",
    "actors/environments/": "sandbox and admission",
    "actors/gateway/": "requests and messages",
    "actors/links/": "requests and messages",
    "actors/sandbox/": "sandbox and admission",
    "actors/": "roles: prompts, moves, trajectories",
    "learner/": "model arithmetic",
    "learner/backends/shards.py": "weights and checkpoints",
    "learner/backends/state.py": "weights and checkpoints",
    "learner/broadcast.py": "weights and checkpoints",
    "learner/checkpoint.py": "weights and checkpoints",
    "learner/weights.py": "weights and checkpoints",
    "learner/writer.py": "weights and checkpoints",
    "replay/": "ledger",
    "replay/store/": "store",
    "spade/codec.py": "coding",
    "spade/decoding.py": "coding",
    "spade/policy/": "weights and checkpoints",
    "spade/processes/": "event loop",
    "spade/tokens/": "coding",
    "spade/transport/": "requests and messages",
    "spade/app/": "supervisor",
    "<frozen importlib": "imports",
}
"""Parts of the code by the beginning of a file's path. The longest matching beginning counts. A stack belongs to its
innermost frame in one of these files. So time in other packages, such as torch, counts for their callers.
"""


def find_part(stack: str) -> str:
    """Return the part of a stack: its frames as "function (path:line)", from the outermost, joined by semicolons."""
    for frame in reversed(stack.split(";")):
        path = frame.rpartition(" (")[2] if frame.startswith("<module>") else frame.partition(" (")[2]
        matching = [prefix for prefix in PARTS if path.startswith(prefix)]
        if matching:
            return PARTS[max(matching, key=len)]
    return OTHER


def count_parts(lines: Iterable[str]) -> Counter[str]:
    """Count samples by part. Waiting event loops do not count. A line has a stack and its count (py-spy's "raw")."""
    counts: Counter[str] = Counter()
    for line in lines:
        stack, _, count = line.strip().rpartition(" ")
        if count.isdigit() and _WAITING not in stack.rpartition(";")[2]:
            counts[find_part(stack)] += int(count)
    return counts


def split_seconds(seconds: float, counts: Mapping[str, int]) -> dict[str, float]:
    """Divide a process's processor time among the parts by their samples. Without samples all of it is OTHER."""
    total = sum(counts.values())
    return {part: seconds * count / total for part, count in counts.items()} if total else {OTHER: seconds}


async def sample_stacks(pids: Iterable[int], seconds: int) -> tuple[dict[int, Counter[str]], str]:
    """Sample the stacks of processes for some seconds. Return the counts of each process, and the faults or "".

    Only threads that work are sampled. A process that cannot be sampled is missing in the result, and the faults say
    why. A signal ends py-spy and raises KeyboardInterrupt.
    """
    program = shutil.which("py-spy", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if program is None:
        await trio.sleep(seconds)
        return {}, f"py-spy is not installed; {describe_installing('profile')}"
    faults: set[str] = set()
    with TemporaryDirectory() as folder:
        files = {pid: Path(folder) / str(pid) for pid in pids}
        async with trio.open_nursery() as watch:
            await watch.start(interrupt_at_signal)  # otherwise py-spy would go on after a SIGTERM to this process
            with trio.move_on_after(seconds + _GRACE_S):
                async with trio.open_nursery() as nursery:
                    for pid, file in files.items():
                        nursery.start_soon(_record, program, pid, seconds, file, faults)
            watch.cancel_scope.cancel()
        return _read_counts(files), "; ".join(sorted(faults))


async def _record(program: str, pid: int, seconds: int, file: Path, faults: set[str]) -> None:
    """Sample the stacks of one process into `file`. If that fails, add py-spy's reason to `faults`."""
    command = [program, "record", "--pid", str(pid), "--duration", str(seconds), "--rate", str(RATE)]
    options = ["--nonblocking", "--format", "raw", "--output", str(file)]
    done = await trio.run_process([*command, *options], check=False, capture_stdout=True, stderr=STDOUT)
    if done.returncode:
        faults.add(done.stdout.decode(errors="replace").strip().partition("\n")[0])


def _read_counts(files: Mapping[int, Path]) -> dict[int, Counter[str]]:
    """Return the counts of the files that py-spy has written."""
    found = {}
    for pid, file in files.items():
        with suppress(FileNotFoundError), file.open(encoding="utf-8", errors="replace") as lines:
            found[pid] = count_parts(lines)
    return found
