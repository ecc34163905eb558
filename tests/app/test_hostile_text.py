"""No text of a model or a file makes a command print a character that steers a terminal, or a traceback."""

import ast
import json
import os
import re
import sys
from pathlib import Path

import msgspec
import pytest
import trio
import typer

from actors.suites import SUITES
from replay.ledger.records import Environment, PlayRecord, Reject, RunCounters, Source
from replay.store import open_store
from spade import config
from spade.app.cli import app
from spade.app.rundir import RunDir
from spade.estimates import ItemTally, compute_share
from spade.evaluations import Rules, Summary
from spade.protocol import Counts, Process, Status, Traffic, Wait
from spade.text import make_visible
from tests.peers import joined
from tests.replay.kept_world import keep_world
from tests.replay.replay_world import Pace

EVIL = "A\x1b[2J\x1b]0;t\x07\r\nspade: \x9b31m\u202e\u2066\u200b\u061c\x7f\U000e0041[red]b[/red] [link=x]y[/link]\t"
NAMED = EVIL.replace("/", "")  # what can be a file's name
SETTINGS = config.load("nano", ("learner.batch_sequences=8", "play.group_size=4", "bus.call_deadline_s=20"))
PRINTS_NOTHING_OF_THEIRS = {("doctor",), ("config", "ls"), ("nano", "build")}

