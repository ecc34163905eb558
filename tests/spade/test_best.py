"""The policy of a run's best evaluation: what replaces it, and what a kill at any moment leaves."""

import os
import tempfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spade import disk
from spade.disk import hold
from spade.errors import RunError
from spade.policy import best
from spade.policy.best import Best, find, keep
from spade.policy.manifest import PARAMETERS


def published(root, step):
    folder = root / "weights" / f"digest-{step}"
    folder.mkdir(parents=True)
    (folder / PARAMETERS).write_bytes(b"%d" % step)
    return folder


def told(step, rate, measure="these plays"):
    return Best(step, f"digest-{step}", measure, rate, 0.1, 8)


def parameters(root):
    """The step whose weights are kept, by their bytes and by the record."""
    folder, record = find(root / "best")
    step = int((folder / PARAMETERS).read_bytes())
    assert record.step == step
    return step


RATES = st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=8)


@given(rates=RATES)
def test_the_best_is_kept_and_of_equal_ones_the_later(tmp_path_factory, rates):
    root = tmp_path_factory.mktemp("run")
    for step, rate in enumerate(rates):
        keep(root / "best", published(root, step), told(step, rate))
    assert parameters(root) == max(range(len(rates)), key=lambda step: (rates[step], step))
    assert len(list((root / "best").iterdir())) == 1


def test_it_outlives_the_pruning_of_the_weights_and_takes_no_space_before(tmp_path):
    folder = published(tmp_path, 3)
    keep(tmp_path / "best", folder, told(3, 0.5))
    assert (folder / PARAMETERS).stat().st_nlink == 2
    (folder / PARAMETERS).unlink()
    assert parameters(tmp_path) == 3


def test_an_evaluation_of_other_plays_is_not_compared(tmp_path):
    keep(tmp_path / "best", published(tmp_path, 1), told(1, 0.9))
    assert keep(tmp_path / "best", published(tmp_path, 2), told(2, 0.1, "other plays"))
    assert parameters(tmp_path) == 2


def test_what_a_user_keeps_beside_it_stays(tmp_path):
    keep(tmp_path / "best", published(tmp_path, 1), told(1, 0.5))
    (tmp_path / "best" / "mine").mkdir()
    (tmp_path / "best" / "notes.txt").touch()
    keep(tmp_path / "best", published(tmp_path, 2), told(2, 0.9))
    assert {path.name for path in (tmp_path / "best").iterdir()} == {"2", "mine", "notes.txt"}


CALLS = ("mkdtemp", "link_folder", "sync", "replace", "discard_unless_held")


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("after", [False, True])
def test_killed_at_any_moment_a_whole_policy_is_found_and_the_next_one_cleans_up(tmp_path, monkeypatch, call, after):
    """Nothing after the kill runs, the deletion of the draft neither."""

    class KilledError(BaseException):
        pass

    root = tmp_path / "best"
    keep(root, published(tmp_path, 1), told(1, 0.5))
    owner = {"mkdtemp": tempfile, "replace": os}.get(call, best)
    real = getattr(owner, call)

    def dies(*arguments, **named):
        if after:
            real(*arguments, **named)
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(disk, "rmtree", lambda *_, **__: None)
        patch.setattr(owner, call, dies)
        with pytest.raises(KilledError):
            keep(root, published(tmp_path, 2), told(2, 0.6))
    renamed = call == "discard_unless_held" or (call == "replace" and after)
    assert parameters(tmp_path) == (2 if renamed else 1)
    assert keep(root, published(tmp_path, 3), told(3, 0.6))
    assert parameters(tmp_path) == 3
    assert len(list(root.iterdir())) == 1


def test_one_that_is_being_read_stays_until_the_next(tmp_path):
    root = tmp_path / "best"
    keep(root, published(tmp_path, 1), told(1, 0.5))
    old = find(root)[0]
    with hold(old / PARAMETERS):
        keep(root, published(tmp_path, 2), told(2, 0.6))
        assert (old / PARAMETERS).read_bytes() == b"1"
        assert parameters(tmp_path) == 2
    keep(root, published(tmp_path, 3), told(3, 0.7))
    assert not old.exists()


@pytest.mark.parametrize("damage", ["cut", "gone", "fifo"])
def test_a_damaged_record_is_named_and_the_next_evaluation_replaces_it(tmp_path, damage, caplog):
    root = tmp_path / "best"
    keep(root, published(tmp_path, 1), told(1, 0.5))
    record = root / "1" / best.RECORD
    match damage:
        case "cut":
            os.truncate(record, 20)
        case "gone":
            record.unlink()
        case "fifo":
            record.unlink()
            os.mkfifo(record)
    with pytest.raises(RunError, match=rf"best/1/best\.json: .*; restore it, or delete {root}/1"):
        find(root)
    assert keep(root, published(tmp_path, 2), told(2, 0.1))
    assert parameters(tmp_path) == 2
    assert "best/1/best.json" in caplog.text
