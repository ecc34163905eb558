"""The suite in every tier this machine can give, as whoever runs the tests and as an unprivileged user."""

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from actors.sandbox import host, open_sandbox
from actors.sandbox.budget import WATCH_S, pause_s
from actors.sandbox.process import OVERTIME_S, read_processor_s
from actors.sandbox.tiers import ATTACKS, LADDER, TIERS
from spade.config import Sandbox as Limits
from spade.config import Tier
from spade.errors import RunError
from spade.processes.walls import list_folders_above
from spade.protocol import Faulted, Observed
from tests.actors.odd_programs import children_of, dead, play, program, until, zygotes_of
from tests.hostile.suite import PROGRAMS, complaints, share_of

ROOT = Path(__file__).parents[2]


@functools.cache
def holds(tier: Tier) -> str:
    """Return the reason why the tier does not hold on this machine, or "" if it holds."""

    async def attempt() -> None:
        async with open_sandbox(Limits(tier=tier)):
            pass

    try:
        trio.run(attempt)
    except RunError as error:
        return str(error)
    return ""


def passable() -> list[str]:
    """The command that lets an unprivileged user see the interpreter and this checkout below folders of root."""
    needed = [Path(sys.base_prefix), Path(sys.prefix), ROOT]
    closed = {
        next(above for above in reversed(path.parents) if not above.stat().st_mode & 0o001)
        for path in needed
        if any(not above.stat().st_mode & 0o001 for above in path.parents)
    }
    if not closed:
        return []
    if shutil.which("bwrap") is None:
        pytest.skip(f"{closed} cannot be passed by others, and there is no bubblewrap to open them")
    command = ["bwrap", "--dev-bind", "/", "/", "--cap-add", "ALL"]
    for folder in closed:
        command += ["--perms", "0755", "--tmpfs", str(folder)]
        for path in needed:
            if path.is_relative_to(folder):
                command += [*list_folders_above(path), "--ro-bind", str(path), str(path)]
    return command


# The usual tests run each program in one of these places, which has a share. The slow tests run all others there, and
# all programs in the other places.
USUAL = {("namespaces", "self"): "0/3", ("namespaces", "nobody"): "1/3", ("landlock", "self"): "2/3"}
PLACES = [(tier, user) for tier in LADDER for user in ("self", "nobody")]
SLOW = {place: f"not {USUAL[place]}" if place in USUAL else "0/1" for place in PLACES}
SUITES = [
    *(pytest.param(*place, share, id="-".join(place)) for place, share in USUAL.items()),
    *(
        pytest.param(*place, share, id="-".join((*place, "slow")), marks=pytest.mark.slow)
        for place, share in SLOW.items()
    ),
]


@pytest.mark.parametrize(("tier", "user", "share"), SUITES)
def test_the_suite_is_contained(tier, user, share):
    if holds(tier):
        pytest.skip(holds(tier))
    if user == "nobody" and os.geteuid() != 0:
        pytest.skip("it runs as an unprivileged user already")
    command = [sys.executable, "-P", "-B", "-m", "tests.hostile.suite", tier, "--share", share]
    if user == "nobody":
        command = [*passable(), *command, "--as-nobody"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd="/")
    assert (done.stdout.splitlines()[:-1], done.returncode) == ([], 0), done.stdout + done.stderr


def test_no_answer_of_a_player_forges_its_verdict():
    tier = next((tier for tier in LADDER if not holds(tier)), None)
    if tier is None:
        pytest.skip("no tier holds here")
    answers = [hostile for hostile in PROGRAMS if hostile.libraries]
    assert trio.run(complaints, TIERS[tier], answers, ("code",)) == []


def test_the_suite_is_large_and_names_are_unique():
    assert len({hostile.name for hostile in PROGRAMS}) == len(PROGRAMS) >= 421


def test_the_usual_shares_are_the_suite_and_each_place_runs_all_of_it():
    def names(*shares):
        return sorted(hostile.name for share in shares for hostile in share_of(PROGRAMS, share))

    everything = sorted(hostile.name for hostile in PROGRAMS)
    assert names(*USUAL.values()) == everything
    for place, share in SLOW.items():
        assert names(*filter(None, (USUAL.get(place), share))) == everything, place