# RUN is down, its store and status hostile; BAD has a hostile config; a path of EVIL is one.
DOWN = [
    ["status", "RUN"], ["status", "RUN", "--json"], ["status", "BAD"], ["why", "RUN"], ["stop", "RUN"], ["top", "RUN"],
    ["profile", "RUN"], ["profile", "RUN", "--for", EVIL], ["profile", f"none{NAMED}"],
    ["top", "RUN", "--svg", "DIR/view.svg"], ["top", "RUN", "--svg", f"DIR/{NAMED}.svg"],
    ["report", "RUN", f"{EVIL}=BAD", "-o", f"DIR/{NAMED}.html"], ["report", "RUN", f"DIR/none{NAMED}"],
    ["web", "BAD"], ["web", f"DIR/none{NAMED}"], ["web", "RUN", "--host", EVIL],
    ["up", "--run", "BAD"], ["up", "--run", f"DIR/{NAMED}", "--headless", "--for", "1s"], ["up", "DIR/evil.toml"],
    ["replay", "up", "--run", "BAD"], ["learner", "up", "BAD"],
    ["actors", "up", "DIR/evil.toml", "--connect", EVIL, "--agents", "1"], ["actors", "ls", "RUN"],
    ["actors", "scale", "RUN", EVIL], ["actors", "drain", "RUN", EVIL],
    ["env", "ls", "RUN"], ["env", "ls", "RUN", "--rejected"], ["env", "stats", "RUN"],
    ["env", "show", "RUN", "e000000"], ["env", "show", "RUN", "e000001-0u000"],
    ["env", "show", "RUN", EVIL], ["env", "show", "RUN", "\udcff"], ["env", "show", "RUN", "e" * 600],
    ["env", "check", f"DIR/{NAMED}.py", "DIR/raises.py", "DIR/\udcff.py", f"DIR/none{NAMED}"],
    ["env", "check", f"DIR/{NAMED}.py", "DIR/\udcff.py", "--json"],
    ["env", "play", "DIR/raises.py"], ["env", "play", "DIR/says.py"],
    ["env", "play", "DIR/tools.py", "--state"], ["env", "play", f"none{NAMED}"],
    ["env", "play", "e000000", "--run", "RUN", "--hint"], ["env", "play", "\udcff", "--run", "RUN"],
    ["env", "export", "RUN", f"DIR/{NAMED}rows", "--format", "jsonl"],
    ["env", "export", "RUN", f"DIR/{NAMED}files", "--format", "files"],
    ["env", "export", "RUN", f"DIR/{NAMED}package", "--format", "gymnasium"],
    ["pool", "import", f"verifiers:{NAMED}", "-o", f"DIR/{NAMED}pool"],
    ["env", "export", "RUN", "DIR/none", "--format", "files", "--skill", EVIL, "--win-rate", EVIL],
    ["env", "push", f"DIR/{NAMED}", "someone/thing"], ["env", "push", "DIR", EVIL],
    ["env", f"--{EVIL}"],
    ["track", "RUN", "--to", EVIL], ["track", f"none{NAMED}", "--to", "tensorboard"],
    ["replay", "stats", "RUN"], ["replay", "verify", "RUN"], ["replay", "lineage", "RUN", "1"],
    ["replay", "lineage", "RUN", "e000000"], ["replay", "lineage", "RUN", "e000001-0u000", "--json"],
    ["replay", "lineage", "RUN", "j000000"], ["replay", "lineage", "RUN", "\udcff"],
    ["replay", "batch", "RUN", "99"], ["replay", "batch", "RUN", "1"],
    ["replay", "export", "RUN", f"DIR/{NAMED}out"], ["replay", "compact", "RUN"],
    ["replay", "export", "RUN", f"DIR/{NAMED}said", "--format", "messages", "--return", "-1"],
    ["replay", "export", "RUN", f"DIR/{NAMED}skill", "--format", "messages", "--skill", EVIL],
    ["pool", "demonstrate", EVIL, f"DIR/{NAMED}shown", "--config", "nano"],
    ["pool", "demonstrate", "folder:DIR", f"DIR/{NAMED}shown", "--config", f"none{EVIL}"],
    ["replay", "import", "DIR/new", "RUN"], ["replay", "import", "RUN", "BAD"],
    ["cluster", "template", "slurm", "DIR/evil.toml"], ["cluster", "template", EVIL, "nano"],
    ["cluster", "template", "kubernetes", "nano", "--set", f"endpoint.key={EVIL}"],
    ["config", "show", "DIR/evil.toml"], ["config", "check", "DIR/evil.toml"], ["config", "check", f"none{EVIL}"],
    ["config", "diff", "nano", "DIR/evil.toml"], ["config", "diff", "RUN", f"none{EVIL}"],
    ["config", "check", "nano", "--set", f"model.path={EVIL}"],
    ["corpus", "show", f"DIR/{NAMED}.jsonl"], ["corpus", "show", f"DIR/{NAMED}.jsonl", "--index", "0"],
    ["corpus", "build", "DIR/spec.toml", "-o", f"DIR/{NAMED}.built"], ["corpus", "build", "DIR/evil.toml"],
    ["corpus", "push", f"DIR/{NAMED}.jsonl", EVIL], ["corpus", "push", f"DIR/none{NAMED}", "someone/thing"],
    ["model", "push", "RUN", EVIL], ["model", "push", f"DIR/none{NAMED}", "someone/thing"],
    ["model", "export", "RUN", f"DIR/{NAMED}gguf", "--gguf"],
    ["model", "export", "RUN", f"DIR/{NAMED}model"], ["model", "best", "RUN", "-o", f"DIR/{NAMED}best"],
    ["nano", "report", f"DIR/{NAMED}"], ["nano", "report", "RUN"],
    ["corpus", "show", f"DIR/{NAMED}"],
    ["pool", "ls", f"DIR/{NAMED}"], ["pool", "ls", "DIR"], ["pool", "check", "DIR"],
    ["pool", "import", "DIR", "-o", f"DIR/{NAMED}pool"], ["pool", "export", "RUN", "-o", f"DIR/{NAMED}exported"],
    ["pool", "make", f"none{EVIL}", "--count", "1", "-o", f"DIR/{NAMED}made"],
    ["eval", "run", f"none{EVIL}", "--suite", "nano"], ["eval", "RUN", "--suite", EVIL],
    ["eval", "RUN", "--suite", "nano", "--policy", EVIL], ["eval", "BAD", "--suite", "nano"],
    ["eval", "RUN", "--suite", "nano", "--data", EVIL], ["eval", "RUN", "--suite", "nano", "--policy", "step:7"],
    ["eval", "RUN", "--suite", "aime25", "--protocol", "short", "--policy", "start", "--data", f"aime25={NAMED}.csv"],
    ["eval", "average", "RUN", "--suite", EVIL], ["eval", "average", f"none{EVIL}", "--suite", "games"],
    ["model", "import", f"none{EVIL}", "DIR/imported"], ["model", "import", f"DIR/{NAMED}", "DIR/imported"],
    ["eval", "ls", "RUN"], ["eval", "show", "RUN"], ["eval", "show", "RUN", "--json"], ["eval", "ls", f"DIR/{NAMED}"],
    ["eval", "show", "RUN", EVIL], ["eval", "ls", "BAD"], ["eval", "setup", EVIL],
    ["experiment", "run", "DIR/evil.toml", "-o", f"DIR/{NAMED}grid"],
    ["experiment", "table", f"DIR/none{NAMED}", "--results", f"DIR/{NAMED}"],
    ["serve", f"none{EVIL}"], ["serve", "BAD"], ["serve", "RUN", "--set", f"serve.key={EVIL}"],
    ["keys", "new", "DIR/keys", EVIL], ["keys", "ls", f"DIR/{NAMED}"],
]  # fmt: skip
# Of a run that is up, whose peers have hostile names and tell hostile things.
LIVE = [
    ["status", "RUN"], ["status", "RUN", "--json"], ["why", "RUN"], ["top", "RUN", "--svg", "DIR/live.svg"],
    ["profile", "RUN", "--for", "1s"],
    ["actors", "ls", "RUN"], ["actors", "scale", "RUN", "agents=1", "--on", "nobody"],
    ["actors", "drain", "RUN", "nobody"], ["replay", "compact", "RUN"],
]  # fmt: skip


