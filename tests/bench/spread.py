"""New weights to one, two and four machines that do not see the learner's folder: the time to the last.

    python -m tests.bench.spread [--machines 1 2 4] [--parameters 100] [--rate 100] [--rounds 1] [--out spread.json]

Machines are namespaces of this kernel (`tests.ray.lab`, without Ray), each with a link of `--rate` Mbit/s in each
direction; the learner serves from one, each other one brings a copy to its memory, over CURVE. All of them share this
machine's processors, which have to be faster than the links for the figures to mean anything: see `busy`.
Sizes in millions of parameters, float32. `of the learner` is what it sent, in copies.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from spade.config import dump, load
from spade.transport import keys
from tests.bench.harness import columns, command, conclude, in_turns, medians
from tests.bench.swap import publish_two
from tests.ray.lab import NAMES, Lab, lab

HOST = "tests.bench.spread_host"
ROWS = {
    "s to the last": ("last_s", ".1f"),
    "s to the first": ("first_s", ".1f"),
    "of the learner, copies": ("copies", ".2f"),
    "busy, of all processors": ("busy", ".2f"),
}


def spread(count: int, rate: int, millions: int, _: int) -> dict[str, float]:
    """One set of weights to so many machines."""
    with tempfile.TemporaryDirectory() as folder, lab(Path(folder)) as machines:
        home = Path(folder)
        (weights, _), size = publish_two(millions, home / "weights")
        keys.create(home / "keys", ())
        (home / "config.toml").write_text(dump(load("nano", (f"bus.keys={home / 'keys'}", "bus.silence_s=120"))))
        names = NAMES[: count + 1]
        for name in names:
            power_on(machines, name, rate)
        addresses = [f"tcp://{machines.address('a')}:5555", *(f"tcp://{machines.address(name)}:5556" for name in names)]
        hosts = [
            machines.machines[name].start(sys.executable, "-m", HOST, str(place), str(home), weights.digest, *addresses)
            for place, name in enumerate(names)
        ]
        for host in hosts:
            told(host)
        began, idle = time.perf_counter(), idle_s()
        for host in hosts[1:]:
            print(file=host.stdin, flush=True)
        done = [json.loads(told(host)) for host in hosts[1:]]
        last = time.perf_counter() - began
        busy = 1 - (idle_s() - idle) / last / (os.cpu_count() or 1)
    sent = sum(fetched - passed for _, fetched, passed in done)
    return {"last_s": last, "first_s": min(each for each, *_ in done), "copies": sent / size, "busy": busy}


def power_on(machines: Lab, name: str, rate: int) -> None:
    """A machine behind a link of so many Mbit/s."""
    machine = machines.power_on(name)
    shape = f"tc qdisc add dev {{}} root tbf rate {rate}mbit burst 1mb latency 100ms"
    subprocess.run(machine.inside("sh", "-ec", shape.format("eth0")), check=True)
    machines.network(shape.format(f"to-{name}"))


def told(host: subprocess.Popen[str]) -> str:
    """The next line of a host that is one of its answers."""
    for line in host.stdout:
        if line.startswith("["):
            return line
    raise SystemExit("a host died")


def idle_s() -> float:
    """Seconds for which processors of this machine had nothing to do, since it was started."""
    return int(Path("/proc/stat").read_text().split()[4]) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = command(__doc__, machines=[1, 2, 4], parameters=100, rate=100, rounds=1, out=None)
    options = parser.parse_args()
    jobs = {str(count): partial(spread, count, options.rate, options.parameters) for count in options.machines}
    figures = {name: medians(rows) for name, rows in in_turns(jobs, options.rounds).items()}
    conclude(options.out, figures, columns(figures, ROWS))


if __name__ == "__main__":
    main()
