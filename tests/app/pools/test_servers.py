"""Servers of OpenEnv that describe themselves in ways that nobody expects."""

import json
import threading
import time
from contextlib import contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import trio

from spade.app.pools import servers
from spade.errors import RunError


@contextmanager
def serve(answers, pause_s=0.0, asked=None):
    """Serve these answers by path, each byte after a pause. Yield the address. Fills `asked`."""
    asked = [] if asked is None else asked

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            body = json.dumps(answers.get(self.path)).encode()
            status = answers.get(self.path)
            self.send_response(status if isinstance(status, int) else 200 if self.path in answers else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            for start in range(0, len(body), 1 if pause_s else len(body)):
                self.wfile.write(body[start : start + 1] if pause_s else body)
                time.sleep(pause_s)

        do_POST = do_GET  # noqa: N815

        def log_message(self, *words): ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def make_schema(action):
    text = {"properties": {"text": {"type": "string"}}}
    return {"/schema": {"action": {"properties": {"move": action}}, "observation": text}}


@pytest.mark.parametrize(
    ("name", "path"),
    [("a b", "a%20b"), ("x\ny", "x%0Ay"), ("../?é#", "..%2F%3F%C3%A9%23"), ("//host/x", "%2F%2Fhost%2Fx")],
)
def test_the_name_of_an_environment_is_one_part_of_a_path(name, path):
    answers = {"/list_environments": [name], f"/{path}/splits": [{"name": "train"}]}
    answers[f"/{path}/tasks"] = {"tasks": [{"id": "first"}]}
    with serve(make_schema({"type": "string"}) | answers) as address:
        _, [program] = servers.read_server(address)
    assert program.name == "first"


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        ({"/list_environments": ["a", "b"]}, "has 2 environments"),
        ({"/list_environments": ["x" * 70_000]}, "too long"),
        ({"/schema": 401}, r"does not give /schema \(status 401\)"),
        ({"/list_environments": 503}, r"does not give /list_environments \(status 503\)"),
    ],
)
def test_a_server_that_cannot_be_read_is_one_line(answers, says):
    with serve(make_schema({"type": "string"}) | answers) as address, pytest.raises(RunError, match=says):
        servers.read_server(address)


@pytest.mark.parametrize("status", [404, 405, 501])
def test_a_server_without_tasks_is_one_program(status):
    answers = make_schema({"type": "string"}) | {"/list_environments": ["a"], "/a/splits": status}
    with serve(answers) as address:
        _, [program] = servers.read_server(address)
    assert program.name == "a"


@pytest.mark.parametrize(
    "action", [{"enum": 5}, {"enum": {}}, {"enum": ['a\n"""\\', None]}, {"type": ["x"], "minimum": "low"}]
)
def test_a_schema_of_any_form_gives_a_program(action):
    with serve(make_schema(action)) as address:
        _, [program] = servers.read_server(address)
    compile(program.source, "", "exec")


def test_an_answer_that_comes_in_drops_is_not_awaited_for_ever(monkeypatch):
    monkeypatch.setattr(servers, "READ_S", 0.2)
    with serve(make_schema({"type": "string"}), pause_s=0.02) as address, pytest.raises(RunError, match="longer than"):
        servers.read_server(address)


async def drip_headers(stream):
    with suppress(trio.BrokenResourceError):
        await stream.send_all(b"HTTP/1.1 200 OK\r\nX: ")
        while True:
            await stream.send_all(b"a")
            await trio.sleep(0.02)


async def test_headers_that_come_in_drops_are_not_awaited_for_ever(monkeypatch):
    monkeypatch.setattr(servers, "READ_S", 0.2)
    async with trio.open_nursery() as nursery:
        [listener] = await nursery.start(partial(trio.serve_tcp, drip_headers, 0, host="127.0.0.1"))
        address = f"http://127.0.0.1:{listener.socket.getsockname()[1]}"
        with trio.fail_after(10), pytest.raises(RunError, match="longer than"):
            await trio.to_thread.run_sync(servers.read_server, address, abandon_on_cancel=True)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("tasks", "says"), [([{"id": "a"}, {"id": "b"}], "more than 5 tasks"), ([], "has 99 splits")])
def test_a_server_that_lists_without_end_is_refused_after_a_few_questions(tasks, says, monkeypatch):
    monkeypatch.setattr(servers, "MOST_PROGRAMS", 5)
    answers = {"/list_environments": ["a"], "/a/splits": [{"name": f"s{n}"} for n in range(99 if not tasks else 9)]}
    asked = []
    answers |= make_schema({"type": "string"}) | {"/a/tasks": {"tasks": tasks}}
    with serve(answers, asked=asked) as address, pytest.raises(RunError, match=says):
        servers.read_server(address)
    assert len(asked) <= 6
