"""`spade web` over HTTP: it knows its token, reads only, shows whatever a run says as text, and follows the run."""

import mmap
import os
import re
import shutil
import signal
import socket
import time
from html.parser import HTMLParser

import msgspec
import pytest

from replay.ledger.records import Environment
from replay.service.journal import Journal
from replay.store import open_store
from spade.app.cli import ExitCode
from spade.app.rundir import RunDir
from spade.app.web.server import MOST_READERS
from tests.app.report.test_page import EVIL, SETTINGS, TAGS, VOID, make_run, status
from tests.app.web.served import serve

MORE_TAGS = {
    "link",
    "script",
    "form",
    "label",
    "input",
    "select",
    "option",
    "button",
    "article",
    "fieldset",
    "legend",
    "h2",
}
PAGES = ("", "environments", "plays", "designs")


class Reader(HTMLParser):
    """Reads a page; `faults` are parts that could run or load anything, `links` its addresses, `text` its texts."""

    def __init__(self):
        super().__init__()
        self.faults, self.links, self.text, self.scripts = [], [], [], []

    def handle_starttag(self, tag, attributes):
        if tag not in TAGS | MORE_TAGS | VOID:
            self.faults.append(f"<{tag}>")
        for name, value in attributes:
            if (
                name.startswith("on")
                or name == "style"
                or (name in ("href", "action") and ":" in value.partition("?")[0])
            ):
                self.faults.append(f"{name}={value}")
            if name == "href":
                self.links.append(value)
            if name == "src":
                self.scripts.append(value)

    def handle_data(self, data):
        self.text.append(data)


def parse(page):
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.faults == []
    assert reader.scripts == ["web.js"]
    return reader


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    run = make_run(tmp_path_factory.mktemp("web") / "base-0")
    with open_store(run.store, "nosync") as store:
        first, second, *_ = store.scan("environments", Environment)
        second.parents = (first.id,)
        store.commit(store.encode([("environments", second.id, second)]))
    return run


@pytest.fixture(scope="module")
def served(runs):
    with serve(runs.path) as page:
        yield page


def test_every_page_is_sound_and_all_its_links_lead_somewhere(served):
    for page in PAGES:
        for link in parse(served.read(page)).links[:40]:
            if not link.startswith(("#", "?")):
                served.read(link.removeprefix("./"))


def test_the_overview_has_the_charts_of_the_report(served):
    text = served.read()
    assert "Held-out win rate by learner step: from 40 % at step 1 to 40 % (29 % to 52 %) at step 6." in text
    assert "ended without a stop: it was killed" in text
    assert "learner.lr: 1 → 2" in text


def test_an_environment_is_shown_with_its_program_and_family(served):
    links = [link for link in parse(served.read("environments")).links if link.startswith("environment?")]
    text = "".join(parse(served.read(links[-1])).text)
    assert "class LampEnv: ..." in text
    assert "pull the second lever" in text
    assert "the newest policy is missing" in text  # a simulated run publishes no files


def test_filters_and_orders_of_environments_hold(served):
    def rows(query):
        found = re.findall(
            r'<tr><th scope="row"><a href="environment\?id=(\w+)">\1</a></th>(.*)</tr>',
            served.read(f"environments?{query}"),
        )
        return [(id, re.findall("<td>(.*?)</td>", cells)) for id, cells in found]

    every = rows("")
    closed = rows("state=closed")
    assert 0 < len(closed) < len(every)
    assert {cells[2] for _, cells in closed} == {"closed"}
    assert rows(f"name={every[3][0]}") == [every[3]]
    skill = every[0][1][1].replace(" ", "+")
    assert {cells[1] for _, cells in rows(f"skill={skill}")} == {every[0][1][1]}
    rates = [
        int(cells[3].removesuffix(" %"))
        for _, cells in rows("rate_from=0.3&rate_to=0.8&sort=win_rate")
        if "." not in cells[3]
    ]
    assert rates == sorted(rates)
    assert rates
    assert min(rates) >= 30
    assert max(rates) <= 80
    assert rows("rate_from=0.9&rate_to=0.1") == []
    assert [id for id, _ in rows("sort=id")] == sorted(id for id, _ in every)
    assert rows("sort=nothing&page=99&since=x&regret_from=nan") == every
    parent = next(id for id, cells in every if cells[9] == "1")
    [(child, _)] = rows(f"parent={parent}")
    assert f'<a href="?id={parent}">{parent}</a>' in served.read(f"environment?id={child}")