TELLTALES = [
    ("namespaces", {"seccomp", "landlock"}, "namespaces", "see the name of a file"),
    ("namespaces", {"seccomp", "landlock"}, "namespaces", "see another's process"),
    ("namespaces", {"seccomp"}, "landlock", "list the root"),
    ("namespaces", set(), "seccomp", "a page to write and execute"),
    ("namespaces", set(), "seccomp", "a pair of sockets"),
    ("namespaces", set(), "seccomp", "call keyctl"),
    ("namespaces", set(), "seccomp", "a little memory that is shared"),
    ("namespaces", set(), "limits", "one great bytearray"),
    ("landlock", {"seccomp"}, "landlock", "read a secret"),
    ("landlock", {"seccomp"}, "landlock", "the project read through numpy"),
    ("landlock", set(), "seccomp", "send by UDP"),
    ("landlock", set(), "seccomp", "a pipe"),
    ("landlock", set(), "seccomp", "see another's process"),
    ("landlock", set(), "limits", "one great mapping"),
    ("seccomp", set(), "seccomp", "read a secret"),
    ("seccomp", set(), "seccomp", "the clock of a process"),
    ("seccomp", set(), "limits", "one great bytearray"),
]
"""Tier, layers that are missing, the one that is taken away too, and a program that does no harm when it gets through."""


@functools.cache
def told_of(layers, names):
    """The complaints over the programs of these names, each cut to its name."""
    chosen = [hostile for hostile in PROGRAMS if hostile.name in names]
    assert len(chosen) == len(names)
    return sorted(complaint.partition(":")[0] for complaint in trio.run(complaints, layers, chosen))


@pytest.mark.parametrize(("tier", "missing", "layer", "telltale"), TELLTALES)
def test_without_a_layer_the_suite_fails(tier, missing, layer, telltale):
    if holds(tier):
        pytest.skip(holds(tier))
    with_it = TIERS[tier] - missing
    assert told_of(with_it, tuple(name for *place, _, name in TELLTALES if place == [tier, missing])) == []
    alike = tuple(name for *place, name in TELLTALES if place == [tier, missing, layer])
    assert told_of(with_it - {layer}, alike) == sorted(alike)
    assert telltale in alike


async def test_an_unwalled_sandbox_must_be_asked_for():
    async with open_sandbox(Limits(tier="none")) as sandbox:
        assert sandbox.gauges()["sandbox_tier"] == 0
    async with open_sandbox(Limits()) as sandbox:
        assert sandbox.gauges()["sandbox_tier"] > 0


async def test_no_state_passes_between_episodes_or_programs():
    marks = "import builtins, json\nbuiltins.MARK = json.MARK = os.environ['MARK'] = 'here'\nrandom.seed(3)"
    looks = "import builtins, json"
    found = "str([hasattr(builtins, 'MARK'), hasattr(json, 'MARK'), 'MARK' in os.environ, random.random()])"
    looking = program(step=looks, result=f"{found}, 0.0, True, False, {{}}")
    async with open_sandbox(Limits()) as sandbox:
        before = (await play(sandbox, looking, "go"))[-1]
        for name in ("one", "two"):  # one of them still lives
            await play(sandbox, program(step=marks), "go", name=name)
        sandbox.close("one")
        assert before == (await play(sandbox, looking, "go"))[-1]
        assert before.observation.startswith("[False, False, False, ")


@pytest.mark.parametrize("memory", ["b'x' * (96 << 20)", "mmap.mmap(-1, 96 << 20)\nhoard[::4096] = bytes(96 << 8)"])
async def test_the_runner_as_a_whole_has_a_budget_of_memory(memory, monkeypatch):
    """Shared memory counts as any other memory if no wall refuses it."""
    hoard = program(module="import mmap", reset=f"global hoard\nhoard = {memory}")
    monkeypatch.setattr(host, "RUNNER_BYTES", 160 << 20)
    async with open_sandbox(Limits(tier="none")) as sandbox:
        assert isinstance(await sandbox.open("small", program(), 1, 99), Observed)
        assert isinstance(await sandbox.open("one", hoard, 1, 99), Observed)
        await sandbox.open("two", hoard, 1, 99)
        while not sandbox.gauges()["evictions"]:  # noqa: ASYNC110 - the sandbox tells nobody
            await trio.sleep(0.01)
        ends = [await sandbox.step(name, 1, "go") for name in ("one", "two")]
        (evicted,) = [end for end in ends if isinstance(end, Faulted)]
        assert (evicted.kind, evicted.environment_fault, evicted.evicted) == ("infrastructure", False, True)
        assert "over 160 MiB together" in evicted.detail
        assert isinstance(await sandbox.step("small", 1, "go"), Observed)