def commands(group=None, path=()):
    """The words of every command there is."""
    for name, command in (group or typer.main.get_command(app)).commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name)


def test_every_command_is_tried():
    tried = {tuple(words[:length]) for words in DOWN for length in (1, 2)}
    assert set(commands()) - tried == PRINTS_NOTHING_OF_THEIRS


def hostile(value, words):
    """Every text of the fields `words`, however deep, made hostile."""
    match value:
        case msgspec.Struct():
            fields = {name: getattr(value, name) for name in value.__struct_fields__}
            return msgspec.structs.replace(
                value,
                **{
                    name: EVIL + field if name in words and isinstance(field, str) else hostile(field, words)
                    for name, field in fields.items()
                },
            )
        case tuple() | list():
            return type(value)(hostile(item, words) for item in value)
    return value


def spoil(run: RunDir) -> None:
    """Hostile texts wherever a model, a document or a process wrote one."""
    tables = {"environments": Environment, "sources": Source, "rejects": Reject, "plays": PlayRecord}
    words = {"name", "document", "source", "hint", "first_observation", "reason", "stage", "completion", "fault"}
    with open_store(run.store, "nosync") as store:
        for table, kind in tables.items():
            decoder = msgspec.msgpack.Decoder(kind)
            rows = [(key, hostile(decoder.decode(data), words)) for key, data in store.each(table)]
            store.commit(store.encode([(table, key, row) for key, row in rows]))
        first = store.get("environments", "e000000", Environment)
        counters = store.get("meta", "counters", RunCounters)
        counters.newest_environment = counters.newest_skill = counters.newest_quarantined = EVIL
        huge = msgspec.structs.replace(first, name=EVIL + "x" * (1 << 20))
        store.commit(store.encode([("environments", "e000000", huge), ("meta", "counters", counters)]))
    process = Process(EVIL, "agent", 7, "failed", 3, EVIL, {EVIL: 1.5}, EVIL)
    wait = Wait(EVIL, EVIL, 2, 3.0, EVIL, EVIL)
    texts = dict.fromkeys(("newest_environment", "newest_skill", "newest_quarantined", "newest_finding"), EVIL)
    status = Status(
        run=EVIL, waiting_for=EVIL, counts=Counts(quarantined=1, audit_findings=1, **texts),
        traffic=Traffic(stalled_s=9.0), processes=(process,), waits=(wait,), wanted={EVIL: {"agent": 1}},
    )  # fmt: skip
    run.status_path.write_bytes(msgspec.json.encode(status))
    (run.path / "metrics.jsonl").write_text(EVIL)
    (run.path / f"{NAMED}.lock").write_text(EVIL)
    (run.path / "learner.lock").write_text("9" * 5_000)


