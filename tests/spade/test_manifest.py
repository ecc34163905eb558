"""Digests of published parameters, tensor by tensor."""

import os

import pytest
import torch
from safetensors.torch import save_file

from spade.errors import WeightsError
from spade.policy import manifest

TENSORS = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(4, dtype=torch.bfloat16), "c": torch.zeros(0)}


def folder(path, tensors=TENSORS, header=None):
    path.mkdir()
    save_file(tensors, path / manifest.PARAMETERS, header)
    return path


def test_a_digest_names_the_parameters_and_not_the_file(tmp_path):
    digest = manifest.write(folder(tmp_path / "one"))
    other = folder(tmp_path / "other", dict(reversed(TENSORS.items())), {"format": "pt"})
    assert manifest.write(other) == digest
    assert manifest.read(other, digest) == manifest.measure(tmp_path / "one")
    assert len(bytes.fromhex(digest)) == manifest.DIGEST_BYTES


@pytest.mark.parametrize(
    "changed",
    [
        TENSORS | {"a": TENSORS["a"] + torch.tensor([0.0, 0.0, 1e-6])},
        TENSORS | {"a": TENSORS["a"].reshape(3, 2)},
        TENSORS | {"b": TENSORS["b"].view(torch.float16)},
        {("z" if name == "a" else name): one for name, one in TENSORS.items()},
    ],
    ids=["value", "shape", "dtype", "name"],
)
def test_one_tensor_changes_the_digest_and_its_own_alone(tmp_path, changed):
    before, after = manifest.measure(folder(tmp_path / "1")), manifest.measure(folder(tmp_path / "2", changed))
    assert manifest.compute_digest(before) != manifest.compute_digest(after)
    assert len([name for name in before if before[name] != after.get(name)]) == 1


def test_tensors_are_found_where_they_lie(tmp_path):
    file = folder(tmp_path / "one") / manifest.PARAMETERS
    start, end = manifest.read_spans(file)["a"]
    assert file.read_bytes()[start:end] == TENSORS["a"].numpy().tobytes()


def test_files_that_are_not_the_published_weights_are_refused(tmp_path):
    one = folder(tmp_path / "one")
    digest = manifest.write(one)
    file, listed = one / manifest.PARAMETERS, (one / manifest.MANIFEST).read_bytes()
    whole = file.read_bytes()

    file.write_bytes(whole[:-1] + b"\x01")
    manifest.read(one, digest)  # looks at names and shapes only
    with pytest.raises(WeightsError, match=f"digest is not {digest}"):
        manifest.verify(one, digest)
    for data, says in (
        (whole[:-1], "it is cut short"),
        (whole + b"x", "it has bytes outside its tensors"),
        (b"", "is not a whole"),
    ):
        file.write_bytes(data)
        with pytest.raises(WeightsError, match=says):
            manifest.read(one, digest)

    save_file({"a": TENSORS["a"]}, file)
    with pytest.raises(WeightsError, match="holds other tensors"):
        manifest.read(one, digest)
    with pytest.raises(WeightsError, match="a manifest of other weights"):
        manifest.read(one, 32 * "0")
    (one / manifest.MANIFEST).write_bytes(listed[:-1])
    with pytest.raises(WeightsError, match="cannot be read"):
        manifest.read(one, digest)
    with pytest.raises(FileNotFoundError):
        manifest.read(tmp_path / "gone", digest)


@pytest.mark.parametrize("name", [manifest.PARAMETERS, manifest.MANIFEST])
def test_a_fifo_in_place_of_a_file_is_refused_and_not_waited_for(tmp_path, name):
    digest = manifest.write(folder(tmp_path / "one"))
    (tmp_path / "one" / name).unlink()
    os.mkfifo(tmp_path / "one" / name)
    with pytest.raises(OSError, match="not a regular file"):
        manifest.read(tmp_path / "one", digest)
