"""A server on loopback with the part of the Hugging Face hub's API that its client needs for snapshots and commits."""

import base64
import hashlib
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import pytest
from huggingface_hub import constants
from huggingface_hub.utils import _http

TOKEN, READER = "hf_writes_all_of_it", "hf_reads_all_of_it"
"""Two tokens that the hub knows. Only the first may write, and below `someone/` alone."""
LARGE = (".safetensors", ".parquet")
"""Files that the hub takes as large ones, apart from the commit."""
Answer = tuple[int, dict[str, str], bytes]
"""Status, headers and body."""
PORTAL = 200, {"Content-Type": "text/html"}, b"<html>a portal</html>"


class Hub:
    """Repositories by name: the commit of `main`, and the files of each commit.

    `fault` answers in its place: one of its words, or a part of the address of a request that writes.
    """

    def __init__(self) -> None:
        self.commits: dict[str, str] = {}
        self.files: dict[str, dict[str, bytes]] = {}
        self.fault = ""
        self.asked: list[str] = []
        self.url = ""
        self.visibility: dict[str, str] = {}
        self.large: dict[str, bytes] = {}

    def push(self, name: str, files: dict[str, bytes]) -> str:
        """Commit `files` to a repository; returns the commit."""
        commit = hashlib.sha1(b"".join(files.values())).hexdigest()
        self.commits[name], self.files[commit] = commit, files
        return commit

    def take(self, method: str, path: str, token: str, body: bytes) -> Answer:
        """Answer a request that writes."""
        self.asked.append(path)
        if self.fault == "html":
            return PORTAL
        if self.fault and self.fault in path:
            return 400, {}, b"out of order"
        parts = unquote(path.partition("?")[0]).strip("/").split("/")
        if method == "PUT":
            self.large[parts[-1]] = body
            return 200, {}, b""
        if token not in (TOKEN, READER):
            return 401, {}, b'{"error": "Invalid username or password."}'
        if parts[:2] == ["api", "validate-yaml"]:
            return 200, {}, b'{"warnings": [], "errors": []}'
        if parts[:3] == ["api", "repos", "create"]:
            return self.create(token, **json.loads(body))
        if parts[-1] == "batch":
            asked = json.loads(body)["objects"]
            where = f"{self.url}/large/{{}}?signature=of-the-store"
            objects = [each | {"actions": {"upload": {"href": where.format(each["oid"])}}} for each in asked]
            return 200, {}, json.dumps({"objects": objects, "transfer": "basic"}).encode()
        name = "/".join(parts[2:4])
        if parts[4] == "preupload":
            files = [
                {"path": path, "uploadMode": "lfs" if path.endswith(LARGE) else "regular", "shouldIgnore": False}
                for path in (each["path"] for each in json.loads(body)["files"])
            ]
            return 200, {}, json.dumps({"files": files}).encode()
        return self.commit(name, [json.loads(line) for line in body.splitlines()])

    def create(self, token: str, organization: str, name: str, visibility: str, type: str = "model") -> Answer:
        """Make a repository."""
        full = f"{organization}/{name}"
        if token != TOKEN or organization != "someone":
            return 403, {}, b'{"error": "You do not have the rights to create a repository there."}'
        if full in self.commits:
            return 409, {}, b'{"error": "You already created this repo"}'
        self.push(full, {".gitattributes": b""})
        self.visibility[full] = visibility
        return 200, {}, json.dumps({"url": f"{self.url}/{full}"}).encode()

    def commit(self, name: str, rows: list[dict[str, Any]]) -> Answer:
        """Make a commit of its lines."""
        if rows[0]["value"].get("parentCommit", self.commits[name]) != self.commits[name]:
            return 412, {}, b'{"error": "A commit has happened since."}'
        files = dict(self.files[self.commits[name]])
        for key, value in ((row["key"], row["value"]) for row in rows[1:]):
            if key == "deletedFile":
                del files[value["path"]]
            else:
                large = key == "lfsFile"
                files[value["path"]] = self.large[value["oid"]] if large else base64.b64decode(value["content"])
        commit = self.push(name, files)
        return 200, {}, json.dumps({"commitUrl": f"{self.url}/{name}/commit/{commit}", "commitOid": commit}).encode()

    def answer(self, path: str) -> Answer:
        """Status, headers and body of a request."""
        self.asked.append(path)
        if self.fault == "429":
            return 429, {}, b"slow down"
        if self.fault == "html":
            return PORTAL
        parts = unquote(path.partition("?")[0]).strip("/").split("/")
        if parts[:2] in (["api", "models"], ["api", "datasets"]):
            name, rest = "/".join(parts[2:4]), parts[4:]
            if name not in self.commits:
                return 404, {"X-Error-Code": "RepoNotFound"}, b"{}"
            commit = self.commits[name] if rest[1:2] in ([], ["main"]) else rest[1]
            files = self.files[commit]
            if rest[:1] == ["tree"]:
                rows = list_tree(files, rest[2:], recursive="recursive=false" not in path)
                return (200, {}, json.dumps(rows).encode()) if rows else (404, {"X-Error-Code": "EntryNotFound"}, b"{}")
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


def list_tree(files: dict[str, bytes], folder: list[str], recursive: bool) -> list[dict[str, Any]]:
    """List the files below a folder, or its own files and folders."""
    rows = {}
    for name, data in files.items():
        parts = name.split("/")
        if parts[: len(folder)] == folder:
            below = parts if recursive else parts[: len(folder) + 1]
            kind = {"type": "file", "size": len(data)} if below == parts else {"type": "directory", "size": 0}
            rows["/".join(below)] = kind | {"path": "/".join(below), "oid": "0"}
    return list(rows.values())


@contextmanager
def serve_hub() -> Iterator[Hub]:
    """Serve a hub during the block."""
    hub = Hub()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send(*hub.answer(self.path))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            token = self.headers.get("Authorization", "").removeprefix("Bearer ")
            self.send(*hub.take(self.command, self.path, token, body))

        def send(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response(status)
            for key, value in ({"Content-Length": str(len(body))} | headers).items():
                self.send_header(key, value)
            self.end_headers()
            if self.command != "HEAD":
                with suppress(BrokenPipeError):  # the client did not wait
                    self.wfile.write(body)

        do_HEAD = do_GET  # noqa: N815
        do_PUT = do_POST  # noqa: N815

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
