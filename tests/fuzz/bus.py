"""Fire broken messages at a real replay service and a real env-runner, over real sockets.

    python -m tests.fuzz.bus --minutes 10

Three kinds of fire at each: broken requests of a peer that said hello, broken greetings of one that did not, and
connections that speak no ZeroMQ or send frames over the limit. Prints what was sent, how it was answered, and memory,
open files and the digest of the store before and after. Exit code 1 where a service died, grew or changed the store.
"""

import socket
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from random import Random

import msgspec
import trio
import zmq

from spade.codec import decode_request, decode_response, encode
from spade.config import compute_digest
from spade.decoding import UnreadableError
from spade.protocol import Heartbeat, Publish, Ready, Rehello, Role
from tests.bench.harness import command
from tests.fuzz.frames import HELLO, message, seeds
from tests.fuzz.targets import SETTINGS, Ground, Target, ground

SENDERS: tuple[Role, ...] = (
    "agent", "designer", "learner", "evaluator", "engine", "env-runner", "supervisor", "observer"
)  # fmt: skip
VOLLEY = 48  # messages between two looks at the answers; under the window of requests
GROWTH_BYTES = 32 * 1024 * 1024  # what an allocator may keep
WARM = 0.25  # share of the time before memory counts
ANSWER_MS = 60_000
_SYNC = (1).to_bytes(8, "big")
_GREETING = b"\xff\0\0\0\0\0\0\0\x01\x7f\x03\0NULL" + bytes(48)  # of ZMTP 3.0


class Tally(Counter[str]):
    """Counts of messages sent, and of answers by kind."""


def fire(address: str, session: bool, seconds: float, seed: int) -> Tally:
    """Broken requests of peers that said hello, one a role, or with `session` broken greetings of one that did not."""
    random, tally = Random(seed), Tally()
    until = time.monotonic() + seconds
    with zmq.Context() as context, ExitStack() as stack:
        peers = []
        for role in ("agent",) if session else SENDERS:
            hello = msgspec.structs.replace(HELLO, digest=compute_digest(SETTINGS), role=role)
            peer = stack.enter_context(context.socket(zmq.DEALER))
            peer.linger, peer.rcvtimeo, peer.sndtimeo = 0, ANSWER_MS, ANSWER_MS
            peer.connect(address)
            peers.append((peer, encode(hello), seeds(session, hello)))
        while time.monotonic() < until:
            peer, greeting, whole = random.choice(peers)
            if not session:
                peer.send_multipart([_SYNC, greeting])
            for _ in range(VOLLEY):
                frames = message(random, whole)
                if _is_publication(frames[-1]):
                    tally["withheld"] += 1  # whole again, and of use to any peer of the run
                else:
                    peer.send_multipart(frames)
                    tally["sent"] += 1
            peer.send_multipart([_SYNC, encode(Heartbeat())])
            _read_answers(peer, tally, expected=1 if session else 2)
    return tally


def _is_publication(payload: bytes) -> bool:
    try:
        return isinstance(decode_request(payload), Publish)
    except UnreadableError:
        return False


def _read_answers(peer: zmq.Socket[bytes], tally: Tally, expected: int) -> None:
    """Count answers until those to our own sound messages are there."""
    while expected:
        number, payload = peer.recv_multipart()
        answer = decode_response(payload)
        if number == _SYNC:
            assert isinstance(answer, Ready | Rehello) or type(answer).__name__ == "Pulse", answer
            expected -= 1
        else:
            tally[type(answer).__name__] += 1


def intrude(path: Path, seconds: float, seed: int) -> Tally:
    """Connections that speak no ZeroMQ, stop in the middle of it, or send a frame over the limit."""
    random, tally = Random(seed), Tally()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with socket.socket(socket.AF_UNIX) as raw:
            raw.settimeout(ANSWER_MS / 1_000)
            # The service closes what it does not like while we speak.
            with suppress(BrokenPipeError, ConnectionResetError):
                raw.connect(str(path))
                raw.sendall(_nonsense(random))
                raw.recv(64)
        tally["connections"] += 1
        time.sleep(0.01)
    return tally


