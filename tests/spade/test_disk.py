"""What is deleted under others' eyes."""

import shutil

from spade import disk


def test_a_discarded_folder_has_left_its_name_before_its_files_go(tmp_path, monkeypatch):
    folder = tmp_path / "weights"
    folder.mkdir()
    (folder / "one").write_text("1")
    seen = []

    def watched(path):
        seen.append((folder.exists(), (path / "one").read_text(), path.name.startswith(disk.DRAFT)))
        shutil.rmtree(path)

    monkeypatch.setattr(disk, "rmtree", watched)
    disk.discard(folder)
    assert seen == [(False, "1", True)]
    assert not list(tmp_path.iterdir())
