"""`spade eval` with real processes: the same records however often it is killed, and a paired difference."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from spade.evaluations import find_evaluations
from tests.e2e.test_up import SOON_S

SMALL = ("--suite", "nano", "--protocol", "short", "--items", "6", "--json")


def start(folder, *words):
    return subprocess.Popen(
        [sys.executable, "-m", "spade.app.cli", "eval", *words],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def measured(folder, *words):
    process = start(folder, *words)
    out, told = process.communicate(timeout=SOON_S)
    assert process.returncode == 0, told
    assert "Traceback" not in told
    return json.loads(out)


def records(folder):
    """All records by item and sample, without their seconds."""
    (evaluation,) = find_evaluations(folder)
    lines = [json.loads(line) for line in (evaluation.folder / "records.jsonl").read_text().splitlines()]
    assert all(line.pop("seconds") >= 0 for line in lines)
    assert len({(line["item"], line["sample"]) for line in lines}) == len(lines)
    return {(line["item"], line["sample"]): line for line in lines}


def processes_of(folder):
    """The processes that name this folder on their command line."""
    named = os.fsencode(folder)
    lines = {}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if named in (line := path.read_bytes()):
                lines[int(path.parent.name)] = line
        except OSError:
            pass  # it ended meanwhile
    return lines


@pytest.mark.slow
def test_records_are_the_same_though_the_command_and_its_processes_are_killed(tmp_path):
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    undisturbed.mkdir()
    killed.mkdir()
    words = ("nano", "--samples", "8", *SMALL)
    (told,) = measured(undisturbed, *words)
    assert told["summary"]["played"] == 48
    expected = records(undisturbed)

    process = start(killed, *words)
    deadline, at = time.monotonic() + SOON_S, 0
    while at < 2 and time.monotonic() < deadline:
        files = list(killed.glob("evaluations/*/*/records.jsonl"))
        if files and len(files[0].read_bytes().splitlines()) > 16 * at:
            if at == 0:
                (engine,) = [pid for pid, line in processes_of(killed).items() if b'"role":"engine"' in line]
                os.kill(engine, signal.SIGKILL)
            else:
                process.send_signal(signal.SIGKILL)
            at += 1
        time.sleep(0.02)
    process.communicate(timeout=SOON_S)
    assert at == 2
    assert len(records_so_far(killed)) < 48
    measured(killed, *words)
    assert records(killed) == expected
    assert not processes_of(killed)
    assert not list(killed.glob("evaluations/processes/*"))


def records_so_far(folder):
    (file,) = folder.glob("evaluations/*/*/records.jsonl")
    return file.read_bytes().splitlines()


def test_an_evaluation_is_made_once_and_held_against_another(tmp_path):
    words = ("nano", *SMALL)
    (first,) = measured(tmp_path, *words)
    assert first["summary"]["headline"]["items"] == 6
    assert first["summary"]["errors"] == {}
    assert first["rules"]["conditions"]["dtype"] == "float64"
    before = records(tmp_path)
    (again,) = measured(tmp_path, *words, "--against", first["rules"]["policy"][:8])
    assert again["summary"] == first["summary"] == again["against"]["summary"]
    assert again["difference"]["mean"] == 0
    assert records(tmp_path) == before
    assert not (tmp_path / "evaluations" / "processes").exists()
    assert not list(tmp_path.glob("evaluations/weights/*"))
    shown = measured(
        tmp_path,
        "average",
        ".",
        *SMALL[:4],
        "--json",
        "--against",
        first["rules"]["policy"][:8],
        "--policy",
        first["rules"]["policy"][:8],
    )
    assert shown["share"]["mean"] == pytest.approx(first["summary"]["headline"]["mean"])
    assert (shown["columns"][0]["name"], shown["columns"][0]["passes"], shown["difference"]["mean"]) == ("nano", {}, 0)
    for words in (("ls",), ("show", ".", "nano")):
        process = start(tmp_path, *words)
        assert "nano@short" in process.communicate(timeout=SOON_S)[0]
        assert process.returncode == 0