def _nonsense(random: Random) -> bytes:
    greeting = bytearray(_GREETING)
    ready = b"\x04\x29\x05READY\x0bSocket-Type\0\0\0\x06DEALER\x08Identity\0\0\0\0"
    match random.randrange(5):
        case 0:
            return random.randbytes(random.randint(1, 200))
        case 1:
            greeting[random.randrange(len(greeting))] = random.randrange(256)
            return bytes(greeting) + ready
        case 2:
            return bytes(greeting[: random.randrange(len(greeting))])
        case 3:  # a frame that says it has 2**40 bytes
            return bytes(greeting) + ready + b"\x02" + (2**40).to_bytes(8, "big") + b"x" * 100
        case _:
            return bytes(greeting) + ready + random.randbytes(random.randint(1, 2_000))


class Look(msgspec.Struct):
    """A service at one moment."""

    resident_bytes: int
    descriptors: int


def look(target: Target) -> Look:
    return Look(target.resident_bytes(), target.descriptors())


class Report(msgspec.Struct):
    """The outcome; `faults` is empty where all went well."""

    tallies: dict[str, Tally]
    before: dict[str, Look]
    after: dict[str, Look]
    digests: tuple[str, str]
    faults: list[str]

    def __str__(self) -> str:
        lines = []
        for name, tally in self.tallies.items():
            answers = ", ".join(f"{kind} {count:,}" for kind, count in tally.most_common())
            lines.append(f"{name}: {answers}")
            before, after = self.before[name], self.after[name]
            lines.append(
                f"  memory {before.resident_bytes / 2**20:.1f} → {after.resident_bytes / 2**20:.1f} MiB, "
                f"open files {before.descriptors} → {after.descriptors}"
            )
        lines.append(f"store {self.digests[0]} → {self.digests[1]}")
        return "\n".join([*lines, *(self.faults or ["fine"])])


async def attack(field: Ground, seconds: float, seed: int) -> Report:
    """All three kinds of fire at every target; memory counts from the first part on, which warms caches up."""
    tallies = {target.name: Tally() for target in field.targets}

    async def shoot(target: Target, gun, *arguments) -> None:
        tallies[target.name] += await trio.to_thread.run_sync(partial(gun, *arguments))

    async def salvo(length: float, shift: int) -> None:
        async with trio.open_nursery() as nursery:
            for target in field.targets:
                nursery.start_soon(shoot, target, fire, target.address, False, length, seed + shift)
                nursery.start_soon(shoot, target, fire, target.address, True, length, seed + shift)
                nursery.start_soon(shoot, target, intrude, target.path, length, seed + shift)

    digest_before = field.store_digest()
    await salvo(WARM * seconds, 0)
    before = {target.name: look(target) for target in field.targets}
    await salvo((1 - WARM) * seconds, 1)
    status = await field.replay.status()  # it answers still
    tallies["replay"].update(dropped=status.traffic.dropped_messages, strangers=status.traffic.strangers)
    after = {target.name: look(target) for target in field.targets}
    report = Report(tallies, before, after, (digest_before, field.store_digest()), [])
    report.faults = _faults(field, report)
    return report


def _faults(field: Ground, report: Report) -> list[str]:
    faults = [f"{target.name}: started again {target.restarts} times" for target in field.targets if target.restarts]
    for name, before in report.before.items():
        if report.after[name].resident_bytes - before.resident_bytes > GROWTH_BYTES:
            faults.append(f"{name}: grew by more than {GROWTH_BYTES >> 20} MiB")
    if report.digests[0] != report.digests[1]:
        faults.append("the store has changed")
    return faults


async def main(seconds: float, seed: int) -> Report:
    with tempfile.TemporaryDirectory() as run:
        async with ground(Path(run)) as field:
            return await attack(field, seconds, seed)


if __name__ == "__main__":
    arguments = command(__doc__, minutes=10.0, seed=0).parse_args()
    outcome = trio.run(main, 60 * arguments.minutes, arguments.seed)
    print(outcome)
    sys.exit(1 if outcome.faults else 0)
