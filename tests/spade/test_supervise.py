"""Supervision of real processes: readiness, restarts, budgets, draining, and no child left behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from spade import config
from spade.errors import RunError
from spade.processes.supervise import Supervisor, supervise
from spade.protocol import Role
from tests.spade.roles import SOON_S, orders, until

ROLES: dict[Role, str] = dict.fromkeys(("replay", "agent", "tracker"), "tests.spade.roles")
SETTINGS = config.Supervise(restarts=2, drain_s=SOON_S)


def diary(run: Path) -> list[str]:
    return (run / "diary").read_text().splitlines()


def pids(run: Path) -> list[int]:
    return [int(line.split()[2]) for line in diary(run) if " started " in line]


def gone(pid: int) -> bool:
    """No such process, or one that is dead and not reaped by whoever inherited it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


async def test_a_process_is_started_ready_and_stopped(tmp_path: Path) -> None:
    async with supervise(SETTINGS, tmp_path / "logs", ROLES) as supervisor:
        await supervisor.add(orders(tmp_path, "agent-0"))
        (child,) = supervisor.processes()
        assert (child.name, child.role, child.state, child.restarts) == ("agent-0", "agent", "ready", 0)
        assert pids(tmp_path) == [child.pid]
        assert os.getpgid(child.pid) == child.pid  # Ctrl-C in the terminal does not reach it
        with pytest.raises(RunError, match="agent-0: runs already"):
            await supervisor.add(orders(tmp_path, "agent-0"))
        await supervisor.stop("agent-0")
        assert gone(child.pid)
        assert supervisor.processes()[0].state == "stopped"
        assert diary(tmp_path)[-1] == "agent-0 left"
        await supervisor.add(orders(tmp_path, "agent-0"))
        with pytest.raises(RunError, match="no process 'nobody' here; there are agent-0"):
            await supervisor.stop("nobody")
    assert [gone(pid) for pid in pids(tmp_path)] == [True, True]
    assert (tmp_path / "logs" / "agent-0.log").read_text().count("left in order") == 2


async def test_a_killed_process_comes_back(tmp_path: Path) -> None:
    async with supervise(SETTINGS, tmp_path / "logs", ROLES) as supervisor:
        await supervisor.add(orders(tmp_path, "agent-0"))
        first = supervisor.processes()[0].pid
        os.kill(first, signal.SIGKILL)
        await until(lambda: supervisor.processes()[0].restarts == 1 and supervisor.processes()[0].state == "ready")
        (child,) = supervisor.processes()
        assert child.pid != first
        assert child.detail == "killed by SIGKILL"
        assert gone(first)
    assert gone(child.pid)


async def test_a_process_that_maps_a_file_on_a_full_disk_says_so(tmp_path: Path) -> None:
    """A new store on a full disk ends the replay service by SIGBUS: LMDB maps its file of locks."""
    async with supervise(SETTINGS, tmp_path / "logs", ROLES) as supervisor:
        await supervisor.add(orders(tmp_path, "agent-0"))
        os.kill(supervisor.processes()[0].pid, signal.SIGBUS)
        await until(lambda: supervisor.processes()[0].restarts == 1)
        assert supervisor.processes()[0].detail == "killed by SIGBUS (a full disk, or a mapped file that was cut short)"


async def test_the_lives_of_a_name_are_numbered_over_restarts_and_new_additions(tmp_path: Path) -> None:
    def lives(name: str) -> list[str]:
        return [line.split()[-1] for line in diary(tmp_path) if line.startswith(f"{name} started")]

    async with supervise(SETTINGS, tmp_path / "logs", ROLES) as supervisor:
        await supervisor.add(orders(tmp_path, "replay", role="replay"))
        supervisor.number = 7
        await supervisor.add(orders(tmp_path, "agent-0"))
        os.kill(supervisor.processes()[1].pid, signal.SIGKILL)
        await until(lambda: supervisor.processes()[1].restarts == 1 and supervisor.processes()[1].state == "ready")
        await supervisor.stop("agent-0")
        await supervisor.add(orders(tmp_path, "agent-0"))
    assert (lives("replay"), lives("agent-0")) == (["0.0"], ["7.1", "7.2", "7.3"])