async def test_programs_that_grow_together_are_evicted_together(monkeypatch):
    """Four that hold 64 MiB each: three of them go in one look, and the budget holds again."""
    hoard = program(reset="global hoard\nhoard = b'x' * (64 << 20)")
    async with open_sandbox(Limits()) as sandbox:
        for name in "abcd":
            assert isinstance(await sandbox.open(name, hoard, 1, 99), Observed)
        await sandbox.open("small", program(), 1, 99)
        monkeypatch.setattr(host, "RUNNER_BYTES", 100 << 20)
        while not sandbox.gauges()["evictions"]:  # noqa: ASYNC110 - the sandbox tells nobody
            await trio.sleep(0.01)
        assert sandbox.gauges()["evictions"] == 3
        assert sandbox.gauges()["program_bytes"] < 100 << 20
        assert isinstance(await sandbox.step("small", 1, "go"), Observed)


BURNING = """import time
def burn(*a):
    end = time.process_time() + 30
    while time.process_time() < end: pass
"""


@pytest.mark.parametrize("asked", [True, False])
async def test_work_that_a_program_does_unasked_is_a_fault_of_its_own(asked, monkeypatch):
    if asked:  # before the watch would look
        monkeypatch.setattr("actors.sandbox.budget.WATCH_S", (60.0, 60.0))
    burning = program(module=BURNING, step="sys.modules['inside.child'].read = burn")
    async with open_sandbox(Limits(step_s=60.0)) as sandbox:
        await sandbox.open("e", burning, 1, 9)
        assert isinstance(await sandbox.step("e", 1, "go"), Observed)
        (child,) = [pid for zygote in zygotes_of(os.getpid()) for pid in children_of(zygote)]
        if asked:
            await until(lambda: read_processor_s(child) > 3 * OVERTIME_S)
        else:
            await dead(child)
        ended = await sandbox.step("e", 2, "go")
        assert (ended.kind, ended.environment_fault) == ("timeout", True)
        assert "after its answer" in ended.detail


async def test_an_idle_program_may_be_asked_late():
    async with open_sandbox(Limits()) as sandbox:
        await sandbox.open("e", program(), 1, 10**6)
        for turn in range(1, 400):
            assert isinstance(await sandbox.step("e", turn, "go"), Observed)
        await trio.sleep(2 * WATCH_S[1])
        assert isinstance(await sandbox.step("e", 400, "go"), Observed)


@pytest.fixture(params=LADDER)
def tier_that_holds(request):
    if holds(request.param):
        pytest.skip(holds(request.param))
    return request.param


async def test_every_zygote_is_attacked_before_it_serves(tier_that_holds, monkeypatch):
    """Also the second of a kind, and those of programs that name numpy. An attack that ends its child ends no other."""
    async with open_sandbox(Limits(tier=tier_that_holds)) as sandbox:
        monkeypatch.setitem(ATTACKS, "leave", "os._exit(1)")
        monkeypatch.setitem(ATTACKS, "answer", "pass")
        sandbox._attacks = ("leave", "read a file", "answer")
        for source in (program(), "import numpy\n" + program()):
            answer = await sandbox.child(source, 1)
            assert (answer.kind, "a program can answer" in answer.detail) == ("infrastructure", True)


def test_python_can_read_every_attack_of_the_start():
    """An attack that Python cannot read would count as refused."""
    for what, code in ATTACKS.items():
        compile(code, what, "exec")


def test_the_memory_is_looked_at_before_it_can_be_filled():
    assert [pause_s(room) for room in (1 << 40, 1 << 29, 1 << 28, 0, -1)] == [0.25, 0.125, 0.0625, 0.01, 0.01]
