"""The cost of the live page's readers to a run: plays per second with ten readers, over those without.

    python -m tests.bench.web_readers [--rounds 8] [--seconds 25] [--readers 10] [--out web_readers.json]

A real nano run and a real `spade web` are up all the time. Intervals with and without readers take turns, and every
second round begins with the other. A reader follows the overview as a browser does: it hears of each new state and
fetches the page. `ratio` is the mean over the rounds with its standard error. Nano plays in bursts, so `server` is the
sharper figure: the processor time of `spade web` in the intervals with readers, as a share of all cores. A run that
uses all cores loses about this share.
"""

import http.client
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from statistics import fmean
from urllib.parse import urlsplit

import spade
from spade.app.door import StartedRun
from spade.estimates import compute_mean_and_error
from tests.bench.harness import command, conclude
from tests.bench.ingest import cpu_s

WARM_UP_S = 40.0


class Reader(threading.Thread):
    """A browser on the overview, until `close`."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self._place, self.pages = urlsplit(address), 0
        assert self._place.hostname is not None
        self._events, self._page = (
            http.client.HTTPConnection(self._place.hostname, self._place.port, timeout=60) for _ in range(2)
        )

    def run(self) -> None:
        self._events.request("GET", f"{self._place.path}events")
        answer = self._events.getresponse()
        while line := answer.readline():
            if line.startswith(b"data:"):
                self._page.request("GET", self._place.path)
                self.pages += self._page.getresponse().read() != b""

    def close(self) -> None:
        """End as a closed tab does."""
        if self._events.sock is not None:
            self._events.sock.shutdown(2)
        self.join(60)


@contextmanager
def read_by(count: int, address: str) -> Iterator[list[Reader]]:
    with ExitStack() as stack:
        readers = [Reader(address) for _ in range(count)]
        for each in readers:
            each.start()
            stack.callback(each.close)
        yield readers


def plays_per_s(run: StartedRun, seconds: float) -> float:
    before, began = run.status.counts.plays, time.monotonic()
    time.sleep(seconds)
    return (run.status.counts.plays - before) / (time.monotonic() - began)


def main() -> None:
    asked = command(__doc__, rounds=8, seconds=25.0, readers=10, out=None).parse_args()
    rates: dict[int, list[float]] = {0: [], asked.readers: []}
    shares, pages = [], 0
    with tempfile.TemporaryDirectory() as folder, spade.start("nano", run=f"{folder}/run") as run:
        time.sleep(WARM_UP_S)
        words = [sys.executable, "-m", "spade.app.cli", "web", str(run.path), "--port", "0"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            address = server.stdout.readline().strip()
            for turn in range(asked.rounds):
                for count in list(rates)[:: -1 if turn % 2 else 1]:
                    with read_by(count, address) as readers:
                        used = cpu_s(server.pid)
                        rates[count].append(plays_per_s(run, asked.seconds))
                        used = cpu_s(server.pid) - used
                    pages += sum(each.pages for each in readers)
                    shares += [used / asked.seconds / (os.cpu_count() or 1)] * (count > 0)
                print(
                    f"round {turn + 1} of {asked.rounds}: {rates[0][-1]:.1f}, {rates[asked.readers][-1]:.1f}",
                    file=sys.stderr,
                )
            server.terminate()
    ratio, error = compute_mean_and_error([two / one for one, two in zip(*rates.values(), strict=True)])
    figures = {
        "plays_per_s": {str(count): fmean(found) for count, found in rates.items()},
        "rounds": {str(count): found for count, found in rates.items()},
        "ratio": ratio,
        "error": error,
        "server": fmean(shares),
        "pages": pages,
    }
    table = "\n".join(
        [f"{f'plays/s, {count} readers':<28}{fmean(found):8.2f}" for count, found in rates.items()]
        + [
            f"{'ratio':<28}{ratio:8.3f} ± {error or 0:.3f} over {asked.rounds} rounds",
            f"{'server, share of all cores':<28}{fmean(shares):8.2%}",
            f"{'pages that were read':<28}{pages:8}",
        ]
    )
    conclude(asked.out, figures, table)


if __name__ == "__main__":
    main()