def test_filters_of_plays_hold_and_a_play_has_its_advantage(served):
    def count(query):
        return int(re.search(r"of ([\d,]+)|none found", served.read(f"plays?{query}"))[1].replace(",", ""))

    every = count("")
    assert count("arm=hinted") + count("arm=unhinted") == every
    assert sum(count(f"outcome={word}") for word in ("won", "not+won", "void", "unfinished")) == every
    id = re.search(r"play\?id=(e\d+-\d+u\d+)", served.read("plays?arm=unhinted&outcome=won"))[1]
    assert f"{count(f'environment={id[:7]}')}" in served.read(f"plays?environment={id[:7]}")
    text = served.read(f"play?id={id}")
    assert re.search(r"<dt>advantage</dt><dd>([+-]\d|none, because)", text)
    assert "the newest policy is missing" in text


def test_rejected_designs_are_counted_and_found_by_stage(served):
    text = served.read("designs")
    stage = re.search(r"<option>(\w+)</option>", text)[1]
    assert re.search(r"\d+ of \d+ programs were rejected", text)
    link = re.search(r'href="(reject\?id=[^"]+)"', served.read(f"designs?stage={stage}"))[1]
    assert f"<dt>stage</dt><dd>{stage}</dd>" in served.read(link)


def test_without_the_token_nothing_is_answered(served):
    for path in ("/", "/environments", "/x/", served.path[:-2] + "/", "/%ff/", served.path.upper()):
        found, _, text = served.ask(path, whole=True)
        assert (found, text.count("\n")) == (403, 1)
    assert served.ask("", whole=False)[0] == 200
    found, headers, _ = served.ask(served.path[:-1], whole=True)
    assert (found, headers["location"]) == (308, served.path)


def test_the_page_reads_only_and_its_policy_forbids_every_other_script(served):
    assert served.ask("", "POST")[0] == 405
    for path in (*PAGES, "web.js"):
        _, headers, _ = served.ask(path)
        policy = headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self'; style-src 'self';" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
    for path, why in (("nope", "no such page"), ("?run=7", "this page has 1 runs"), ("play?id=%3Cb%3E", "&lt;b&gt;")):
        found, _, text = served.ask(path)
        assert found == 404
        assert why in text
    assert served.ask("plays?environment=" + "x" * 3000)[0] == 414
    assert "none found" in served.read("plays?environment=" + "x" * 1900)
    assert served.ask("environment?id=" + "x" * 1900)[0] == 404
    assert served.ask("reject?id=" + "x" * 1900)[0] == 404


def test_no_text_of_a_run_becomes_markup(tmp_path):
    run = make_run(tmp_path / "<b>evil&", EVIL)
    with serve(run.path) as page:
        seen = list[str]()
        pages = list(PAGES)
        for path in PAGES[1:]:
            pages += [link for link in parse(page.read(path)).links if "?id=" in link][:3]
        for path in pages:
            text = page.read(path)
            seen += parse(text).text
            assert "\x1b" not in text
            assert "<script>alert" not in text
        assert "<b>evil&" in "".join(seen)
        assert "</script><script>alert(1)</script>" in "".join(seen)


def test_ten_thousand_environments_are_pages(runs, tmp_path):
    run = RunDir(shutil.copytree(runs.path, tmp_path / "many"))
    with open_store(run.store, "nosync") as store:
        found = store.scan("environments", Environment)
        more = [
            msgspec.structs.replace(found[0], id=f"e{number:06d}", state="closed") for number in range(200_000, 210_000)
        ]
        store.commit(store.encode([("environments", each.id, each) for each in more]))
    with serve(run.path) as page:
        text = page.read("environments?name=e20")
        assert "1 to 100 of 10,000" in text
        assert text.count('<th scope="row">') == 100
        assert "9,901 to 10,000 of 10,000" in page.read("environments?name=e20&page=100")
        assert 'rel="next"' not in page.read("environments?name=e20&page=100")


