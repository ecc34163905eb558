"""A server on loopback that speaks as much of the Hugging Face hub's API as its client needs for a snapshot."""

import hashlib
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from urllib.parse import unquote

import pytest
from huggingface_hub import constants
from huggingface_hub.utils import _http


class Hub:
    """Repositories by name: the commit of `main`, and the files of each commit. `fault` answers in its place."""

    def __init__(self) -> None:
        self.commits: dict[str, str] = {}
        self.files: dict[str, dict[str, bytes]] = {}
        self.fault = ""
        self.asked: list[str] = []
        self.url = ""

    def push(self, name: str, files: dict[str, bytes]) -> str:
        """Commit `files` to a repository; returns the commit."""
        commit = hashlib.sha1(b"".join(files.values())).hexdigest()
        self.commits[name], self.files[commit] = commit, files
        return commit

    def answer(self, path: str) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of a request."""
        self.asked.append(path)
        if self.fault == "429":
            return 429, {}, b"slow down"
        if self.fault == "html":
            return 200, {"Content-Type": "text/html"}, b"<html>a portal</html>"
        parts = unquote(path.partition("?")[0]).strip("/").split("/")
        if parts[:2] in (["api", "models"], ["api", "datasets"]):
            name, rest = "/".join(parts[2:4]), parts[4:]
            if name not in self.commits:
                return 404, {"X-Error-Code": "RepoNotFound"}, b"{}"
            commit = self.commits[name] if rest[1:2] in ([], ["main"]) else rest[1]
            files = self.files[commit]
            if rest[:1] == ["tree"]:
                rows = [{"type": "file", "path": each, "size": len(data), "oid": "0"} for each, data in files.items()]
                return 200, {}, json.dumps(rows).encode()
            siblings = [{"rfilename": each} for each in files]
            return 200, {}, json.dumps({"id": name, "sha": commit, "siblings": siblings}).encode()
        parts = parts[parts[0] == "datasets" :]
        if len(parts) < 5:
            return 404, {"X-Error-Code": "RepoNotFound"}, b"{}"
        name, commit, file = "/".join(parts[:2]), parts[3], "/".join(parts[4:])
        commit = self.commits[name] if commit == "main" else commit
        data = self.files[commit].get(file)
        if data is None:
            return 404, {"X-Error-Code": "EntryNotFound"}, b""
        etag = hashlib.sha1(data).hexdigest()
        headers = {"ETag": f'"{etag}"', "X-Repo-Commit": commit, "Content-Length": str(len(data))}
        return 200, headers, data[: len(data) // 2] if self.fault == "cut" else data


@contextmanager
def serve_hub() -> Iterator[Hub]:
    """Serve a hub during the block."""
    hub = Hub()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, body = hub.answer(self.path)
            self.send_response(status)
            for key, value in ({"Content-Length": str(len(body))} | headers).items():
                self.send_header(key, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    hub.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def use_hub(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """Serve a hub during the block; the hub's client of this process asks it, and keeps its files in `cache`."""
    with serve_hub() as served:
        monkeypatch.setattr(constants, "ENDPOINT", served.url)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        files_at = f"{served.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", files_at)
        impatient = SimpleNamespace(**{**vars(time), "sleep": lambda _: None})  # else it waits half a minute in all
        monkeypatch.setattr(_http, "time", impatient)
        yield served
