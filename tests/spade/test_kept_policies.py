"""The policies that a run keeps for good: whole or absent, once for each step, whatever is killed."""

import itertools
import os
import shutil
import signal
import sys

import pytest

from spade.errors import WeightsError
from spade.policy import kept, manifest
from spade.policy.manifest import PARAMETERS
from tests.peers import alone


@pytest.fixture
def published(tmp_path, tiny_checkpoint):
    """Published weights of a run."""
    folder = tmp_path / "weights" / "one"
    shutil.copytree(tiny_checkpoint, folder)
    manifest.write(folder)
    return folder


def retrained(folder):
    """The same weights with another last byte, under a name of their own."""
    other = shutil.copytree(folder, folder.with_name("other"))
    data = bytearray((other / PARAMETERS).read_bytes())
    data[-1] ^= 1
    (other / PARAMETERS).write_bytes(data)
    manifest.write(other)
    return other


def test_a_policy_outlives_the_pruning_of_its_weights_and_takes_no_space_until_then(published, tmp_path):
    root = tmp_path / kept.FOLDER
    assert kept.keep(root, 40, published, alone)
    ((step, folder),) = kept.list_by_step(root)
    assert (step, folder) == (40, root / "step-40")
    assert (folder / PARAMETERS).samefile(published / PARAMETERS)
    digest = manifest.compute_digest(manifest.measure(published))
    shutil.rmtree(published)
    assert manifest.verify_parameters(folder) == digest
    assert os.listdir(root) == ["step-40"]


def test_the_same_policy_is_kept_once_and_another_of_its_step_replaces_it(published, tmp_path):
    root = tmp_path / kept.FOLDER
    other = retrained(published)
    assert kept.keep(root, 40, published, alone)
    assert not kept.keep(root, 40, published, alone)
    assert kept.keep(root, 40, other, alone)
    ((_, folder),) = kept.list_by_step(root)
    assert (
        manifest.verify_parameters(folder) == manifest.verify_parameters(other) != manifest.verify_parameters(published)
    )
    assert os.listdir(root) == ["step-40"]


@pytest.mark.parametrize("before", [False, True])
def test_a_kill_at_any_touch_of_a_file_leaves_a_whole_policy_or_none(published, tmp_path, before):
    """`before`: a policy of the same step is kept already, which the learner trained before a kill."""
    root, other = tmp_path / kept.FOLDER, retrained(published)
    sound = {manifest.verify_parameters(published), manifest.verify_parameters(other)}
    for touch in range(200):
        shutil.rmtree(root, ignore_errors=True)
        if before:
            kept.keep(root, 40, other, alone)
        done = killed_at(touch, lambda: kept.keep(root, 40, published, alone))
        assert {manifest.verify_parameters(folder) for _, folder in kept.list_by_step(root)} <= sound
        assert not (kept.keep(root, 40, published, alone) and done)  # the next life makes what a killed one has not
        assert [manifest.verify_parameters(folder) for _, folder in kept.list_by_step(root)] == [
            manifest.verify_parameters(published)
        ]
        if done:
            assert touch > 5
            return
    pytest.fail("it never came to its end")


def killed_at(number, work):
    """Do `work` in a child that is killed at its `number`-th touch of a file; returns whether it came to its end."""

    child = os.fork()
    if not child:
        count = itertools.count()
        touching = {"open", "os.rename", "os.link", "os.mkdir", "os.remove", "os.rmdir", "os.chmod", "shutil.rmtree"}

        def hook(event, _):
            if event in touching and next(count) == number:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)
        work()
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return not os.WIFSIGNALED(status)


def test_damage_is_named(published, tmp_path):
    root = tmp_path / kept.FOLDER
    kept.keep(root, 40, published, alone)
    folder = root / "step-40"
    data = (folder / PARAMETERS).read_bytes()
    os.unlink(folder / PARAMETERS)
    (folder / PARAMETERS).write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(WeightsError, match="changed or cut short"):
        manifest.verify_parameters(folder)
    (folder / manifest.MANIFEST).write_text("{")
    with pytest.raises(WeightsError, match="cannot be read"):
        manifest.verify_parameters(folder)
    (folder / manifest.MANIFEST).unlink()
    manifest.verify_parameters(folder)
