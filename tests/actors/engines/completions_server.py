"""A small server of OpenAI's completions API over HTTP, with a torch engine behind it."""

import json
import threading
import time
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from spade.codec import pack_ids, unpack_floats, unpack_ids
from spade.protocol import Generate


class Sampler(threading.Thread):
    """Steps an engine for as many callers as there are."""

    def __init__(self, engine):
        super().__init__(daemon=True)
        self.engine = engine
        self.open = {}
        self.changed = threading.Condition()
        self.left = False
        self.start()

    def run(self):
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self.left or self.engine.busy)
                if self.left:
                    return
                for index, generated in self.engine.step():
                    self.open.pop(index)(generated)

    def sample(self, request):
        ended, answer = threading.Event(), []
        with self.changed:
            index = max(self.open, default=0) + 1
            self.open[index] = lambda generated: (answer.append(generated), ended.set())
            self.engine.submit(index, request)
            self.changed.notify()
        ended.wait()
        return answer[0]

    def leave(self):
        with self.changed:
            self.left = True
            for answer in self.open.values():
                answer(None)
            self.changed.notify()
        self.join()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        if self.server.fixed:
            self.send(*self.server.fixed)
        else:
            self.answer({"data": [{"id": "nano"}]})

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(asked)
        if self.server.fixed:
            self.send(*self.server.fixed)
            return
        named = {name: asked[name] for name in ("max_tokens", "temperature", "seed", "top_p", "top_k")}
        request = Generate(pack_ids(asked["prompt"]), stop=tuple(asked["stop"]), **named)
        generated = self.server.sampler.sample(request)
        if generated is None:
            return  # nobody listens any more
        ids = unpack_ids(generated.ids).tolist()
        choice = {"text": self.server.tokenizer.decode(ids), "finish_reason": generated.finish}
        if self.server.with_ids:
            logprobs = {"token_logprobs": unpack_floats(generated.logprobs).tolist()}
            choice |= {"token_ids": ids, "prompt_token_ids": asked["prompt"], "logprobs": logprobs}
        self.answer({"choices": [choice]})

    def answer(self, tree):
        if self.server.key and self.headers["Authorization"] != f"Bearer {self.server.key}":
            self.send_error(401, "no such key")
            return
        self.send(200, json.dumps(tree).encode())

    def send(self, status, body):
        with suppress(ConnectionError):  # who asked may be gone
            self.send_response(status)
            self.send_header("Content-Length", str(self.server.promised or len(body)))
            for name, value in self.server.headers.items():
                self.send_header(name, value)
            self.end_headers()
            step = 1 if self.server.pause_s else len(body)
            for at in range(0, len(body), step or 1):
                self.wfile.write(body[at : at + step])
                time.sleep(self.server.pause_s)

    def log_message(self, *args):
        pass


@contextmanager
def completions(engine, tokenizer, *, with_ids=True, key=""):
    """The server, listening at `url`; `asked` are the bodies it was sent.

    `fixed`, a status and a body, is answered instead of what was asked for; `promised` is a length that it lies about,
    `headers` are more of them, and `pause_s` is waited after each byte.
    """
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.fixed, server.promised, server.headers, server.pause_s = None, 0, {}, 0.0
    server.sampler, server.tokenizer, server.with_ids = Sampler(engine), tokenizer, with_ids
    server.key, server.asked = key, []
    server.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.sampler.leave()
        server.server_close()