PROGRAM = """class LampEnv:
    def __init__(self, max_turns=3): pass
    def reset(self, seed): return EVIL, {}
    def step(self, action): END
    def solution(self): return ["1"]
    def close(self): pass
"""


TOOLS = """class DeskEnv(ToolUseBaseEnv):
    def reset(self, seed):
        self._state = {EVIL: EVIL, "of": {EVIL}}
        self._user_messages = [EVIL]
        self._message_criteria = [lambda state: raising(EVIL)]
        text = {"type": "string", "enum": [EVIL], "default": EVIL, "description": EVIL}
        schema = {"type": "object", "properties": {"x": text}, "required": []}
        self._tools = {name: {"description": EVIL, "parameters": schema} for name in ("one", "two")}
        return EVIL, {}
    def tool_one(self, x=""): return EVIL
    def tool_two(self, x=""): raise ValueError(EVIL)
    def solution(self): return []

def raising(what): raise KeyError(what)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("hostile")
    run, bad = RunDir(made / "run"), RunDir(made / "bad")
    run.create(SETTINGS)
    keep_world(run.store, settings=SETTINGS, until=30.0, pace=Pace(failed_designs=0.3, faults=0.05))
    spoil(run)
    bad.path.mkdir()
    (made / "evil.toml").write_text(f"[model]\npath = {json.dumps(EVIL)}\n")
    bad.config_path.write_text((made / "evil.toml").read_text())
    raises = PROGRAM.replace("EVIL", repr(EVIL)).replace("END", f"raise ValueError({EVIL!r})")
    says = PROGRAM.replace("EVIL", repr(EVIL)).replace("END", f"return {EVIL!r}, 0.0, True, False, {{}}")
    (made / "raises.py").write_text(raises)
    (made / "tools.py").write_text(TOOLS.replace("EVIL", repr(EVIL)))
    (made / "says.py").write_text(says)
    (made / f"{NAMED}.jsonl").write_text(json.dumps({"text": EVIL, "id": EVIL, "field": EVIL, "title": EVIL}))
    source = f"[[source]]\nname = {json.dumps(EVIL)}\npath = {json.dumps(str(made / NAMED) + '.jsonl')}\n"
    (made / "spec.toml").write_text(source)
    (made / f"{NAMED}.py").write_text(raises + "\nLampEnv.__name__ = " + repr(EVIL))
    Path(os.fsdecode(bytes(made) + b"/\xff.py")).write_text(raises)
    keep_evaluation(run.path / "evaluations" / f"{NAMED}@short" / "0")
    return made


def keep_evaluation(folder):
    """An evaluation whose every text is hostile."""
    protocol = SUITES["nano"].protocol("short")
    hostile_rules = Rules(
        suite=EVIL, policy=EVIL, seed=0, protocol=msgspec.structs.replace(protocol, grading=EVIL), items=1,
        items_digest=EVIL, libraries={EVIL: EVIL}, data={EVIL: EVIL}, conditions={EVIL: EVIL},
    )  # fmt: skip
    folder.mkdir(parents=True)
    (folder / "protocol.toml").write_bytes(hostile_rules.toml())
    summary = Summary(
        scheduled=1, played=1, correct=0, headline=None, why=EVIL, categories={EVIL: compute_share([ItemTally(1, 0)])},
        errors={EVIL: 1}, read=0, sampled=0, means={EVIL: 0.0},
    )  # fmt: skip
    (folder / "summary.json").write_bytes(msgspec.json.encode(summary))


@pytest.fixture(scope="module")
def tried(spade, folder):
    """Runs commands one after the other; the words of each and what came of it."""
    places = {"RUN": str(folder / "run"), "BAD": str(folder / "bad")}

    def tried(cases):
        for case in cases:
            done = spade(*(places.get(word, word.replace("DIR/", f"{folder}/")) for word in case), cwd=folder)
            yield case, done.returncode, done.stdout, done.stderr

    return lambda cases: list(tried(cases))


def check(done):
    faults = []
    for words, code, output, errors in done:
        for text in (output, errors):
            faults += [f"{words}: prints {char!r}" for char in set(text) if not (char.isprintable() or char in "\n\t")]
        if code not in (0, 1, 2) or "Traceback" in errors:
            faults.append(f"{words}: {code} {errors[-300:]}")
        if code == 1 and errors.count("\n") > 1:
            faults.append(f"{words}: more than one line: {errors}")
        if max(map(len, output.split("\n"))) > 30_000:
            faults.append(f"{words}: a line of {max(map(len, output.split()))} characters")
    assert not faults, "\n".join(faults)


def test_no_command_prints_what_steers_a_terminal(folder, tried):
    done = tried(DOWN)
    check(done)
    said = {" ".join(words): (code, output) for words, code, output, _ in done}
    # They did print it, with its controls shown and its markup as it stands.
    for words in (
        "status RUN",
        "env ls RUN",
        "env ls RUN --rejected",
        "env show RUN e000000",
        "env play DIR/says.py",
        "env play DIR/tools.py --state",
    ):
        assert said[words][0] == 0
        assert r"\x1b[2J" in said[words][1]
    assert "[red]b[/red]" in said["env show RUN e000000"][1]
    assert json.loads(said["status RUN --json"][1])["newest_skill"] == EVIL
    for picture in folder.glob("*.svg"):
        drawn = picture.read_text().replace("\xa0", " ")
        assert make_visible(drawn) == drawn


async def test_nor_beside_a_run_that_is_up(folder, tried):
    run = RunDir(folder / "run")
    command = [sys.executable, "-m", "spade.app.cli", "replay", "up", "--run", str(run.path)]
    child = Process(EVIL, "agent", 7, "failed", 3, EVIL, {EVIL: 1.5}, EVIL)
    with (folder / "said").open("wb") as said:
        process = await trio.lowlevel.open_process(command, stdout=said, stderr=said)
        try:
            async with joined(run.replay_address, SETTINGS, "supervisor", EVIL) as client:
                await client.report_processes(EVIL, (child,), {"agent": 1})
                check(await trio.to_thread.run_sync(tried, LIVE))
            check(await trio.to_thread.run_sync(tried, [["stop", "RUN"]]))
            assert await process.wait() == 0
        finally:
            process.kill()
    check([(["replay", "up"], 0, (folder / "said").read_text(), "")])
    for log in run.logs.iterdir():
        check([([log.name], 0, log.read_text(), "")])


PRINTS = re.compile(r"print|(rich\.\w+\.)?Console|typer\.s?echo|sys\.std(out|err)\.write|logging\.basicConfig")


def test_only_printing_prints():
    """By construction: a command that forgets what its texts may hold cannot get them to a terminal."""
    root = Path(__file__).parents[2]
    own = {root / "spade" / name for name in ("app/printing.py", "app/screen/console.py", "processes/logs.py")}
    ours = [file for package in ("spade", "actors", "learner", "replay") for file in (root / package).rglob("*.py")]
    found = [
        f"{file.relative_to(root)}:{node.lineno}: {called}"
        for file in ours
        if file not in own and "sandbox/inside" not in str(file) and "pools/package" not in str(file)
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and PRINTS.fullmatch(called := ast.unparse(node.func))
    ]
    assert found == []
