"""Standard streams that are closed, full, ASCII or not read, and files that never end: none is a traceback."""

import os
import shlex
import subprocess
import sys

import msgspec
import pytest

from spade.app.rundir import RunDir
from spade.config import load
from spade.protocol import Process, Status
from tests.actors.odd_programs import SEARCH

SPADE = f"{shlex.quote(sys.executable)} -m spade.app.cli"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run that was left with a status of more than a pipe holds."""
    made = RunDir(tmp_path_factory.mktemp("streams") / "run")
    made.create(load("nano"))
    processes = tuple(Process(f"agent-{index}", "agent", index, "ready", 0, "é" * 40) for index in range(2_000))
    made.status_path.write_bytes(msgspec.json.encode(Status(run="a run", processes=processes)))
    return made.path


def shell(line, cwd, **environment):
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", line.replace("spade ", f"{SPADE} ", 1)],
        capture_output=True, text=True, cwd=cwd, timeout=120, env={**os.environ, **environment},
    )  # fmt: skip


@pytest.mark.parametrize(("line", "code", "says"), [
    ("spade top RUN >&-", 1, "nothing is up"),
    ("spade status RUN >&-", 0, ""),
    ("spade status RUN <&- >&- 2>&-", 0, ""),
    ("spade status nothing 2>&-", 1, ""),
    ("spade status RUN >/dev/full", 1, "spade: No space left on device\n"),
    ("spade status nothing 2>/dev/full", 1, ""),
    ("ulimit -f 0; spade top RUN --svg view.svg", 1, "spade: view.svg: File too large\n"),
    ("ulimit -f 0; spade cluster template slurm nano -o job.sh", 1, "spade: job.sh: File too large\n"),
    ("spade cluster template slurm nano -o good.py", 1, "spade: good.py: exists already, perhaps with your edits; "),
    ("spade status RUN | head -1 >/dev/null", 1, ""),
    ("spade status RUN --json | head -1 >/dev/null", 1, ""),
    ("spade env check good.py | head -c 0", 1, ""),
    ("spade env play good.py <&-", 0, ""),
    ("printf '\\xff\\n1\\n' | spade env play good.py >/dev/null", 0, ""),
    ("spade status $'caf\\xe9'", 1, r"caf\udce9: no run here"),
])  # fmt: skip
def test_a_command_on_odd_streams_ends_without_a_traceback(run, tmp_path, line, code, says):
    (tmp_path / "good.py").write_text(SEARCH)
    check(shell(line.replace("RUN", str(run)), tmp_path), code, says)


@pytest.mark.parametrize(("words", "says"), [
    ("env check fifo", ""),
    ("env check /dev/zero endless .", ""),
    ("env play fifo", "spade: fifo: cannot be read as an environment program (is not a regular file)\n"),
    ("env play /dev/zero", "/dev/zero: cannot be read as an environment program (is not a regular file)\n"),
    ("env play endless", "spade: endless: is over 1048576 bytes\n"),
    ("env play loop", "loop: no such file"),
    ("config check fifo", "spade: fifo: is not a regular file\n"),
    ("config check nano --set design.corpus=fifo", "fifo: is not a regular file"),
    ("status loop", "no run here"),
    ("up --run loop --headless", "loop/origin.json: Too many levels of symbolic links"),
    ("up --run caf\udce9 --headless", "unprintable"),
])  # fmt: skip
def test_a_command_given_an_odd_file_ends_without_a_traceback(spade, tmp_path, words, says):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "endless").write_bytes(b"#" * ((1 << 20) + 1))
    (tmp_path / "loop").symlink_to("loop")
    check(spade(*words.split(), cwd=tmp_path), 1, says)


def check(done, code, says):
    assert "Traceback" not in done.stderr + done.stdout
    assert "Exception ignored" not in done.stderr
    assert done.returncode == code, done.stderr
    assert done.stderr.count("\n") <= 1
    assert says in done.stderr


def test_characters_that_a_stream_cannot_encode_are_escaped(run):
    done = shell(f"spade status {run}", run, PYTHONIOENCODING="ascii", PYTHONUTF8="0", LC_ALL="C")
    assert (done.returncode, done.stderr) == (0, "")
    assert r"\u2013 unhinted" in done.stdout


BEYOND = [
    ["config", "check", "nano", "--set", setting]
    for setting in (
        "actors.agents=1000000000", "actors.engines=257", f"learner.processes={10**30}", f"learner.processes={10**400}",
        f"learner.processes={'9' * 5_000}", f"run.skills={'[' * 3_000}", "actors.engines=65537", "learner.lr=1e999",
        "bus.bind=tcp://127.0.0.1:99999999", f"bus.bind=tcp://127.0.0.1:{'9' * 5_000}", "learner.lr=nan",
        "supervise.drain_s=1e300", "run.seed=99999999999999999999", 'model.path="a\\u0000b"', "model.path=\udcff",
    )
] + [
    ["up", "--for", "1e400h"], ["up", "--for", f"{'9' * 400}h"], ["up", "--for", "nan"], ["up", "--for", "-1"],
    ["replay", "batch", ".", "9" * 5_000], ["actors", "scale", ".", f"agents={'9' * 5_000}"],
    ["actors", "up", "--connect", "ipc://x", "--designers", "1000000000"], ["env", "play", "x", "--seed", f"{10**30}"],
    ["nano", "build", "out", "--minutes", "1e400"], ["nano", "build", "out", "--minutes", "nan"],
]  # fmt: skip


def test_a_number_beyond_all_sense_is_refused(spade, tmp_path):
    for words in BEYOND:
        done = spade(*words, cwd=tmp_path)
        assert done.returncode in (1, 2), words
        assert "Traceback" not in done.stderr, words


@pytest.mark.parametrize("name", ["status.json", "run.json", "config.toml", "replay.lock"])
def test_a_damaged_file_is_one_line(spade, tmp_path, name):
    RunDir(tmp_path).create(load("nano"))
    for damage in (b"\xff\xfe", b"{", b"[]", b"", b'"x"', b"[1e999]"):
        (tmp_path / name).write_bytes(damage)
        done = spade(*(["replay", "up", "--run"] if name == "run.json" else ["status"]), str(tmp_path))
        assert (done.returncode, done.stderr.count("\n")) == (1, 1), (damage, done.stderr)
