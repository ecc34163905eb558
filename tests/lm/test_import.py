"""A real model through `spade model import` again: other number formats and back; and GGUF files with a fault."""

from types import SimpleNamespace

import gguf
import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file

from spade.app.commands.model import import_model
from spade.app.models.convert import convert
from spade.app.models.notes import examine
from spade.errors import RunError
from spade.policy.model import compute_parameters_digest


def test_a_model_comes_back_from_float32_as_it_was(smollm2, tmp_path, capfd):
    wide, back = tmp_path / "wide", tmp_path / "back"
    import_model(str(smollm2), wide, "float32")
    said = capfd.readouterr()
    assert "134.5 million in float32" in said.out
    assert "✗" not in said.out
    assert said.err == ""
    own, widened = (load_file(folder / "model.safetensors") for folder in (smollm2, wide))
    assert all(torch.equal(value.float(), widened[name]) for name, value in own.items())
    back.mkdir()
    convert(wide, back, "bfloat16")
    assert compute_parameters_digest(back) == compute_parameters_digest(smollm2)


def test_a_base_model_is_said_to_have_no_template(gemma3):
    faults = [finding for finding in examine(gemma3) if finding.fault]
    assert [finding.name for finding in faults] == ["conversation"]
    assert "template" in faults[0].text


def test_a_gguf_file_that_lacks_tensors_is_refused(tmp_path, monkeypatch):
    """Transformers would fill them with random numbers."""
    file = write_gguf(tmp_path / "model.gguf")
    tokenizer = SimpleNamespace(save_pretrained=lambda _: None)
    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", lambda *_, **__: tokenizer)
    with pytest.raises(RunError, match=r"model.gguf: .* are missing, the first is model.layers.0"):
        convert(file, tmp_path / "new", None)


def test_a_gguf_file_of_more_layers_than_tensors_is_refused_before_it_is_built(tmp_path):
    file = write_gguf(tmp_path / "model.gguf", layers=1_000_000)
    with pytest.raises(RunError, match=r"model.gguf: has 1000000 layers and 1 tensors; give a whole file"):
        import_model(str(file), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def write_gguf(path, layers=1):
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(layers)
    writer.add_embedding_length(32)
    writer.add_tensor("token_embd.weight", np.zeros((64, 32), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


FAULTS = {
    "cut in its tensors": lambda data: data[:-4_000],
    "cut in its header": lambda data: data[:30],
    "four bytes": lambda data: data[:4],
    "without a tokenizer": lambda data: data,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_gguf_file_with_a_fault_is_refused_in_a_line(fault, tmp_path):
    file = write_gguf(tmp_path / "model.gguf")
    file.write_bytes(FAULTS[fault](file.read_bytes()))
    with pytest.raises(RunError) as refused:
        import_model(str(file), tmp_path / "new")
    assert str(refused.value).startswith(f"{file}: cannot be read: ")
    assert len(str(refused.value).splitlines()) == 1
    assert not (tmp_path / "new").exists()
