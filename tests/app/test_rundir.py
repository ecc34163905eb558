import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import msgspec
import pytest
import trio

from actors.corpus import load_grounds
from spade.app.commands.stop import stop
from spade.app.rundir import RunDir, RunRecord
from spade.app.screen.observe import read_status
from spade.app.screen.reach import reach
from spade.config import load
from spade.errors import BusError, RunError
from spade.locks import describe_this_process
from spade.protocol import Status


def test_a_run_keeps_its_resolved_config_and_versions(tmp_path):
    run = RunDir(tmp_path / "run")
    config = load("nano", ("learner.lr=1e-4",))
    run.create(config)
    assert run.config() == config
    assert '"torch"' in run.record_path.read_text()


def test_a_resume_in_another_domain_or_with_other_settings_is_refused(tmp_path):
    file = tmp_path / "settings.txt"
    file.write_text("a lighthouse\n")
    run, tools = RunDir(tmp_path / "run"), load("nano", ("run.domain=tools",))
    other = load("nano", ("run.domain=tools", f"tools.settings={file}"))
    run.create(tools, load_grounds(tools).digest)
    with pytest.raises(RunError, match=r"was started with another \[run\], \[model\] or \[reward\]"):
        run.create(load("nano"))
    with pytest.raises(RunError, match=r"another corpus \(digest \w+, design\.corpus or tools\.settings has \w+ now\)"):
        run.create(other, load_grounds(other).digest)


def test_resuming_may_change_counts_but_not_the_meaning(tmp_path):
    run = RunDir(tmp_path / "run")
    run.create(load("nano"))
    run.create(load("nano", ("actors.agents=3",)))
    assert run.config().actors.agents == 3
    with pytest.raises(RunError, match="reward"):
        run.create(load("nano", ("reward.regret_scale=0.3",)))
    assert run.config().reward.regret_scale == 0.15


def test_the_same_run_twice_is_refused_and_the_lock_dies_with_its_holder(tmp_path):
    run = RunDir(tmp_path)
    code = (
        "import sys; from pathlib import Path; from spade.app.rundir import RunDir\n"
        "with RunDir(Path(sys.argv[1])).lock('replay'): print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout.readline() == b"held\n"
        assert [one.pid for one in run.holders().values()] == [holder.pid]
        with pytest.raises(RunError, match=str(holder.pid)), run.lock("replay"):
            pass
        with run.lock("learner"):
            assert {part: one.pid for part, one in run.holders().items()} == {
                "replay": holder.pid,
                "learner": os.getpid(),
            }
        holder.kill()
    with run.lock("replay"):
        assert [one.pid for one in run.holders().values()] == [os.getpid()]


def test_looking_does_not_keep_a_run_from_starting(tmp_path):
    code = (
        "import sys; from pathlib import Path; from spade.app.rundir import RunDir\n"
        "print('looking', flush=True)\n"
        "while True: RunDir(Path(sys.argv[1])).holders()"
    )
    run = RunDir(tmp_path)
    with run.lock("replay"):
        pass
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE) as looker:
        assert looker.stdout.readline() == b"looking\n"
        for _ in range(200):
            with run.lock("replay"):
                pass
        looker.kill()


def test_a_lock_that_is_no_regular_file_is_refused_by_its_name(tmp_path):
    os.mkfifo(tmp_path / "replay.lock")
    with pytest.raises(RunError, match=r"replay\.lock: .*not a regular file"), RunDir(tmp_path).lock("replay"):
        pass


def test_a_lock_that_is_none_of_the_runs_makes_it_neither_up_nor_stoppable(tmp_path):
    """Another process has locked the file, which names an innocent one."""
    run = RunDir(tmp_path / "run")
    run.create(load("nano"))
    with subprocess.Popen(["sleep", "600"]) as innocent:
        named = msgspec.structs.replace(describe_this_process(), pid=innocent.pid)
        for written in (
            msgspec.json.encode(named).decode(),
            f"{innocent.pid:<10}",
            "",
            "-1",
            "x",
            "9" * 100,
            f"{os.getpid()}\n",
        ):
            (run.path / "replay.lock").write_text(written)
            code = "import fcntl, sys; f = open(sys.argv[1]); fcntl.flock(f, 2); print('held', flush=True); input()"
            with subprocess.Popen(
                [sys.executable, "-c", code, str(run.path / "replay.lock")],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            ) as other:  # fmt: skip
                assert other.stdout.readline() == b"held\n"
                assert run.holders() == {}
                with (
                    pytest.raises(RunError, match=r"replay\.lock: is locked by"),
                    run.lock("replay"),
                ):
                    pass
                run.path.joinpath("status.json").write_bytes(msgspec.json.encode(Status(learner_step=7)))
                assert trio.run(read_status, reach(run)).learner_step == 7
                with pytest.raises(RunError, match="nothing is up"):
                    stop(run.path)
                run.tell(named, signal.SIGKILL)
                other.kill()
        assert innocent.poll() is None
        innocent.kill()


