import shutil
from pathlib import Path

import pytest

from spade.app.rundir import RunDir
from spade.app.supervisor import store_place
from spade.app.supervisor.store_place import settle_store
from spade.config import load
from spade.disk import find_file_system
from spade.errors import ConfigError, RunError


@pytest.fixture
def run(tmp_path):
    (tmp_path / "run").mkdir()
    return RunDir(tmp_path / "run")


def elsewhere(folder):
    return load("nano", (f"replay.store={folder}",))


def test_a_store_elsewhere_is_reached_through_the_run_directory(run, tmp_path):
    settle_store(run, elsewhere(tmp_path / "volume/run"))
    (run.store / "data.mdb").touch()
    assert (tmp_path / "volume/run/data.mdb").exists()
    assert (tmp_path / "volume/run").stat().st_mode & 0o777 == 0o700
    settle_store(run, elsewhere(tmp_path / "volume/run"))
    with pytest.raises(RunError, match=r"its store is at .*volume/run; give --set replay\.store=.*volume/run$"):
        settle_store(run, load())


def test_a_volume_that_is_mounted_elsewhere_is_followed_and_a_lost_one_is_no_empty_store(run, tmp_path):
    settle_store(run, elsewhere(tmp_path / "one"))
    settle_store(run, elsewhere(tmp_path / "one"))  # the first command ended before it had a store
    (run.store / "data.mdb").touch()
    with pytest.raises(RunError, match=r"its store was at .*one and is not in .*two;"):
        settle_store(run, elsewhere(tmp_path / "two"))
    shutil.move(tmp_path / "one", tmp_path / "two")
    settle_store(run, elsewhere(tmp_path / "two"))
    assert (run.store / "data.mdb").exists()
    shutil.rmtree(tmp_path / "two")
    run.status_path.touch()
    with pytest.raises(RunError, match=r"delete .* an empty store"):
        settle_store(run, elsewhere(tmp_path / "two"))


def test_the_store_of_another_run_is_refused(run, tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "one/data.mdb").touch()
    with pytest.raises(RunError, match=r"one .*has the store of another run"):
        settle_store(run, elsewhere(tmp_path / "one"))
    assert not run.store.is_symlink()
    run.metrics_path.touch()  # it ran before, and its store was moved there
    settle_store(run, elsewhere(tmp_path / "one"))
    assert (run.store / "data.mdb").exists()


def test_a_folder_that_is_reached_by_a_link_may_hold_the_store(run, tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    settle_store(run, elsewhere(tmp_path / "link/run"))
    settle_store(run, elsewhere(tmp_path / "link/run"))
    assert run.store.resolve() == tmp_path / "disk/run"
    run.store.unlink()
    settle_store(run, elsewhere(tmp_path / "link"))
    assert run.store.resolve() == tmp_path / "disk"


@pytest.mark.parametrize("inside", ["", "store", "weights/x"])
def test_the_run_directory_is_no_other_place(run, inside):
    with pytest.raises(ConfigError, match=r"^replay\.store: .* lies in the run"):
        settle_store(run, elsewhere(run.path / inside))
    assert not run.store.exists()


def test_a_store_that_lies_in_the_run_directory_is_not_left_behind(run, tmp_path):
    run.store.mkdir()
    with pytest.raises(RunError, match=r"in this directory; leave replay\.store out, or move"):
        settle_store(run, elsewhere(tmp_path / "volume"))
    settle_store(run, load())


def test_a_network_file_system_is_refused_unless_it_is_asked_for(run, monkeypatch):
    monkeypatch.setattr(store_place, "NETWORK", frozenset({find_file_system(run.path)}))
    with pytest.raises(ConfigError, match=r"^replay\.store: .*run/store .* network file system"):
        settle_store(run, load())
    settle_store(run, load("nano", ("replay.network_store=true",)))


def test_the_file_system_of_a_path_is_the_kernels():
    assert find_file_system(Path("/proc")) == "proc"
