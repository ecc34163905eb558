"""The sandbox against programs that attack it, and against the deaths of its own processes."""

import gc
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from actors.sandbox import open_sandbox
from actors.sandbox.budget import find_excess
from actors.sandbox.process import ChildProcess, read_processor_s
from actors.sandbox.wire import Step
from spade.config import Sandbox as Limits
from spade.errors import RunError
from spade.protocol import Faulted, Observed
from tests.actors.odd_programs import (
    DOOR,
    LIMITS,
    childless,
    children_of,
    dead,
    fault,
    offspring,
    play,
    program,
    until,
    zygotes_of,
    zygotes_started,
)


async def test_a_program_has_no_privileges_and_none_of_our_surroundings(own_sandbox, monkeypatch):
    monkeypatch.setenv("SECRET", "hush")
    there = (
        "import select\ndef there(fd):\n    poll = select.poll()\n    poll.register(fd)\n"
        "    return poll.poll(0) != [(fd, select.POLLNVAL)]"
    )
    shown = "text = str((os.geteuid() == 0, 'SECRET' in os.environ, [fd for fd in range(1024) if there(fd)]))"
    observed = await own_sandbox.open("e", program(module=there, reset=shown), 1, 3)
    # Standard streams and the channel; nothing else.
    assert observed.observation == "(False, False, [0, 1, 2, 24])"


async def test_a_tier_that_cannot_start_leaks_no_descriptor(monkeypatch):
    monkeypatch.setenv("PATH", "")  # without bubblewrap
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(RunError, match="bwrap"):
        async with open_sandbox(msgspec.structs.replace(LIMITS, tier="namespaces")):
            pass
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before


async def test_every_child_is_reaped_and_no_descriptor_leaks(own_sandbox):
    await zygotes_started(own_sandbox)
    zygotes = zygotes_of(os.getpid())
    await childless(zygotes)
    before = len(os.listdir("/proc/self/fd"))
    for index in range(20):
        await play(own_sandbox, DOOR, "?", "?", name=str(index % 3))
        await fault(own_sandbox, program(step="os._exit(1)"))
    for index in range(3):
        own_sandbox.close(str(index))
    assert own_sandbox.live == 0
    await childless(zygotes)
    assert len(os.listdir("/proc/self/fd")) == before
    assert zygotes_of(os.getpid()) == zygotes


async def test_a_cancelled_opening_leaves_no_child(own_sandbox):
    with trio.move_on_after(0.2) as scope:
        await own_sandbox.open("e", program(reset="while True:\n    pass"), 1, 3)
    assert scope.cancelled_caught
    await childless(zygotes_of(os.getpid()))


async def test_a_program_that_sleeps_through_its_share_of_the_clock_is_late(own_sandbox):
    sleeping = program(module="import time", step="time.sleep(float(action))")
    await own_sandbox.open("e", sleeping, 1, 9, clock_s=3.0)
    assert await own_sandbox.step("e", 1, "1.6") == Observed("on")
    late = await own_sandbox.step("e", 2, "1.6")  # neither of the two answers is late by itself
    assert late == Faulted("timeout", "the answers of this play took too long together, by the clock")
    assert late.environment_fault