def test_a_run_of_another_host_is_not_taken_for_a_dead_one_and_a_process_with_its_pid_is_left_alone(tmp_path):
    """The file system of the run does not bring the locks of one host to another."""
    run = RunDir(tmp_path / "run")
    run.create(load("nano"))
    with subprocess.Popen(["sleep", "600"]) as innocent:
        holder = msgspec.structs.replace(
            describe_this_process(), pid=innocent.pid, host="node-b", boot="another", pids=4
        )
        (run.path / "replay.lock").write_bytes(msgspec.json.encode(holder))
        run.status_path.write_bytes(msgspec.json.encode(Status(learner_step=7)))
        line = (
            rf"^{run.path}: is held by pid {innocent.pid} of node-b\. .*`spade stop {run.path}`.*"
            r"delete replay\.lock in the run directory"
        )
        with pytest.raises(RunError, match=rf"{line}$"), run.lock("replay"):
            pass
        for use in (lambda: stop(run.path), lambda: trio.run(read_status, reach(run))):
            with pytest.raises(RunError, match=rf"{line} \(without bus\.bind its services listen only on that host\)$"):
                use()
        run.tell(holder, signal.SIGKILL)
        assert innocent.poll() is None
        innocent.kill()
    (run.path / "replay.lock").unlink()
    assert trio.run(read_status, reach(run)).learner_step == 7
    with run.lock("replay"):
        assert run.holders()["replay"].near


def test_a_run_directory_is_closed_to_others(tmp_path, caplog):
    run = RunDir(tmp_path / "runs" / "run")
    run.create(load("nano"))
    assert stat.S_IMODE(run.path.stat().st_mode) == 0o700
    run.path.chmod(0o755)
    run.create(load("nano"))
    assert stat.S_IMODE(run.path.stat().st_mode) == 0o700
    assert "was open to other users (mode 755) and is closed now" in caplog.text


as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a folder to another user")


@as_root
def test_a_run_directory_of_another_user_is_refused(tmp_path):
    run = RunDir(tmp_path / "run")
    run.path.mkdir()
    os.chown(run.path, 65_534, 65_534)
    for use in (lambda: run.create(load("nano")), lambda: run.lock("replay").__enter__()):
        with pytest.raises(RunError, match="belongs to another user"):
            use()
    assert list(run.path.iterdir()) == []


def open_to_others(folder):
    folder.mkdir()
    folder.chmod(0o777)


def elsewhere(folder):
    folder.with_name("else").mkdir(mode=0o700, exist_ok=True)
    folder.symlink_to(folder.with_name("else"))


def of_another(folder):
    folder.mkdir(mode=0o700)
    os.chown(folder, 65_534, 65_534)


