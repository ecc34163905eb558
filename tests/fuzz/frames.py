"""Messages of the fuzzer: a valid request of every kind, and ways to break their bytes. Pure."""

import struct
from random import Random
from typing import get_args

from spade import protocol
from spade.codec import compute_program_digest, encode, pack_floats, pack_ids
from spade.transport.rights import explain_forbidden

_TRAJECTORY = protocol.Trajectory(
    pack_ids([1, 2, 3, 4, 5]), (1, 1, 2, 1), pack_floats([-1.0, -2.0]), ((1, 2),), 1.0, rewinds=((2, 1),)
)
_RECORDING = protocol.Recording(("left", "right"), bytes(3 * protocol.DIGEST_BYTES), 8)
_PROGRAM = (
    "class Env:\n    def reset(self, seed): return 'go', {}\n    def step(self, action): return 'on', 0.0, True\n"
)
HELLO = protocol.Hello(protocol.PROTOCOL_VERSION, "d" * 32, "agent", "fuzz", 1)

# Of work that nobody was given: none of these may change anything.
REQUESTS: tuple[protocol.AnyRequest, ...] = (
    HELLO, protocol.Heartbeat({"busy": 1.0}), protocol.Goodbye(), protocol.GetStatus(),
    protocol.GetProgram(compute_program_digest("nothing")),
    protocol.Generate(pack_ids([1, 2]), 4, 1.0, 7), protocol.GiveUp("asked"),
    protocol.OpenEpisode("episode", compute_program_digest(_PROGRAM), 3, 4),
    protocol.StepEpisode("episode", 1, "left", (protocol.ToolCall("find", "{}"),)),
    protocol.CloseEpisode("episode"), protocol.Validate(_PROGRAM, 3), protocol.KeepProgram(_PROGRAM),
    protocol.LeaseDesigns(1, 0.0), protocol.CompareProgram(_PROGRAM), protocol.LeasePlays(3, 0.0),
    protocol.RejectCandidate("no job", 1, 1, "tides", "class", "parse", "no class", _TRAJECTORY, last=True),
    protocol.SubmitEnvironment("no job", 1, 1, "tides", "Env", _PROGRAM, "left", True, "go", _TRAJECTORY),
    protocol.ReleaseDesign("no job", 1),
    protocol.SubmitPlays((
        protocol.EndedPlay("no play", 1, "terminated", 1.0, (0.0, 1.0), 0.5, _TRAJECTORY, "", _RECORDING),
    )),
    protocol.ReleasePlay("no play", 1),
    protocol.LeaseAudit(0.0), protocol.Audited("no environment", 1, "found", 4, 0, 13, 13, 50, 1.0),
    protocol.TakeBatch(99, 0.0), protocol.Publish(99, "digest", "/weights", protocol.StepMetrics()),
    protocol.Checkpointed(99), protocol.AwaitCommand(1, 0),
    protocol.Evaluated(protocol.Evaluation(99, 98, 99, 8, 0, 0.5, 0.2, 1.0, "nano", {"x": 0.5})),
    protocol.GetNewestPrograms(3), protocol.MeasuredDiversity(protocol.Diversity(99, 0.5, 24, "tfidf", 1.0)),
    protocol.Enroll(),
    protocol.ReportProcesses("fuzz", (protocol.Process("agent-0", "agent", 1, "ready", 0, gauges={"a": 1.0}),)),
    protocol.StopRun(), protocol.Orders("nobody", {"agent": 2}, ("agent-0",)),
    protocol.Serving(99, "digest"), protocol.HoldWeights(("digest",)), protocol.RetireWeights(("digest",)),
    protocol.GetWeights("digest", "../secret", 0, 64),
)  # fmt: skip
assert {type(request) for request in REQUESTS} == set(get_args(protocol.AnyRequest)), "a kind has no frame to break"

SESSION = (protocol.Hello, protocol.Heartbeat, protocol.Goodbye)
# Headers of msgpack that promise much: bin, str, array, map and ext of 2**32 - 1 and of 2**16 - 1.
_PROMISES = tuple(bytes([kind]) + b"\xff" * 4 for kind in b"\xc6\xc9\xdb\xdd\xdf") + tuple(
    bytes([kind]) + b"\xff" * 2 for kind in b"\xc5\xc8\xda\xdc\xde"
)
_NUMBERS = (
    *(b"\xcb" + struct.pack(">d", value) for value in (float("nan"), float("inf"), -1.0, 1e308)),
    *(b"\xd3" + struct.pack(">q", value) for value in (-1, -(2**63), 2**63 - 1)),
    b"\xcf" + b"\xff" * 8, b"\xc0", b"\xa0", b"\x90", b"\x80",
)  # fmt: skip


def seeds(session: bool, hello: protocol.Hello = HELLO) -> list[bytes]:
    """The frames to break: those of the session alone, or all others that the peer may send."""
    chosen = [request for request in REQUESTS if isinstance(request, SESSION) == session]
    return [encode(request) for request in chosen if not explain_forbidden(hello, request)]


def broken(random: Random, whole: list[bytes]) -> bytes:
    """One of `whole` with something done to its bytes, now and then up to four times: most of such cannot be read."""
    data = bytearray(random.choice(whole))
    for _ in range(random.choice((1, 1, 1, 1, 2, 3, 4))):
        at = random.randrange(len(data) + 1)
        match random.randrange(9):
            case 0 if data:
                data[at % len(data)] ^= 1 << random.randrange(8)
            case 1 if data:
                data[at % len(data)] = random.randrange(256)
            case 2:
                del data[at:]
            case 3:
                del data[at : at + random.randint(1, 8)]
            case 4:
                data[at:at] = random.randbytes(random.randint(1, 8))
            case 5:
                data[at : at + 1] = random.choice(_PROMISES)
            case 6:
                data[at : at + 1] = random.choice(_NUMBERS)
            case 7:
                other = random.choice(whole)
                data[at:] = other[random.randrange(len(other) + 1) :]
            case _:
                data[at:at] = data[at : at + 64] * random.choice((1, 8, 64))
    return bytes(data)


def message(random: Random, whole: list[bytes]) -> list[bytes]:
    """A message of the bus: now and then its number is none, or it has a frame too many or too few."""
    number = random.randbytes(8) if random.random() < 0.95 else random.randbytes(random.randrange(12))
    frames = [number, broken(random, whole)]
    if random.random() < 0.02:
        frames.append(b"one too many")
    return frames[:1] if random.random() < 0.01 else frames
