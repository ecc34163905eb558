"""The folder of one `spade serve`, beside the folders of others."""

import os
import threading

from spade.app import rundir
from spade.app.evaluation.serving import ServingFolder
from spade.config import load


def test_a_start_leaves_the_folder_that_another_start_is_making(tmp_path, monkeypatch):
    with monkeypatch.context() as other_process:
        other_process.setattr(os, "getpid", lambda: 1)
        other = ServingFolder(tmp_path, load("nano"), "replay")
    cleaned, make = threading.Event(), rundir.make_private

    def clean():
        other.__enter__()
        cleaned.set()

    cleaner = threading.Thread(target=clean)

    def make_slowly(folder):
        make(folder)
        if cleaner.ident is None:
            cleaner.start()
            cleaned.wait(0.5)  # the other command begins between the folder and its lock

    monkeypatch.setattr(rundir, "make_private", make_slowly)
    with ServingFolder(tmp_path, load("nano"), "replay") as run:
        cleaner.join()
        assert set(run.holders()) == {"replay"}
        other.__exit__(None, None, None)
        assert run.exists
    assert not run.path.parent.exists()


def test_a_start_deletes_the_folder_of_a_killed_command(tmp_path):
    left = tmp_path / "serving" / "serve-1"
    left.mkdir(parents=True)
    (left / "replay.lock").touch()
    with ServingFolder(tmp_path, load("nano"), "replay"):
        assert not left.exists()
