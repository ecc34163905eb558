"""A harness's side of the pipe to the command that drives it: one JSON object a line, on standard input and output.

    command to harness                          harness to command
                                                {"kind": "ready"}
    {"items": true}                             {"kind": "items", "items": [{"name", "category", "digest"}, …]}
    {"play": NAME}                              {"kind": "ask", "model": "agent"|"user", "body": …}, again and again
    {"status": 200, "body": …}                  {"kind": "over", "correct", "score", "answer", "error"}

A harness sends its requests to a chat API on its own loopback. Each request becomes one message of kind "ask" and waits
for the answer.
"""

import hashlib
import json
import os
import queue
import resource
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_MEMORY = 16 << 30  # most bytes of address space
_FILE = 256 << 20  # bytes; limit of each file, including the harness's log
_DETAIL = 800  # most characters of an error

Json = dict[str, Any]


@dataclass(frozen=True)
class Item:
    """A problem of a harness."""

    name: str
    """Unique in the harness."""

    category: str
    """The item's category in the summary of results."""

    content: Any
    """Everything that determines the item's plays."""

    def listed(self) -> Json:
        """Return the item as the command sees it: name, category and digest."""
        digest = hashlib.blake2b(json.dumps(self.content, sort_keys=True, default=str).encode(), digest_size=16)
        return {"name": self.name, "category": self.category, "digest": digest.hexdigest()}


@dataclass(frozen=True)
class PlayOrder:
    """One play of an item."""

    item: Item
    """The problem."""

    mark: str
    """A name that is unique among the plays of this process."""

    url: str
    """The root of the chat API."""


@dataclass(frozen=True)
class HarnessVerdict:
    """The verdict of the harness."""

    correct: bool
    """True if the item counts as solved."""

    score: float
    """The harness's score."""

    answer: str
    """The judged answer, as text."""


class Pipe:
    """The connection to the command. Text that the harness prints goes to standard error."""

    def __init__(self) -> None:
        self._out = os.fdopen(os.dup(1), "wb", buffering=0)
        os.dup2(2, 1)
        self._orders: queue.Queue[Json] = queue.Queue()
        self._answers: queue.Queue[Json] = queue.Queue()
        self._asking = threading.Lock()
        threading.Thread(target=self._read, daemon=True).start()

    def order(self) -> Json:
        """Wait for the next order."""
        return self._orders.get()

    def say(self, **message: Any) -> None:
        """Send a message to the command."""
        self._out.write(json.dumps(message).encode() + b"\n")

    def ask(self, model: str, body: Json) -> Json:
        """Ask the command for the answer of a model. One request is open at a time."""
        with self._asking:
            self.say(kind="ask", model=model, body=body)
            return self._answers.get()

    def _read(self) -> None:
        for text in sys.stdin.buffer:
            message = json.loads(text)
            (self._answers if "status" in message else self._orders).put(message)
        os._exit(0)  # the command is gone


def serve_orders(items: Sequence[Item], play: Callable[[PlayOrder], HarnessVerdict]) -> None:
    """Serve orders until the command is gone."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_FILE, _FILE))
    line = Pipe()
    url = _serve_chat(line)
    named = {item.name: item for item in items}
    line.say(kind="ready")
    number = 0
    while True:
        order = line.order()
        if "items" in order:
            line.say(kind="items", items=[item.listed() for item in items])
            continue
        number += 1
        line.say(kind="over", **_run_order(play, PlayOrder(named[order["play"]], f"play{os.getpid()}n{number}", url)))


def _run_order(play: Callable[[PlayOrder], HarnessVerdict], order: PlayOrder) -> Json:
    try:
        verdict = play(order)
    except Exception as error:
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {error}"[:_DETAIL]}
    finally:
        sys.stdout.flush()
    return {"correct": bool(verdict.correct), "score": float(verdict.score), "answer": verdict.answer}


def _serve_chat(line: Pipe) -> str:
    """Serve the chat API on loopback and return its root. A request's model is "agent" or "user"."""

    class ChatHandler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            answer = line.ask(str(body.get("model", "")), body)
            self._respond(answer["status"], answer["body"])

        def do_GET(self) -> None:
            models = [{"id": name, "object": "model", "created": 0, "owned_by": "spade"} for name in ("agent", "user")]
            self._respond(200, {"object": "list", "data": models})

        def log_message(self, *_: Any) -> None:
            """Log nothing, because the command keeps the records."""

        def _respond(self, status: int, body: Mapping[str, Any]) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", 0), ChatHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_address[1]}/v1"
