"""All that a batch script needs of Slurm, for the machines of a lab: `srun`, and a service that runs its tasks.

As Slurm does, it ends all that a task left behind. Run by `python -m tests.ray.slurm`, from any working directory that
holds the sockets.
"""

import json
import os
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path

import trio

from tests.ray.lab import BIN, SMALL

SOCKET = "slurmd.{}"
_RAY = """#!/bin/sh
[ "$1" = start ] || exec {ray} "$@"
[ ! -e {shared}/broken ] || [ "$(hostname)" = machine-a ] || {{ echo "no Ray here" >&2; exit 1; }}
exec {ray} "$@" {small}
"""


def tools(shared: Path) -> Path:
    """A folder of the commands that a batch script calls. Where the file `broken` is, Ray starts on "a" alone."""
    folder = shared / "bin"
    folder.mkdir()
    srun = f'#!/bin/sh\ncd {shared} && exec {sys.executable} -m tests.ray.slurm srun "$@"\n'
    scripts = {
        "ray": _RAY.format(ray=BIN / "ray", shared=shared, small=" ".join(SMALL)),
        "spade": f'#!/bin/sh\nexec {sys.executable} -m spade.app.cli "$@"\n',
        "srun": srun,
        "scontrol": f'#!/bin/sh\necho "$@" >> {shared}/scontrol\n',
    }
    for name, script in scripts.items():
        (folder / name).write_text(script)
        (folder / name).chmod(0o755)
    return folder


async def serve(cpus: str) -> None:
    """Run one step after another on this machine, as its `slurmd` does."""
    path = SOCKET.format(os.uname().nodename)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(listening.dup()))
        while True:
            async with await listener.accept() as caller:
                words, environment, folder = json.loads(await _line(caller))
                here = {"SLURM_CPUS_ON_NODE": cpus, "SLURMD_NODENAME": os.uname().nodename, "SLURM_NODEID": "0"}
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_until_gone, caller, nursery.cancel_scope)
                    with suppress(trio.BrokenResourceError):
                        done = await trio.run_process(words, env=environment | here, cwd=folder, check=False)
                        await caller.send_all(f"{done.returncode}\n".encode())
                    nursery.cancel_scope.cancel()
                with suppress(ProcessLookupError):
                    os.kill(-1, signal.SIGKILL)  # all of this machine, which a namespace is


async def srun(words: list[str], machines: list[Path]) -> int:
    """A task on each machine that serves; the code of the first that fails."""
    options = [word for word in words if word.startswith("--")][
        : next(place for place, word in enumerate(words) if not word.startswith("--"))
    ]
    command, codes = words[len(options) :], []
    assert f"--ntasks={len(machines)}" in options
    async with trio.open_nursery() as nursery:

        async def task(path: Path) -> None:
            async with await trio.open_unix_socket(str(path)) as machine:
                await machine.send_all(json.dumps([command, dict(os.environ), os.environ["PWD"]]).encode() + b"\n")
                codes.append(int(await _line(machine)))
            if codes[-1]:
                nursery.cancel_scope.cancel()

        for path in machines:
            nursery.start_soon(task, path)
    return next((code for code in codes if code), 0)


async def _line(stream: trio.SocketStream) -> bytes:
    text = b""
    while not text.endswith(b"\n"):
        read = await stream.receive_some()
        assert read, "the other side is gone"
        text += read
    return text


async def _until_gone(stream: trio.SocketStream, scope: trio.CancelScope) -> None:
    await stream.receive_some()
    scope.cancel()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve", cpus]:
            trio.run(serve, cpus)
        case ["srun", *words]:
            sys.exit(trio.run(srun, words, sorted(Path().glob(SOCKET.format("*")))))