async def test_an_episode_closed_in_mid_step_is_no_fault_of_its_program(own_sandbox):
    await own_sandbox.open("e", program(step="while True:\n    pass"), 1, 3)
    answers = []

    async def step() -> None:
        answers.append(await own_sandbox.step("e", 1, "go"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(step)
        await wait_all_tasks_blocked(0.05)
        own_sandbox.close("e")
    assert [(answer.kind, answer.environment_fault) for answer in answers] == [("infrastructure", False)]
    assert own_sandbox.faults == {"infrastructure": 1}


async def test_a_dead_zygote_is_an_infrastructure_fault_and_another_one_follows(own_sandbox):
    await own_sandbox.open("e", DOOR, 1, 3)
    (zygote,) = [each for each in zygotes_of(os.getpid()) if children_of(each)]
    children = set(children_of(zygote))
    os.kill(zygote, signal.SIGKILL)
    await dead(zygote, *children)  # before that a child may still answer
    ended = await own_sandbox.step("e", 1, "?")
    assert (ended.kind, ended.environment_fault) == ("infrastructure", False)
    assert isinstance(await own_sandbox.open("e", DOOR, 1, 3), Observed)


async def test_leaving_in_haste_is_silent(capfd):
    for _ in range(4):
        async with open_sandbox(LIMITS) as sandbox:
            await sandbox.open("e", DOOR, 1, 3)
            sandbox.close("e")
    assert capfd.readouterr() == ("", "")


HOST = """
import os, sys, trio, trio.testing
from actors.sandbox import open_sandbox
from spade.config import Sandbox

async def main():
    async with open_sandbox(Sandbox()) as sandbox, trio.open_nursery() as nursery:
        await sandbox.open("idle", sys.argv[1], 1, 3)
        await sandbox.open("busy", sys.argv[2], 1, 3)
        nursery.start_soon(sandbox.step, "busy", 1, "go")
        await trio.testing.wait_all_tasks_blocked()
        print("up", flush=True)
        await trio.sleep_forever()

trio.run(main)
"""


def test_a_killed_host_takes_everything_along():
    busy = program(step="while True:\n    pass")
    host = subprocess.Popen([sys.executable, "-c", HOST, DOOR, busy], stdout=subprocess.PIPE, cwd=os.getcwd())
    with host, host.stdout:
        try:
            assert host.stdout.readline() == b"up\n"
            family = offspring(host.pid)
            assert len(family) >= 3
        finally:
            host.kill()
    trio.run(dead, *family)


def test_a_host_killed_while_it_starts_leaves_nothing_behind():
    delays = [random.Random(seed).uniform(0.1, 0.5) for seed in range(8)]
    hosts = [subprocess.Popen([sys.executable, "-c", HOST, DOOR, DOOR], stdout=subprocess.PIPE) for _ in delays]
    for host, delay in zip(hosts, delays, strict=True):
        with host:
            time.sleep(delay)  # that the instant is any is the point
            host.kill()

    def zygotes() -> list[int]:
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with suppress(FileNotFoundError, ProcessLookupError):
                    words = (entry / "cmdline").read_bytes().split(b"\0")
                    if b"light" in words and any(str(host.pid).encode() in words for host in hosts):
                        found.append(int(entry.name))
        return found

    trio.run(until, lambda: not zygotes())


async def test_a_sandbox_that_cannot_raise_its_walls_refuses_to_work():
    with pytest.raises(RunError, match="no sandbox holds here"):
        async with open_sandbox(Limits(memory_bytes=2**63 - 1)):
            pytest.fail("it opened")


async def test_a_program_of_many_small_children_gets_no_larger_one_of_another_evicted():
    grown = {}
    for source, size in (*(("many", size) for size in (28, 29, 30, 31)), ("honest", 45)):
        process = ChildProcess(socket.socket())
        process.program = source
        grown[process] = size
    evicted = [(child.program, grown[child]) for child in find_excess(grown, 110)]
    assert evicted == [("many", 31), ("many", 30)]
    assert {*find_excess(grown, 0)} == {*grown}
    for process in grown:
        process.kill()


@given(st.lists(st.binary(max_size=64), max_size=3), st.booleans())
def test_no_bytes_on_the_channel_break_the_host(chunks, framed):
    """A child that answers a request with these bytes, in frames or not, and closes the channel."""
    ours, theirs = socket.socketpair()
    process = ChildProcess(ours)

    async def answer() -> None:
        await trio.lowlevel.wait_readable(theirs)
        theirs.sendall(b"".join(struct.pack("<I", len(chunk)) + chunk if framed else chunk for chunk in chunks))
        theirs.close()
        await wait_all_tasks_blocked()
        process.ended(Faulted("died", "it ended"))

    async def ask() -> object:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer)
            return await process.request(Step("go"), 60.0)

    ended = trio.run(ask)
    assert isinstance(ended, Faulted)
    assert ended.kind in ("protocol", "died")


async def test_a_program_that_ended_is_blamed_although_the_report_is_late(autojump_clock):
    """On a busy machine a zygote reports late. If the play were repeated, a program could end in its lost plays."""
    ours, theirs = socket.socketpair()
    process = ChildProcess(ours)

    async def end() -> None:
        await trio.lowlevel.wait_readable(theirs)
        theirs.close()
        await trio.sleep(10)
        process.ended(Faulted("died", "it ended"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(end)
        assert await process.request(Step("go"), 60.0) == Faulted("died", "it ended")


def test_the_time_of_a_process_that_has_gone_is_not_the_hosts():
    with pytest.raises(ProcessLookupError):
        read_processor_s(-1)


async def test_more_episodes_than_descriptors_are_refused_at_once():
    with pytest.raises(RunError, match=r"sandbox\.episodes: needs"):
        async with open_sandbox(Limits(episodes=10**9)):
            pytest.fail("it opened")


def test_root_of_a_container_with_one_user_has_a_sandbox_too_and_gives_up_what_it_may_do():
    alone = ["unshare", "--user", "--map-root-user"]
    if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode:
        pytest.skip("user namespaces are not allowed here")
    tries = """if True:
        import trio
        from actors.sandbox import open_sandbox
        from actors.sandbox.inside.walls import leave_root
        from spade.config import load

        async def hold():
            async with open_sandbox(load().sandbox):
                pass  # it was attacked, and holds

        trio.run(hold)
        leave_root()
        with open("/proc/self/status") as status:
            print([line.split()[1] for line in status if line.startswith(("CapInh", "CapPrm", "CapEff"))])
    """
    told = subprocess.run([*alone, sys.executable, "-c", tries], capture_output=True, text=True, check=False)
    assert told.stdout == f"{['0' * 16] * 3}\n", told.stderr