@pytest.fixture
def short():
    """A temporary directory with a short path."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="s") as folder:
        yield folder


@pytest.mark.parametrize("made", [open_to_others, elsewhere, pytest.param(of_another, marks=as_root)])
def test_a_socket_folder_that_others_made_is_refused(tmp_path, monkeypatch, made, short):
    monkeypatch.setattr("tempfile.tempdir", short)
    deep = RunDir(tmp_path / ("x" * 60) / ("y" * 60))
    folder = Path(deep.socket("replay").removeprefix("ipc://")).parent
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert deep.socket("replay")
    folder.rmdir()
    made(folder)
    with pytest.raises(RunError, match="another user or is open to others"):
        deep.socket("replay")


def test_a_reader_without_write_permission_is_answered(tmp_path):
    """As of a file system that is mounted to be read; root may write all the same, so another user looks."""
    run = RunDir(tmp_path / "run")
    run.create(load("nano"))
    run.status_path.write_bytes(msgspec.json.encode(Status(learner_step=7)))
    (run.path / "replay.lock").write_text("1")
    (run.path / "replay.lock").chmod(0o400)
    run.path.chmod(0o500)
    assert run.holders() == {}
    assert trio.run(read_status, reach(run)).learner_step == 7
    run.path.chmod(0o700)


def test_a_directory_without_a_run_is_refused_with_the_way_to_make_one(tmp_path):
    with pytest.raises(RunError, match="spade up"):
        RunDir(tmp_path).require()


def test_all_commands_find_the_socket_where_the_command_that_serves_it_wrote_it_down(tmp_path, monkeypatch, short):
    deep = RunDir(tmp_path / ("x" * 60) / ("y" * 60))
    monkeypatch.setattr("tempfile.tempdir", short)
    deep.create(load("nano"))
    address, learner = deep.replay_address, deep.socket("learner")
    assert address.startswith(f"ipc://{short}/")
    monkeypatch.setattr("tempfile.tempdir", "/tmp")
    elsewhere = RunDir(deep.path)
    assert reach(elsewhere).address == elsewhere.replay_address == address
    assert elsewhere.socket("learner") == learner
    elsewhere.reopen(load("nano", ("learner.lr=1e-4",)))  # as `spade learner up` does
    assert elsewhere.replay_address == address
    assert elsewhere.config().learner.lr == 1e-4
    elsewhere.create(load("nano"))  # the next command that serves it chooses anew
    assert elsewhere.replay_address.startswith("ipc:///tmp/spade-")


def test_the_last_process_of_a_run_leaves_no_sockets_in_a_temporary_directory(tmp_path, monkeypatch, short):
    monkeypatch.setattr("tempfile.tempdir", short)
    deep = RunDir(tmp_path / ("x" * 60) / ("y" * 60))
    with deep.lock("replay"):
        deep.create(load("nano"))
        (deep.socket_folder() / "engine-0.sock").touch()  # of a process that was killed
        with RunDir(deep.path).lock("learner"):
            pass
        assert os.listdir(deep.socket_folder()) == ["engine-0.sock"]
    assert os.listdir(short) == []
    with deep.lock("replay"):
        deep.create(load("nano"))
        assert deep.socket_folder().is_dir()


def test_a_command_that_ends_deletes_no_sockets_of_a_command_that_begins(tmp_path, monkeypatch, short):
    monkeypatch.setattr("tempfile.tempdir", short)
    deep = RunDir(tmp_path / ("x" * 60) / ("y" * 60))
    deep.create(load("nano"))
    discard, made, seen = RunDir.discard_temporary_sockets, threading.Event(), threading.Event()

    def begin():
        with RunDir(deep.path).lock("replay"):
            (deep.socket_folder() / "replay.sock").touch()
            made.set()
            seen.wait(60)

    beginner = threading.Thread(target=begin)

    def discard_late(self):
        if not beginner.is_alive():
            beginner.start()
            made.wait(0.5)  # the other command begins between the look at the holders and the deletion
        discard(self)

    monkeypatch.setattr(RunDir, "discard_temporary_sockets", discard_late)
    try:
        with deep.lock("learner"):
            pass
        assert made.wait(60)
        assert os.listdir(deep.socket_folder()) == ["replay.sock"]
    finally:
        seen.set()
        beginner.join()


def test_a_lock_of_a_run_that_was_deleted_meanwhile_ends(tmp_path):
    run = RunDir(tmp_path / "run")
    with run.lock("replay"):
        shutil.rmtree(run.path)


def test_a_moved_run_is_found():
    with tempfile.TemporaryDirectory(dir="/tmp") as short:  # else its sockets lie elsewhere
        RunDir(Path(short) / "a").create(load("nano"))
        (Path(short) / "a").rename(Path(short) / "b")
        assert RunDir(Path(short) / "b").replay_address == f"ipc://{short}/b/bus/replay.sock"


def test_a_long_temporary_directory_is_passed_over(tmp_path, monkeypatch):
    long = tmp_path / ("t" * 60)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    deep = RunDir(tmp_path / ("x" * 60) / ("y" * 60))
    folder = deep.socket_folder()
    assert folder.parent == Path("/tmp")
    folder.rmdir()
    monkeypatch.setattr("spade.processes.sockets._ALWAYS_SHORT", ("/nowhere",))
    with pytest.raises(RunError, match="set TMPDIR"):
        deep.socket_folder()


def test_a_config_that_was_edited_is_refused_at_a_resume(tmp_path):
    run = RunDir(tmp_path / "run")
    run.create(load("nano"))
    edited = run.config_path.read_text().replace("thinking = false", "thinking = true")
    run.config_path.write_text(edited)
    for resume in (run.create, run.reopen):
        with pytest.raises(RunError, match="was changed since"):
            resume(run.config())


def test_long_paths_still_give_sockets_that_bind(tmp_path):
    deep = RunDir(tmp_path / ("x" * 60) / ("y" * 60))
    address = deep.socket("env-runner-0")
    assert len(address.removeprefix("ipc://")) <= 107
    assert address == RunDir(deep.path).socket("env-runner-0")


def test_a_resume_elsewhere_says_so(tmp_path):
    run = RunDir(tmp_path / "run")
    run.create(load("nano"))
    first = msgspec.json.decode(run.record_path.read_bytes(), type=RunRecord)
    assert first.replay == run.replay_address == run.socket("replay")
    run.create(load("nano", ("bus.bind=tcp://127.0.0.1:5555",)))
    again = msgspec.json.decode(run.record_path.read_bytes(), type=RunRecord)
    assert again == msgspec.structs.replace(first, replay="tcp://127.0.0.1:5555")
    assert run.replay_address == "tcp://127.0.0.1:5555"


def test_a_status_of_a_service_that_is_frozen_gives_up_long_before_the_deadline_of_calls(monkeypatch):
    monkeypatch.setattr("spade.app.screen.observe.CONNECT_S", 0.2)
    with tempfile.TemporaryDirectory(dir="/tmp") as short, socket.socket(socket.AF_UNIX) as frozen:
        run = RunDir(Path(short) / "a")
        run.create(load("nano"))
        frozen.bind(run.replay_address.removeprefix("ipc://"))
        frozen.listen()
        with run.lock("replay"), pytest.raises(BusError, match=r"no answer within 0\.2 s"):
            trio.run(read_status, reach(run))
