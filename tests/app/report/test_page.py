"""The whole page, of runs that rest in real stores: well formed, self-contained, and safe whatever their texts say."""

import base64
import hashlib
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser

import msgspec
import pytest

from actors.suites import SUITES
from replay.inspect.journal import read_journal
from replay.ledger.records import Environment, Reject, Source
from replay.service.journal import Journal
from replay.store import open_store
from spade.app.commands.look.report import report
from spade.app.rundir import RunDir
from spade.config import load
from spade.errors import ConfigError, RunError
from spade.evaluations import Rules
from spade.protocol import Counts, Diversity, Evaluation, Histories, Process, Recent, SkillFigures, Status, StepMetrics
from spade.text import make_visible
from tests.app.experiment.grids import keep_evaluation
from tests.replay.kept_world import keep_world
from tests.replay.replay_world import Pace

SETTINGS = load("nano", ("learner.batch_sequences=8", "play.group_size=4"))
EVIL = "</script><script>alert(1)</script>\"' onload=x <!-- ]]> {{ 7*7 }} \x1b[2J\u202e\u2066\u200b\x00&lt;"
LONG = EVIL + "x" * (1 << 20)
VOID = {"meta", "br"}
TAGS = {
    "html", "head", "title", "style", "body", "header", "nav", "main", "section", "footer", "h1", "h2", "h3", "h4",
    "h5", "p", "a", "b", "small", "code", "pre", "span", "div", "ul", "li", "dl", "dt", "dd", "details", "summary",
    "figure", "figcaption", "table", "caption", "thead", "tbody", "tr", "th", "td", "svg", "line", "text", "polyline",
    "polygon", "circle", "rect", *VOID,
}  # fmt: skip


class Reader(HTMLParser):
    """Reads a page; `faults` are what makes it ill-formed, or could make it do something."""

    def __init__(self):
        super().__init__()
        self.open, self.faults, self.text, self.ids, self.links = [], [], [], set(), set()

    def handle_starttag(self, tag, attributes):
        if tag not in TAGS and (tag, self.open[-1]) != ("title", "circle"):
            self.faults.append(f"<{tag}>")
        for name, value in attributes:
            if name.startswith("on") or name in ("src", "style") or (name == "href" and not value.startswith("#")):
                self.faults.append(f"{name}={value}")
            self.text.append(value or "")
        found = dict(attributes)
        self.ids.add(found.get("id"))
        self.links |= {found["href"]} if "href" in found else set()
        if tag == "svg" and not ("aria-label" in found or found.get("aria-hidden")):
            self.faults.append("a picture without a text")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.open.pop()

    def handle_endtag(self, tag):
        if self.open.pop() != tag:
            self.faults.append(f"</{tag}>")

    def handle_comment(self, data):
        self.faults.append(f"<!--{data}")

    def handle_data(self, data):
        self.text.append(data)


def read(page):
    """The text of a page, after its form was checked."""
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert (reader.faults, reader.open) == ([], [])
    assert {link[1:] for link in reader.links} <= reader.ids
    text = "\n".join(reader.text)
    assert make_visible(text) == text
    return text


def status(step, text=""):
    skills = {f"optimization{text}": SkillFigures(0.25, 0.5, 0.25, 1.0)}
    recent = Recent(
        win_rate_unhinted=0.4 + step / 100,
        win_rate_error=0.05,
        regret=0.1,
        regret_error=0.2,
        validity=0.9,
        skills=skills,
    )
    died = Process(f"agent-0{text}", "agent", 7, "ready", 2, f"exit code 3{text}")
    metrics = StepMetrics(loss=0.5, entropy=1.0)
    return Status(
        f"run{text}",
        9.0 * step,
        step,
        step,
        recent=recent,
        counts=Counts(plays=70),
        processes=(died,),
        step_metrics=metrics,
    )


def make_run(folder, text="", seed=1):
    """A run of a simulated half minute with six learner steps; `text` is in all that a model or a process says."""
    run = RunDir(folder)
    run.create(SETTINGS)
    keep_world(run.store, seed, 30.0, SETTINGS, Pace(failed_designs=0.3, faults=0.05))
    journal = Journal(run.path)
    journal.event("start", 0.0)
    for step in range(1, 7):
        journal.step(status(step, text), {})
        journal.evaluation(Evaluation(step, 1, step, 64, 0, 0.4, 0.05, 2.0), 9.0 * step)
    journal.diversity(Diversity(6, 0.5, 8, "tfidf", 1.0), 60.0)
    journal.event("resume", 60.0, {"learner.lr": ("1", f"2{text}")})
    if text:
        spoil(run, text)
    return run


