import os
import subprocess
import sys

import msgspec
import pytest

from spade.app.rundir import RunDir, RunRecord
from spade.config import load
from spade.errors import RunError


def test_a_run_keeps_its_resolved_config_and_versions(tmp_path):
    run = RunDir(tmp_path / "run")
    config = load("nano", ("learner.lr=1e-5",))
    run.create(config)
    assert run.config() == config
    assert '"torch"' in run.record_path.read_text()


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
        assert run.holders() == [holder.pid]
        with pytest.raises(RunError, match=str(holder.pid)), run.lock("replay"):
            pass
        with run.lock("learner"):
            assert run.holders() == sorted([os.getpid(), holder.pid])
        holder.kill()
    with run.lock("replay"):
        assert run.holders() == [os.getpid()]


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


def test_a_directory_without_a_run_is_refused_with_the_way_to_make_one(tmp_path):
    with pytest.raises(RunError, match="spade up"):
        RunDir(tmp_path).require()


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
