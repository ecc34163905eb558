"""`spade eval --endpoint` of our own server gives what `spade eval` gives: the same tokens, through HTTP.

By token ids the records are the same; by chats, where the server renders the prompts, all but their digests are.
"""

import json
import subprocess
import sys

from tests.actors.gateway.clients import free_port
from tests.chaos.processes import Command
from tests.chaos.serving import until_ready

WORDS = ("--suite", "nano", "--protocol", "short", "--items", "8", "--json")


def measured(folder, *words):
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "spade.app.cli", "eval", *words, *WORDS],
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
        url = f"http://127.0.0.1:{port}/v1"
        there = measured(tmp_path / "there", "nano", "--endpoint", url)
        chats = measured(tmp_path / "chats", "--endpoint", url)
    finally:
        serving.abandon()
    here = measured(tmp_path / "here", "nano")
    assert there == here
    assert len(there) == 8
    assert {key: {**each, "prompt": ""} for key, each in chats.items()} == {
        key: {**each, "prompt": ""} for key, each in here.items()
    }


def test_a_server_is_compared_with_nothing(tmp_path):
    refused = subprocess.run(
        [sys.executable, "-m", "spade.app.cli", "eval", "nano", *WORDS, "--endpoint", "http://a/v1", "--against=start"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert refused.returncode == 1
    assert refused.stderr.startswith("spade: --endpoint: a server has one policy")


def test_a_server_that_is_not_there_is_one_line(tmp_path):
    refused = subprocess.run(
        [sys.executable, "-m", "spade.app.cli", "eval", *WORDS, "--endpoint", f"http://127.0.0.1:{free_port()}/v1"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert refused.returncode == 1
    assert refused.stderr.startswith("spade: --endpoint: http://127.0.0.1:")
    assert len(refused.stderr.splitlines()) == 1