async def test_one_that_dies_beyond_its_budget_stops_everything(tmp_path: Path) -> None:
    with pytest.raises(RunError) as caught:  # noqa: PT012
        async with supervise(SETTINGS, tmp_path / "logs", ROLES) as supervisor:
            await supervisor.add(orders(tmp_path, "replay", role="replay"))
            await supervisor.add(orders(tmp_path, "agent-0", "crash"))
            await trio.sleep_forever()
    told = str(caught.value)
    assert told.startswith("agent-0: RuntimeError: the sky fell; gave up after 3 ends within 600 s. Last lines of")
    assert "\n" not in told
    assert caught.value.__notes__[0].splitlines()[-2:] == ["RuntimeError: the sky", "fell"]
    assert [(child.state, child.restarts) for child in supervisor.processes()] == [("stopped", 0), ("failed", 2)]
    assert len(pids(tmp_path)) == 4
    assert all(gone(pid) for pid in pids(tmp_path))


async def test_a_tracker_that_fails_stops_nothing(tmp_path: Path) -> None:
    async with supervise(SETTINGS, tmp_path / "logs", ROLES) as supervisor:
        await supervisor.add(orders(tmp_path, "agent-0"))
        await supervisor.add(orders(tmp_path, "tracker-late", "crash", role="tracker"))  # it was ready before it fails
        await supervisor.add(orders(tmp_path, "tracker-never", "misled", role="tracker"))
        await until(lambda: [child.state for child in supervisor.processes()] == ["ready", "failed", "failed"])
        assert supervisor.processes()[2].detail == "model.path: no such folder"


async def test_an_error_that_no_restart_can_mend_is_not_restarted(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"^agent-0: model\.path: no such folder$"):
        async with supervise(SETTINGS, tmp_path / "logs", ROLES) as supervisor:
            await supervisor.add(orders(tmp_path, "agent-0", "misled"))
    assert len(pids(tmp_path)) == 1


async def test_readiness_has_a_deadline(tmp_path: Path) -> None:
    settings = config.Supervise(restarts=0, ready_s=1.0)
    with pytest.raises(RunError, match=r"^agent-0: .* supervise\.ready_s = 1 s; .* 1 ends"):
        async with supervise(settings, tmp_path / "logs", ROLES) as supervisor:
            await supervisor.add(orders(tmp_path, "agent-0", "mute"))
    assert all(child.state == "failed" and gone(child.pid) for child in supervisor.processes())


