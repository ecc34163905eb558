"""Feed broken bytes to every decoder of what others wrote, each in this process.

    python -m tests.fuzz.decoders --minutes 10

Each decoder reads what it reads or raises the errors it says; anything else ends the program with the bytes and exit
code 1. Prints how many it was given, how many it could read, and what it raised.
"""

import fcntl
import json
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import trio

from actors import corpus
from actors.engines.foreign.endpoint import Completion, EndpointEngine
from actors.sandbox.host import check_answer
from actors.sandbox.inside.messages import FRAME_BYTES, LENGTH
from actors.sandbox.process import ChildProcess
from actors.sandbox.wire import FailureReply, Reset, unpack
from learner import checkpoint
from spade.app.rundir import RunDir
from spade.app.screen.observe import read_status
from spade.app.screen.reach import reach
from spade.codec import decode_request, decode_response, encode
from spade.config import Sandbox, dump, load
from spade.decoding import UnreadableError
from spade.errors import BusError, ConfigError, RunError, SpadeError, WeightsError
from spade.locks import describe_this_process
from spade.openai_api import parse_answer, read_models
from spade.policy import canary, manifest
from spade.protocol import Faulted, Status
from spade.protocol import Process as SearchableText
from spade.tokens import Tokenizer
from tests.bench.harness import command
from tests.conftest import TEMPLATE, write_tokenizer
from tests.fuzz.foreign import broken_json, damaged
from tests.fuzz.frames import REQUESTS, broken

