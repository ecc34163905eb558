"""`spade web` as a process of its own."""

import http.client
import subprocess
import sys
from contextlib import contextmanager
from urllib.parse import urlsplit


class Served:
    """A page that is up at `address`."""

    def __init__(self, process, address):
        self.process, self.address = process, address
        self.host, self.path = urlsplit(address).netloc, urlsplit(address).path

    def ask(self, path, method="GET", whole=False):
        """The status, the headers and the text at a path below the token, or at a whole path."""
        connection = http.client.HTTPConnection(self.host, timeout=30)
        connection.request(method, path if whole else self.path + path)
        answer = connection.getresponse()
        found = answer.status, dict(answer.getheaders()), answer.read().decode()
        connection.close()
        return found

    def read(self, path=""):
        status, _, text = self.ask(path)
        assert status == 200, text
        return text


@contextmanager
def serve(*runs):
    """Serve a page about runs."""
    command = [sys.executable, "-m", "spade", "web", *map(str, runs), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            address = process.stdout.readline().strip()
            assert address.startswith("http://127.0.0.1:")
            yield Served(process, address)
        finally:
            process.terminate()