def spoil(run, text):
    tables = ((Environment, "environments"), (Source, "sources"), (Reject, "rejects"))
    words = ("name", "skill", "document", "source", "hint", "first_observation", "stage", "reason", "completion")
    with open_store(run.store, "nosync") as store:
        for kind, table in tables:
            decoder = msgspec.msgpack.Decoder(kind)
            rows = [(key, decoder.decode(data)) for key, data in store.each(table)]
            for place, (_, row) in enumerate(rows):
                for word in set(words) & set(row.__struct_fields__):
                    setattr(row, word, (text if place % 4 else LONG) + getattr(row, word))
            store.commit(store.encode([(table, key, row) for key, row in rows]))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("report") / "base-0")


@pytest.fixture
def page(runs, tmp_path):
    report([str(runs.path)], tmp_path / "report.html")
    return (tmp_path / "report.html").read_text()


def test_the_page_of_a_run_has_all_its_parts(page):
    text = read(page)
    assert "Held-out win rate by learner step: from 40 % at step 1 to 40 % (29 % to 52 %) at step 6." in text
    assert "optimization: unhinted win rate" in text
    assert "pull the second lever" in text
    assert "class LampEnv: ..." in re.sub("<[^>]*>", "", page)  # its words are marked
    assert "highest regret" in text
    assert "the last time: exit code 3" in text
    assert "learner.lr: 1 → 2" in text
    assert re.search(r"\d+ of \d+ programs were rejected", text)
    assert "ended without a stop: it was killed" in text
    assert "Not measured here: Hinted win rate" in text
    assert "the newest policy is missing" in text  # a simulated run publishes no files


def test_the_page_begins_with_the_verdict_and_each_of_several_runs_has_its_own(runs, tmp_path):
    run = RunDir(shutil.copytree(runs.path, tmp_path / "judged"))
    held_out = tuple(Evaluation(step, 1, step, 64, 0, rate, 0.05, 2.0) for step, rate in ((0, 0.4), (6, 0.7)))
    last = msgspec.structs.replace(status(6), histories=Histories(evaluations=held_out))
    run.status_path.write_bytes(msgspec.json.encode(last))
    report([str(run.path)], tmp_path / "report.html")
    text = read((tmp_path / "report.html").read_text())
    verdict = "stopped, learned: held-out +0.30 since the start"
    assert verdict in text[: text.index("At a glance")]
    report([str(run.path), str(runs.path)], tmp_path / "report.html")
    text = read((tmp_path / "report.html").read_text())
    assert verdict in text[text.index("Rejected programs") :]
    assert text.count(verdict) == 1


def test_evaluations_on_two_suites_are_two_curves(runs, tmp_path):
    run = RunDir(shutil.copytree(runs.path, tmp_path / "other-suite"))
    journal = Journal(run.path)
    for step, won in ((6, 0.1), (9, 0.2)):
        journal.evaluation(Evaluation(step, 1, step, 64, 0, won, 0.1, 2.0, "reasoning-gym-nano"), 9.0 * step)
    assert [row.step for row in read_journal(run.path / "metrics.jsonl").evaluations] == [1, 2, 3, 4, 5, 6, 6, 9]
    report([str(run.path)], tmp_path / "report.html")
    text = read((tmp_path / "report.html").read_text())
    assert "Held-out win rate by learner step: from 40 % at step 1 to 40 % (29 % to 52 %) at step 6." in text
    other = "from 10 % at step 6 to 20 % (7.3 % to 44 %) at step 9."
    assert f"Held-out win rate on reasoning-gym-nano by learner step: {other}" in text
    glance = text[: text.index(" by learner step")].splitlines()
    assert "Held-out win rate" in glance
    assert "Held-out win rate on reasoning-gym-nano" in glance


def test_the_page_loads_nothing_and_runs_nothing_but_its_one_style_sheet(page):
    [style] = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"content=\"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'\"" in page
    assert not re.search(r"url\(|@import|https?:", page)


