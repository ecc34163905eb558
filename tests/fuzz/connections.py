"""Open many connections at a real replay service, on loopback, with and without keys, and see whom it still serves.

    python -m tests.fuzz.connections --count 10000

The connections finish their handshake as far as strangers can and stay. Exit code 1 where the service ended, or did not
take a learner step or let a newcomer in meanwhile.
"""

import resource
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import trio

from spade.errors import BusError
from spade.transport import keys
from tests.bench.harness import command
from tests.fuzz.targets import SETTINGS, Target
from tests.peers import changed, supervised
from tests.replay import feeding
from tests.replay.everyone import everyone

_READY = b"\x04\x29\x05READY\x0bSocket-Type\0\0\0\x06DEALER\x08Identity\0\0\0\0"
_BURST = 50  # connections between two pauses


def _greeting(keyed: bool) -> bytes:
    """Of ZMTP 3.0; who has no key comes no further under CURVE."""
    mechanism = b"CURVE" if keyed else b"NULL\0"
    return b"\xff" + bytes(7) + b"\x01\x7f\x03\0" + mechanism + bytes(47) + (b"" if keyed else _READY)


@contextmanager
def connections(port: int, count: int, keyed: bool) -> Iterator[None]:
    """Hold so many; what is not accepted waits in the system's queue, or is refused."""
    opened = []
    try:
        for number in range(count):
            peer = socket.socket()
            peer.setblocking(False)
            peer.connect_ex(("127.0.0.1", port))
            opened.append(peer)
            if number % _BURST == _BURST - 1:
                time.sleep(0.005)  # else most would wait in the system's queue, and never reach the service
        time.sleep(1.0)
        for peer in opened:
            with suppress(OSError):
                peer.send(_greeting(keyed))
        yield
    finally:
        for peer in opened:
            peer.close()


async def main(count: int, keyed: bool) -> bool:
    """True where all went well."""
    with tempfile.TemporaryDirectory() as name, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port, run = probe.getsockname()[1], Path(name)
        probe.close()
        address, settings = f"tcp://127.0.0.1:{port}", SETTINGS
        if keyed:
            keys.create(run / "keys", [])
            settings = changed(SETTINGS, bus={"keys": str(run / "keys")})
        async with supervised(run, settings, "replay", replay=address) as supervisor:
            target = Target("replay", run, supervisor)
            async with everyone(address, settings) as replay:
                await feeding.publish(replay)
                before = target.resident_bytes(), target.descriptors()
                holding = connections(port, count, keyed)
                await trio.to_thread.run_sync(holding.__enter__)
                began = trio.current_time()
                await feeding.train(replay, 1, plays=4)
                stepped_s, began = trio.current_time() - began, trio.current_time()
                after = target.resident_bytes(), target.descriptors()
                welcome = True
                try:
                    async with everyone(address, changed(settings, bus={"call_deadline_s": 20.0})):
                        pass
                except BusError as error:
                    welcome = False
                    print(error)
                print(
                    f"{'with' if keyed else 'without'} keys: descriptors {before[1]} → {after[1]}, memory "
                    f"{before[0] / 2**20:.0f} → {after[0] / 2**20:.0f} MiB; a learner step in {stepped_s:.2f} s, "
                    f"newcomers in after {trio.current_time() - began:.2f} s; started again {target.restarts} times"
                )
                holding.__exit__(None, None, None)
            return welcome and not target.restarts


if __name__ == "__main__":
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    wanted = command(__doc__, count=10_000).parse_args().count
    fine = [trio.run(main, wanted, keyed) for keyed in (False, True)]
    sys.exit(0 if all(fine) else 1)