def open_events(page):
    reader = socket.create_connection(page.host.split(":"), timeout=30)
    reader.sendall(f"GET {page.path}events HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    return reader


def read_until(reader, words):
    text = b""
    while words not in text:
        data = reader.recv(4096)
        assert data
        text += data


def test_readers_hear_of_changes_even_beside_one_that_reads_nothing(runs, tmp_path):
    run = RunDir(shutil.copytree(runs.path, tmp_path / "run"))
    with serve(run.path) as page, open_events(page) as idle, open_events(page) as reader:
        read_until(reader, b"data: 1\n")
        Journal(run.path).step(status(7), {})
        read_until(reader, b"data: 2\n")
        assert "at step 7" in page.read()
        page.process.send_signal(signal.SIGKILL)  # also leaves the run's store usable
        with open_store(run.store, "nosync") as store:
            store.commit([])
        assert idle.fileno() >= 0


def test_several_runs_are_arms_and_each_has_its_own_tables(runs, tmp_path):
    other = shutil.copytree(runs.path, tmp_path / "other")
    with serve(f"a={runs.path}", f"b={other}") as page:
        assert "A (a) from 40 % at step 1" in page.read()
        text = page.read("environments?run=1&state=closed")
        assert "Environments of other" in text
        assert '<a href="environment?run=1&amp;id=' in text


def test_wrong_runs_and_taken_ports_are_one_line(runs, tmp_path, spade):
    done = spade("web", str(tmp_path / "none"))
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "no run here" in done.stderr
    done = spade("web", str(runs.path), f"arm={runs.path}")
    assert (done.returncode, done.stderr) == (1, f"spade: {runs.path}: is given twice; give each run once\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = spade("web", str(runs.path), "--port", str(port))
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert f"--port {port}: cannot listen there (Address already in use)" in done.stderr


def test_a_run_that_has_just_begun_is_shown(tmp_path):
    run = RunDir(tmp_path / "bare")
    run.create(SETTINGS)
    with serve(run.path) as page:
        assert "the replay service has not written metrics.jsonl yet" in page.read()
        assert "none found" in page.read("environments")
        assert page.ask("plays")[0] == 404


@pytest.mark.parametrize("pages", [0, 1, 40])
def test_a_store_that_is_cut_short_ends_neither_the_page_nor_the_other_run(runs, tmp_path, pages):
    run = RunDir(shutil.copytree(runs.path, tmp_path / "cut"))
    data = run.store / "data.mdb"
    whole = data.read_bytes()
    with serve(run.path, runs.path) as page:
        page.read("plays")
        os.truncate(data, pages * mmap.PAGESIZE)
        status, _, text = page.ask("plays?lines=1")
        assert (status, f"{run.store}: " in text) == (404, True), text
        page.read("plays?run=1")
        with data.open("r+b") as file:
            file.write(whole)
        page.read("plays?lines=2")


def test_ctrl_c_ends_the_page_with_the_code_of_every_command(runs):
    with serve(runs.path) as page:
        page.read()
        page.process.send_signal(signal.SIGINT)
        assert page.process.wait(60) == ExitCode.INTERRUPTED


def test_more_readers_than_are_served_are_turned_away(served):
    readers = [open_events(served) for _ in range(MOST_READERS)]
    for reader in readers:
        read_until(reader, b"data: ")
    assert served.ask("events")[0] == 503
    served.read()
    for reader in readers:
        reader.close()
    end = time.monotonic() + 30
    while not is_taken(served):  # the server notices each that left
        assert time.monotonic() < end


def is_taken(page):
    with open_events(page) as reader:
        return b" 200 " in reader.recv(4096)
