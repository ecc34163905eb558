"""The line to a harness, whose driver is a small one here: a real process, its HTTP on loopback, and its words."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from actors.suites.harnesses import worker as module
from actors.suites.harnesses.worker import HarnessError, ItemVerdict, start_process, start_worker
from spade.processes.walls import make_walled_prefix

FOLDER = Path(module.__file__).parent
DRIVER = """\
import json, os, sys, urllib.request
sys.path.insert(0, {folder!r})
from drivers.pipe import Item, HarnessVerdict, serve_orders

def ask(order, model):
    body = json.dumps({{"model": model, "messages": [{{"role": "user", "content": order.item.name}}]}}).encode()
    request = urllib.request.Request(order.url + "/chat/completions", body, {{"content-type": "application/json"}})
    return json.load(urllib.request.urlopen(request))["said"]

def play(order):
    print("words of a harness")
    if order.item.name == "breaks":
        raise ValueError("no such thing")
    if order.item.name == "ends":
        print("the last words", file=sys.stderr, flush=True)
        os._exit(3)
    answer = ask(order, "agent") + ask(order, "user")
    return HarnessVerdict(answer == "rightright", 0.5, answer)

serve_orders([Item("easy", "a", 1), Item("breaks", "b", set("abcdefghijklm")), Item("ends", "b", [3])], play)
"""


def driver(tmp_path):
    return start_process("small", [sys.executable, "-c", DRIVER.format(folder=str(FOLDER))], tmp_path / "log")


async def test_the_items_of_a_harness_are_the_same_at_each_start(tmp_path, monkeypatch):
    monkeypatch.setattr(module.environment, "find_python", lambda _: Path(sys.executable))
    monkeypatch.setattr(module, "_CODE", DRIVER.replace("{{", "{{{{").replace("}}", "}}}}"))
    starts = []
    for _ in range(2):
        async with start_worker("small", tmp_path / "log", "none") as process:
            starts.append(await process.items())
    assert starts[0] == starts[1]


async def test_a_harness_asks_and_judges(tmp_path):
    asked = []

    async def answer(who, body):
        asked.append((who, body["messages"][0]["content"]))
        return 200, json.dumps({"said": "right"}).encode()

    async with driver(tmp_path) as process:
        items = await process.items()
        assert [(item.name, item.category) for item in items] == [("easy", "a"), ("breaks", "b"), ("ends", "b")]
        assert len({item.digest for item in items}) == 3
        assert await process.play("easy", answer) == ItemVerdict(True, 0.5, "rightright", "")
        broken = await process.play("breaks", answer)
        assert (broken.correct, broken.error) == (False, "ValueError: no such thing")
        assert (await process.play("easy", answer)).correct
    assert asked == [("agent", "easy"), ("user", "easy")] * 2
    assert "words of a harness" in (tmp_path / "log").read_text()


async def test_a_server_that_fails_is_an_error_of_the_play(tmp_path):
    async def answer(*_):
        return 500, b"{}"

    async with driver(tmp_path) as process:
        assert (await process.play("easy", answer)).error.startswith("HTTPError: HTTP Error 500")


async def test_a_harness_that_ends_is_told_with_its_last_words(tmp_path):
    async with driver(tmp_path) as process:
        with pytest.raises(HarnessError, match=r"harness small: ended with 3: .*the last words"):
            await process.play("ends", None)


async def test_a_harness_that_hangs_instead_of_listing_its_items_is_told(tmp_path, monkeypatch):
    async with start_process(
        "small", ["/bin/sh", "-c", """echo '{"kind": "ready"}'; exec sleep 999"""], tmp_path / "log"
    ) as hung:
        monkeypatch.setattr(module, "READY_S", 0.05)
        with pytest.raises(HarnessError, match=r"harness small: does not answer within 0\.05 s"):
            await hung.items()


async def test_the_log_of_a_harness_has_a_bound(tmp_path):
    code = DRIVER.replace(
        "def play(order):", "def play(order):\n    import drivers.pipe\n    os.ftruncate(2, drivers.pipe._FILE + 1)"
    )
    async with start_process(
        "small", [sys.executable, "-c", code.format(folder=str(FOLDER))], tmp_path / "log"
    ) as process:
        assert (await process.play("easy", None)).error.startswith("OSError: [Errno 27] File too large")


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("x", "sent a message that cannot be read"), ('{"kind": "items"}', "sent 'items' instead of ready"),
        ('{"kind": "ready", "items": 3}', "sent a message that cannot be read"), ("", "ended with 0: its log is empty"),
        ('{"kind": "\\ud800"}', "sent a message that cannot be read"),
    ],
)  # fmt: skip
async def test_what_is_not_agreed_is_refused(tmp_path, said, told):
    with pytest.raises(HarnessError, match=told):
        async with start_process("small", ["/bin/echo", said] if said else ["/bin/true"], tmp_path / "log"):
            pass


def test_what_is_shown_may_lie_below_the_scratch_folder(tmp_path):
    shown, hidden = tmp_path / "shown", tmp_path / "hidden"
    for folder in (shown, hidden):
        folder.mkdir()
        (folder / "file").write_text("here")
    code = f"import os; print(os.listdir({str(tmp_path)!r}), open({str(shown / 'file')!r}).read())"
    python = [Path(sys.prefix), Path(sys.base_prefix), shown]
    try:
        command = [*make_walled_prefix(python, ["--tmpfs", "/tmp"]), sys.executable, "-I", "-c", code]
    except FileNotFoundError as error:
        pytest.skip(str(error))
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if "No permissions" in done.stderr or "not permitted" in done.stderr:
        pytest.skip(done.stderr)
    assert (done.stdout, done.stderr) == ("['shown'] here\n", "")