async def test_a_process_that_was_never_ready_is_not_tried_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where three starts take longer than the window: else what hangs would be started for ever."""
    monkeypatch.setattr("spade.processes.supervise.RESTART_WINDOW_S", 0.001)
    settings = config.Supervise(restarts=20)
    with pytest.raises(RunError, match=r"^agent-0: .* 3 ends"):
        async with supervise(settings, tmp_path / "logs", ROLES) as supervisor:
            await supervisor.add(orders(tmp_path, "agent-0", "lonely"))


async def test_a_process_that_will_not_leave_is_killed_with_its_children(tmp_path: Path) -> None:
    settings = config.Supervise(drain_s=0.3)
    async with supervise(settings, tmp_path / "logs", ROLES) as supervisor, trio.open_nursery() as nursery:
        nursery.start_soon(supervisor.add, orders(tmp_path, "agent-0", "blocked"))
        nursery.start_soon(supervisor.add, orders(tmp_path, "agent-1", "brood"))
        await until(lambda: [child.state for child in supervisor.processes()] == ["ready", "ready"])
        (grandchild,) = [int(line.split()[1]) for line in diary(tmp_path) if line.split()[1].isdigit()]
        assert not gone(grandchild)
        await supervisor.stop("agent-0")
        await supervisor.stop("agent-1")
        assert all(gone(child.pid) for child in supervisor.processes())
        await until(lambda: gone(grandchild))  # killed, but reaped by init


async def test_the_grandchildren_of_a_killed_process_go_with_it(tmp_path: Path) -> None:
    async with supervise(SETTINGS, tmp_path / "logs", ROLES) as supervisor:
        await supervisor.add(orders(tmp_path, "agent-0", "brood"))
        (grandchild,) = [int(line.split()[1]) for line in diary(tmp_path) if line.split()[1].isdigit()]
        os.kill(supervisor.processes()[0].pid, signal.SIGKILL)
        await until(lambda: gone(grandchild))


async def test_a_process_can_be_stopped_before_it_is_ready(tmp_path: Path) -> None:
    async with supervise(SETTINGS, tmp_path / "logs", ROLES) as supervisor, trio.open_nursery() as nursery:
        nursery.start_soon(stop_when_started, supervisor, tmp_path)
        with pytest.raises(RunError, match="agent-0: stopped before"):
            await supervisor.add(orders(tmp_path, "agent-0", "mute"))
    assert all(gone(pid) for pid in pids(tmp_path))


async def stop_when_started(supervisor: Supervisor, run: Path) -> None:
    await until((run / "diary").exists)
    await supervisor.stop("agent-0")


async def test_cancellation_drains_the_served_before_their_service(tmp_path: Path) -> None:
    with trio.CancelScope() as outer:
        async with supervise(SETTINGS, tmp_path / "logs", ROLES) as supervisor:
            await supervisor.add(orders(tmp_path, "replay", role="replay"))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(supervisor.add, orders(tmp_path, "agent-0"))
                nursery.start_soon(supervisor.add, orders(tmp_path, "agent-1"))
            outer.cancel()
            await trio.sleep_forever()
    left = [line.split()[0] for line in diary(tmp_path) if line.endswith(" left")]
    assert sorted(left[:2]) == ["agent-0", "agent-1"]
    assert left[2:] == ["replay"]
    assert all(gone(pid) for pid in pids(tmp_path))


async def test_an_error_of_the_block_is_not_wrapped_and_drains(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):  # noqa: PT012
        async with supervise(SETTINGS, tmp_path / "logs", ROLES) as supervisor:
            await supervisor.add(orders(tmp_path, "agent-0"))
            _ = 1 / 0
    assert all(gone(pid) for pid in pids(tmp_path))


SUPERVISOR = """
import sys
from pathlib import Path
import trio
from spade import config
from spade.processes.entry import Launch
from spade.processes.supervise import supervise

async def main(run):
    async with supervise(config.Supervise(), Path(run, "logs"), {"agent": "tests.spade.roles"}) as supervisor:
        async with trio.open_nursery() as nursery:
            for name in ("steady", "blocked", "stubborn"):
                launch = Launch(name, "agent", f"{run}/{name}.toml", run, "ipc:///nowhere", bind=name)
                nursery.start_soon(supervisor.add, launch)
        print("up", flush=True)
        await trio.sleep_forever()

trio.run(main, sys.argv[1])
"""


async def test_no_child_outlives_a_killed_supervisor(tmp_path: Path) -> None:
    for behaviour, drain_s in (("steady", SOON_S), ("blocked", 1.0), ("stubborn", 1.0)):
        orders(tmp_path, "writes the config", behaviour, drain_s=drain_s)
    command = [sys.executable, "-c", SUPERVISOR, str(tmp_path)]
    process = await trio.lowlevel.open_process(command, stdout=subprocess.PIPE)
    async with process.stdout:
        assert await process.stdout.receive_some(2) == b"up"
        assert len(pids(tmp_path)) == 3
        assert not any(gone(pid) for pid in pids(tmp_path))
        process.kill()
        await process.wait()
    await until(lambda: all(gone(pid) for pid in pids(tmp_path)))
    assert "steady left" in diary(tmp_path)
