import os

import pytest

from learner import checkpoint
from spade.protocol import StepMetrics
from tests.peers import alone

METRICS = StepMetrics(loss=0.25, trained_tokens=7)


def saver(text):
    def save(folder):
        (folder / "state").write_text(text)
        (folder / "more").write_bytes(b"\0" * 100)
        return {}

    return save


def write(root, step, text="state"):
    return checkpoint.write(root, step, METRICS, saver(text), alone)


def test_the_newest_is_that_of_the_highest_step(tmp_path):
    assert checkpoint.find_newest(tmp_path / "missing") is None
    for step in (9, 10, 100):
        write(tmp_path, step, f"step {step}")
    folder, manifest = checkpoint.find_newest(tmp_path)
    assert folder.name == "step-100"
    assert (folder / "state").read_text() == "step 100"
    assert (manifest.step, manifest.metrics) == (100, METRICS)


def test_one_that_was_cut_off_while_it_was_written_is_never_chosen(tmp_path):
    write(tmp_path, 1)

    def die(folder):
        (folder / "state").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        checkpoint.write(tmp_path, 2, METRICS, die, alone)
    assert checkpoint.find_newest(tmp_path)[1].step == 1
    checkpoint.prune(tmp_path, 1, 2, alone)
    assert os.listdir(tmp_path) == ["step-1"]


@pytest.mark.parametrize("damage", ["truncate", "flip", "remove", "manifest", "no manifest", "fifo", "manifest fifo"])
def test_a_damaged_one_is_passed_over(tmp_path, damage, caplog):
    write(tmp_path, 1)
    folder = write(tmp_path, 2)
    match damage:
        case "truncate":
            os.truncate(folder / "more", 50)
        case "flip":
            (folder / "more").write_bytes(b"\0" * 99 + b"\1")
        case "remove":
            (folder / "state").unlink()
        case "manifest":
            os.truncate(folder / checkpoint.MANIFEST, 20)
        case "no manifest":
            (folder / checkpoint.MANIFEST).unlink()
        case "fifo":
            (folder / "state").unlink()
            os.mkfifo(folder / "state")
        case "manifest fifo":
            (folder / checkpoint.MANIFEST).unlink()
            os.mkfifo(folder / checkpoint.MANIFEST)
    assert checkpoint.find_newest(tmp_path)[1].step == 1
    assert "step-2: passed over" in caplog.text


def test_a_damaged_one_is_replaced_when_its_step_comes_again(tmp_path):
    folder = write(tmp_path, 2, "first")
    (folder / "state").write_text("damaged")
    assert write(tmp_path, 2, "second") == folder
    assert checkpoint.find_newest(tmp_path)[0] == folder
    assert (folder / "state").read_text() == "second"


def test_the_newest_few_are_kept_and_damaged_futures_go(tmp_path):
    for step in (10, 20, 30, 40):
        write(tmp_path, step)
    checkpoint.prune(tmp_path, 30, 2, alone)
    assert sorted(os.listdir(tmp_path)) == ["step-20", "step-30"]


def test_a_copy_that_somebody_put_beside_them_is_neither_chosen_nor_deleted(tmp_path):
    write(tmp_path, 10)
    for name in ("step-10.before", "step-copy"):
        (tmp_path / name).mkdir()
    write(tmp_path, 20)
    folder, _ = checkpoint.find_newest(tmp_path)
    assert folder.name == "step-20"
    checkpoint.prune(tmp_path, step=20, keep=1, check=alone)
    assert sorted(os.listdir(tmp_path)) == ["step-10.before", "step-20", "step-copy"]