def test_no_text_of_a_run_becomes_markup_or_steers_a_reader(tmp_path):
    run = make_run(tmp_path / "<b>evil&", EVIL)
    arm = f"<i>{LONG}\udc80".replace("=", "").replace("\0", "")  # as a command line may hold it
    report([f"{arm}={run.path}"], tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    text = read(page)
    assert len(page) < 10 << 20
    for shown in ("<b>evil&", "<i></script>", "{{ 7*7 }}", r"\x1b[2J\u202e\u2066\u200b\x00", "&lt;"):
        assert shown in text


def test_a_run_is_counted_once(runs, tmp_path):
    with pytest.raises(ConfigError, match=rf"^{runs.path}: is given twice; give each run once$"):
        report([str(runs.path), f"arm={runs.path}"], tmp_path / "report.html")


def test_several_runs_are_arms_with_their_mean_and_a_page_of_many_is_small(runs, tmp_path):
    for number in range(21):
        shutil.copytree(runs.path, tmp_path / f"arm-{number}")
    words = [str(tmp_path / f"arm-{number}") for number in range(14)]
    words += [f"other={tmp_path / f'arm-{number}'}" for number in range(14, 21)]
    report(words, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    text = read(page)
    assert "A (arm) from 40 % at step 1" in text
    assert "B (other) from 40 % at step 1" in text
    assert len(page) < 3 << 20
    assert page.count('<details class="entry" id=') == 42


def test_what_is_missing_or_damaged_is_told_and_the_rest_is_shown(runs, tmp_path, capsys):
    bare, broken = RunDir(tmp_path / "bare"), tmp_path / "broken"
    bare.create(SETTINGS)
    shutil.copytree(runs.path, broken)
    (broken / "store" / "data.mdb").write_bytes(b"x" * 8192)
    (broken / "status.json").write_text("{")
    with (broken / "metrics.jsonl").open("a") as file:
        file.write('{"kind":"step","learner_step":"seven"}\n{"kind":"st')
    (broken / "run.json").write_text((broken / "run.json").read_text().replace('"spade": "', '"spade": "0.0.'))
    report([str(bare.path), str(broken)], tmp_path / "report.html")
    text = read((tmp_path / "report.html").read_text())
    for told in (
        "it has no metrics.jsonl, which its replay service makes when it starts",
        "left no status yet",
        "2 rows cannot be read",
        "it was started by SPADE 0.0.",
    ):
        assert told in text
    assert "data.mdb" in text
    assert "2 rows cannot be read" in capsys.readouterr().out
    assert "Held-out win rate by learner step" in text


def test_a_damaged_evaluation_does_not_hide_the_others(runs, tmp_path):
    run = RunDir(shutil.copytree(runs.path, tmp_path / "run"))
    short = SUITES["nano"].protocol("short")
    rules = [Rules(suite="nano", policy=one * 32, seed=0, protocol=short, items=1, items_digest="0") for one in "12"]
    damaged, _ = (keep_evaluation(run, each, 1) for each in rules)
    (damaged / "summary.json").write_text("{")
    report([str(run.path)], tmp_path / "report.html")
    text = read((tmp_path / "report.html").read_text())
    assert f"{damaged / 'summary.json'}: " in text
    assert "22222222" in text


def test_a_run_whose_win_rates_no_run_has_is_told(runs, tmp_path):
    run = RunDir(shutil.copytree(runs.path, tmp_path / "run"))
    decoder = msgspec.msgpack.Decoder(Environment)
    with open_store(run.store, "nosync") as store:
        rows = [(key, decoder.decode(data)) for key, data in store.each("environments")]
        for _, row in rows:
            if row.score is not None:
                row.score.win_rate = 1e308
        store.commit(store.encode([("environments", key, row) for key, row in rows]))
    report([str(run.path)], tmp_path / "report.html")
    text = read((tmp_path / "report.html").read_text())
    assert "Expected `float` <= 1.0" in text
    assert "Held-out win rate by learner step" in text


def test_evaluation_rows_of_the_smallest_errors_are_drawn(runs, tmp_path):
    run = RunDir(shutil.copytree(runs.path, tmp_path / "run"))
    with (run.path / "metrics.jsonl").open("a") as file:
        for step, won, error in ((7, 1e-200, 1.0), (8, 0.5, 1e-170)):
            row = {"kind": "evaluation", "step": step, "plays": 4, "win_rate": won, "error": error}
            file.write(f"{json.dumps(row)}\n")
    report([str(run.path)], tmp_path / "report.html")
    assert "to 50 % (15 % to 85 %) at step 8" in read((tmp_path / "report.html").read_text())


def test_a_run_whose_files_are_not_to_be_read_is_told_with_the_files(runs, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(runs.path, other)
    (other / "config.toml").write_text("[run]\nshape = 1")
    (other / "metrics.jsonl").unlink()
    (other / "metrics.jsonl").mkdir()
    report([str(runs.path), str(other)], tmp_path / "report.html")
    text = read((tmp_path / "report.html").read_text())
    assert "unknown setting run.shape" in text
    assert f"{other / 'metrics.jsonl'}: Is a directory" in text
    assert "Held-out win rate by learner step" in text


def test_an_evaluation_of_more_plays_than_can_be_is_no_row(tmp_path):
    row = '{"kind":"evaluation","step":1,"plays":1%s,"win_rate":0.5}\n'
    (tmp_path / "metrics.jsonl").write_text(row % "0" + row % ("0" * 400))
    rows = read_journal(tmp_path / "metrics.jsonl")
    assert ([each.plays for each in rows.evaluations], rows.unreadable) == ([10], 1)


def test_a_folder_without_a_run_is_one_error_and_no_page(tmp_path):
    with pytest.raises(RunError, match="no run here"):
        report([str(tmp_path)], tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


def test_of_a_step_that_was_done_again_the_last_row_counts(tmp_path):
    journal = Journal(tmp_path)
    for step in (1, 2, 3):
        journal.step(status(step), {})
    journal.step(msgspec.structs.replace(status(2), elapsed_s=99.0), {})
    rows = read_journal(tmp_path / "metrics.jsonl")
    assert [(row.learner_step, row.elapsed_s) for row in rows.steps] == [(1, 9.0), (2, 99.0), (3, 27.0)]
    assert rows.steps[0].skills["optimization"].win_rate_hinted == 0.5
    (tmp_path / "metrics.jsonl").write_bytes(
        b'{"kind":"event","event":"' + b"x" * (9 << 20) + b'"}\n{"kind":"event","event":"stop"}\n'
    )
    rows = read_journal(tmp_path / "metrics.jsonl")
    assert ([row.event for row in rows.events], rows.unreadable) == (["stop"], 1)


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (apt-get install chromium)")
# The page in a frame as wide as a phone: by how many pixels it is wider than the frame. A script may look into a file's
# frame only where Chromium is told so.
PHONE = """<iframe id="phone" src="report.html" width="390" height="800"></iframe><output id="found"></output>
<script>phone.onload = () => {
  const page = phone.contentDocument.documentElement
  found.textContent = `${page.querySelectorAll("svg").length > 0} ${page.scrollWidth - page.clientWidth}`
}</script>"""


def browse(folder, file, *options):
    """Open a file in headless Chromium; what it printed."""
    quiet = "--no-first-run", "--disable-background-networking", "--disable-component-update"
    command = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", *quiet, f"--user-data-dir={folder / 'profile'}",
        *options, f"file://{folder / file}",
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


@needs_chromium
def test_a_browser_draws_the_page_and_its_policy_refuses_nothing_of_it(page, tmp_path):
    (tmp_path / "report.html").write_text(page)
    picture = tmp_path / "page.png"
    drawn = "--enable-logging=stderr", "--window-size=500,1500", f"--screenshot={picture}"
    done = browse(tmp_path, "report.html", *drawn)
    assert "CONSOLE" not in done.stderr
    assert picture.stat().st_size > 30_000


@needs_chromium
def test_the_page_does_not_scroll_sideways_on_a_phone(page, tmp_path):
    (tmp_path / "report.html").write_text(page)
    (tmp_path / "phone.html").write_text(PHONE)
    done = browse(tmp_path, "phone.html", "--allow-file-access-from-files", "--virtual-time-budget=5000", "--dump-dom")
    assert '<output id="found">true 0</output>' in done.stdout
