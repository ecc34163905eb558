"""`spade eval --endpoint` of our own server gives the records of `spade eval`: the same tokens, through HTTP."""

import json
import subprocess
import sys

from tests.actors.roles.gateway.clients import free_port
from tests.chaos.processes import Command
from tests.chaos.serving import until_ready

WORDS = ("--suite", "nano", "--protocol", "short", "--items", "8", "--json")


def measured(folder, *words):
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "spade.app.cli", "eval", "nano", *WORDS, *words],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (file,) = folder.glob("evaluations/*/*/records.jsonl")
    records = [json.loads(line) for line in file.read_text().splitlines()]
    return {(each["item"], each["sample"]): {**each, "seconds": 0} for each in records}


async def test_a_server_is_measured_by_the_same_protocol(tmp_path):
    port = free_port()
    words = ("serve", "nano", "--port", str(port), "--set", "engine.arithmetic=float64")
    serving = Command(("spade.app.cli", *words), tmp_path / "said", tmp_path)
    try:
        await until_ready(serving, port)
        there = measured(tmp_path / "there", "--endpoint", f"http://127.0.0.1:{port}/v1")
    finally:
        serving.abandon()
    assert there == measured(tmp_path / "here")
    assert len(there) == 8


def test_a_server_is_compared_with_nothing(tmp_path):
    refused = subprocess.run(
        [sys.executable, "-m", "spade.app.cli", "eval", "nano", *WORDS, "--endpoint", "http://a/v1", "--against=start"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert refused.returncode == 1
    assert refused.stderr.startswith("spade: --endpoint: a server has one policy")