LINE = 1_000  # characters of an error that a person reads
OBSERVED = {"nonce": "0", "is": "observed", "text": "go", "reward": 0.5, "terminated": False, "truncated": True}
FRAMES = [
    OBSERVED,
    {"nonce": "0", "is": "loaded", "name": "Env"},
    {"nonce": "0", "is": "solved", "actions": ["left", "right"]},
    {"nonce": "0", "is": "fault", "kind": "exception", "stage": "play", "detail": "KeyError"},
]
CHOICE = {
    "text": "left", "token_ids": [5, 6], "prompt_token_ids": [7], "logprobs": {"token_logprobs": [-0.5, None]},
    "finish_reason": "stop",
}  # fmt: skip
TENSOR = {"dtype": "F32", "shape": [2, 2], "digest": "0" * 32}
HEADER = {"__metadata__": {"format": "pt"}, "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}
TEMPLATES = (
    "{{ 1 / 0 }}", "{{ messages[10 ** 30] }}", "{{ messages.a.b.c }}", "{{ [1] | sum(start='a') }}", "{{ 'a' % 1 }}",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "{{ range(10 ** 9) }}", "{{ 1.0 * 10 ** 400 }}", "{% for %}",
    "{{ strftime_now(1) }}", "{{ raise_exception(messages) }}", "{{ '\\ud800' }}",
    "{{ messages | tojson(indent='x') }}", "{{ 'a' * 10 ** 20 }}", "{{ messages[0].content.encode() }}",
    "{{ " + "(" * 500, "{% if 1 %}" * 300, "{{ messages | batch('x') | list }}", "{{ ''.__class__.__mro__ }}",
)  # fmt: skip


@dataclass(frozen=True)
class Decoder:
    """`read` is given what `draw` draws, and may raise `errors`."""

    name: str
    draw: Callable[[Random], bytes]
    read: Callable[[bytes], object]
    errors: tuple[type[Exception], ...]


def json_of(*trees: Any) -> Callable[[Random], bytes]:
    return lambda random: broken_json(random, random.choice(trees))


def decoders(folder: Path) -> list[Decoder]:
    """All of them; their files lie in `folder`."""
    return [*_wires(folder), *_weights(folder), *_checkpoint(folder), *_run(folder)]


def _wires(folder: Path) -> list[Decoder]:
    model = folder / "model"
    model.mkdir()
    write_tokenizer(model)
    engine = EndpointEngine.__new__(EndpointEngine)  # without a server: what one answers is what is drawn
    engine._url, engine._tokenizer = "http://there/v1", Tokenizer.load(model)

    def frame(data: bytes) -> object:
        answer = unpack(data)
        return answer if isinstance(answer, FailureReply) else check_answer(answer, Sandbox())

    def completion(data: bytes) -> object:
        return encode(engine._convert_answer([7], 4, parse_answer(engine._url, data, Completion)))

    def models(data: bytes) -> object:
        return read_models(engine._url, data)

    whole = [encode(request) for request in REQUESTS]
    pair = {"data": [{"id": "nano"}]}
    return [
        Decoder("sandbox frame", json_of(*FRAMES), frame, (UnreadableError,)),
        Decoder("sandbox channel", json_of(*FRAMES), _exchanged, ()),
        Decoder("bus request", lambda random: broken(random, whole), decode_request, (UnreadableError,)),
        Decoder("bus response", lambda random: broken(random, whole), decode_response, (UnreadableError,)),
        Decoder("completion", json_of({"choices": [CHOICE]}), completion, (BusError,)),
        Decoder("list of models", json_of(pair), models, (BusError,)),
    ]


def _exchanged(data: bytes) -> object:
    """The host's answer about a child whose first answer is one frame of these bytes."""
    ours, theirs = socket.socketpair()

    async def answer(stream: trio.SocketStream) -> None:
        nonce = json.loads((await stream.receive_some())[LENGTH.size :])["nonce"].encode()
        body = data.replace(b'"0"', b'"' + nonce + b'"')[:FRAME_BYTES]
        with suppress(trio.BrokenResourceError):  # the host has heard enough
            await stream.send_all(LENGTH.pack(len(body)) + body)

    async def ask() -> object:
        process = ChildProcess(ours)
        stream = trio.SocketStream(trio.socket.from_stdlib_socket(theirs))
        async with stream, trio.open_nursery() as nursery:
            nursery.start_soon(answer, stream)
            found = await process.request(Reset(1), 60.0)
        process.kill()
        return found

    return trio.run(ask)


def _weights(folder: Path) -> list[Decoder]:
    file, digest = folder / "header.safetensors", "0" * 32

    def spans(data: bytes) -> object:
        # A length that is right, or a lie, before the header.
        length = len(data) if data[:1] != b"\0" else 2**60
        file.write_bytes(length.to_bytes(8, "little") + data + bytes(8))
        return manifest.read_spans(file)

    def read_canary(data: bytes) -> object:
        (folder / canary.FILE).write_bytes(data)
        return canary.read(folder)

    def verified(data: bytes) -> object:
        (folder / checkpoint.MANIFEST).write_bytes(data)
        return checkpoint.verify_checkpoint(folder)

    metrics = msgspec.to_builtins(checkpoint.StepMetrics())
    kept = {"step": 3, "metrics": metrics, "checksums": {"policy/config.json": "0" * 32}}
    return [
        Decoder("manifest", json_of({"a": TENSOR}), lambda data: manifest.decode(data, digest), (WeightsError,)),
        Decoder("safetensors header", json_of(HEADER), spans, (WeightsError,)),
        Decoder("canary", json_of({"ids": [1, 2], "logprobs": [-0.5]}), read_canary, (WeightsError,)),
        Decoder("learner's checkpoint", json_of(kept), verified, (OSError, ValueError)),
    ]


def _checkpoint(folder: Path) -> list[Decoder]:
    model = folder / "foreign"
    model.mkdir()
    write_tokenizer(model)
    settings = json.loads((model / "tokenizer_config.json").read_text())
    whole = {file.name: file.read_bytes() for file in model.iterdir()}
    listed = {**settings, "chat_template": [{"name": "default", "template": TEMPLATE}], "eos_token": {"content": "x"}}

    def reader(name: str) -> Callable[[bytes], object]:
        def read(data: bytes) -> object:
            (model / name).write_bytes(data)
            try:
                return Tokenizer.load(model).prompt_ids([])
            finally:
                (model / name).unlink()
                for kept, before in whole.items():
                    (model / kept).write_bytes(before)

        return read

    def template(random: Random) -> bytes:
        text = random.choice((*TEMPLATES, TEMPLATE)).encode(errors="surrogatepass")
        return damaged(random, text) if random.random() < 0.5 else text

    tokenizer = json.loads(whole["tokenizer.json"])
    named, generation = "tokenizer_config.json", "generation_config.json"
    return [
        Decoder(named, json_of(settings, listed), reader(named), (RunError,)),
        Decoder(generation, json_of({"eos_token_id": [1, 2]}), reader(generation), (RunError,)),
        Decoder("tokenizer.json", json_of(tokenizer), reader("tokenizer.json"), (RunError,)),
        Decoder("chat template", template, reader("chat_template.jinja"), (RunError,)),
    ]  # fmt: skip


def _run(folder: Path) -> list[Decoder]:
    settings, run = load("nano"), RunDir(folder / "run")
    run.create(settings)
    record = json.loads(run.record_path.read_text())
    told = Status(
        processes=(SearchableText("agent-0", "agent", 1, "ready", 0, gauges={"request_faults": 1.0}),), waiting_for="x"
    )

    def created(data: bytes) -> object:
        run.record_path.write_bytes(data)
        return run.create(settings)

    def status(data: bytes) -> object:
        run.status_path.write_bytes(data)
        return trio.run(read_status, reach(run))

    def holders(data: bytes) -> object:
        with (run.path / "replay.lock").open("wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(data)
            file.flush()
            if not (found := run.holders()):
                raise RunError("nobody is up")
            return found

    def settled(data: bytes) -> object:
        (folder / "config.toml").write_bytes(data)
        return load(str(folder / "config.toml"))

    def documents(data: bytes) -> object:
        (folder / "corpus.jsonl").write_bytes(data)
        return corpus.load(str(folder / "corpus.jsonl"))

    text = dump(settings).encode()
    deep = text.replace(b"[run]", b"[run]\nx = " + b"[" * 5_000, 1)
    number = msgspec.json.encode(describe_this_process()).ljust(1_024)
    numbers = (number, b"", b"-1", b"9" * 10, b"1 2", b"\xff", b"\xd9\xa1", b"1" * 100_000)
    return [
        Decoder("run.json", json_of(record), created, (RunError,)),
        Decoder("status.json", json_of(json.loads(msgspec.json.encode(told))), status, (RunError,)),
        Decoder("lock", lambda random: damaged(random, random.choice(numbers)), holders, (RunError,)),
        Decoder("config.toml", lambda random: damaged(random, random.choice((text, deep))), settled, (ConfigError,)),
        Decoder("corpus", json_of({"text": "Tides.", "id": 1, "field": "x", "title": "T"}), documents, (ConfigError,)),
    ]


def fuzz(decoder: Decoder, seconds: float, seed: int, most: int = sys.maxsize) -> Counter[str]:
    """The outcome. Raises AssertionError, with the bytes, for any other."""
    random, found = Random(seed), Counter[str]()
    until = time.monotonic() + seconds
    while found["given"] < most and time.monotonic() < until:
        data = decoder.draw(random)
        found["given"] += 1
        try:
            result = decoder.read(data)
        except decoder.errors as error:
            if isinstance(error, SpadeError) and not (str(error).isprintable() and len(str(error)) < LINE):
                raise AssertionError(f"{decoder.name}: no line: {error!r:.300} of {data[:300]!r}") from error
            found[type(error).__name__] += 1
        except BaseException as error:
            raise AssertionError(f"{decoder.name}: {error!r:.300} of {len(data)} bytes: {data[:2_000]!r}") from error
        else:
            found["faulted" if isinstance(result, Faulted) else "read"] += 1
    return found


def main(seconds: float, seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        known = decoders(Path(folder))
        for decoder in known:
            found = fuzz(decoder, seconds / len(known), seed)
            print(f"{decoder.name}: " + ", ".join(f"{kind} {count:,}" for kind, count in found.items()), flush=True)


if __name__ == "__main__":
    arguments = command(__doc__, minutes=10.0, seed=0).parse_args()
    main(60 * arguments.minutes, arguments.seed)
