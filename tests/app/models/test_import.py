"""`spade model import`: what it takes, and what it refuses in one line with nothing written."""

import json
import os
import re
import sys
import zipfile

import pytest
import transformers

from spade.app.models.convert import convert
from spade.app.models.gguf_export import write_gguf
from spade.app.models.notes import examine
from spade.app.models.sources import open_source
from spade.errors import ConfigError
from spade.extras import describe_installing
from spade.policy.checkpoint_files import check_files
from spade.policy.model import compute_parameters_digest
from tests.conftest import write_checkpoint, write_tokenizer
from tests.spade.hub_server import use_hub


def wheel(path, files):
    with zipfile.ZipFile(path, "w") as opened:
        for name, data in files.items():
            opened.writestr(name, data)
    return path


def cut(folder):
    folder.mkdir()
    file = write_checkpoint(folder) / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    return folder


def configured(folder, **fields):
    folder.mkdir()
    file = write_checkpoint(folder) / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "layer_types": None, **fields}))
    return folder


def without_generation_settings(folder):
    (configured(folder) / "generation_config.json").write_text("[]")
    return folder


def several(folder):
    folder.mkdir()
    for name in ("one.gguf", "two.gguf"):
        (folder / name).write_bytes(b"GGUF")
    return folder


def empty(folder):
    folder.mkdir()
    return folder


def fifo(path):
    os.mkfifo(path)
    return path


def other_file(path):
    path.write_bytes(b"PK\x03\x04")
    return path


ODD = {
    "is not a GGUF file": lambda at: other_file(at / "model.gguf"),
    "holds no GGUF file": lambda at: wheel(at / "plain.whl", {"plain/__init__.py": "", "plain/notes.txt": ".gguf"}),
    "holds a.gguf, b.gguf": lambda at: wheel(at / "two.whl", {"two/a.gguf": "GGUF", "two/b.gguf": "GGUF"}),
    "holds the parts 1, 3 of a.gguf": lambda at: wheel(at / "gap.whl", {"a.gguf.part1": "GG", "a.gguf.part3": "UF"}),
    "holds the parts 2, 3 of a.gguf": lambda at: wheel(at / "late.whl", {"a.gguf.part2": "GG", "a.gguf.part3": "UF"}),
    "holds the parts 1, 1 of a.gguf": lambda at: wheel(
        at / "twice.whl", {"x/a.gguf.part1": "GG", "y/a.gguf.part1": "UF"}
    ),
    "is not a wheel": lambda at: other_file(at / "cut.whl"),
    "several GGUF files, one.gguf, two.gguf": lambda at: several(at / "several"),
    "neither a config.json nor a GGUF file": lambda at: empty(at / "empty"),
    "is not a regular file": lambda at: fifo(at / "model.gguf"),
    "no such file or folder": lambda at: at / "missing.gguf",
    "file not fully covered": lambda at: cut(at / "cut"),
    "11 are missing, the first is model.layers.2": lambda at: configured(at / "short", num_hidden_layers=3),
    "1000000 layers, and 24 tensors are there": lambda at: configured(at / "long", num_hidden_layers=1_000_000),
    "its weights are quantised (awq)": lambda at: configured(
        at / "packed", quantization_config={"quant_method": "awq"}
    ),
    "generation_config.json: Expected `object`, got `array`": lambda at: without_generation_settings(at / "list"),
    "is not a package name": lambda at: "pip:../odd name",
}


@pytest.mark.parametrize("fault", ODD)
def test_a_source_with_a_fault_is_refused_in_a_line_and_nothing_is_written(fault, spade, tmp_path):
    source = ODD[fault](tmp_path)
    place = tmp_path / "place"
    place.mkdir()
    done = spade("model", "import", str(source), "new", cwd=place)
    assert done.returncode == 1, done
    assert fault in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not list(place.iterdir())


def test_a_damaged_wheel_is_refused_in_a_line(spade, tmp_path):
    file = wheel(tmp_path / "damaged.whl", {"a.gguf": b"GGUF" + bytes(5_000)})
    data = bytearray(file.read_bytes())
    data[2_000] = 1
    file.write_bytes(data)
    done = spade("model", "import", str(file), "new", cwd=tmp_path)
    assert done.returncode == 1
    assert "a.gguf cannot be read: Bad CRC-32" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "new").exists()


def test_a_folder_that_exists_is_refused_before_the_source_is_read(spade, tmp_path):
    (tmp_path / "new").mkdir()
    done = spade("model", "import", str(tmp_path / "missing.gguf"), "new", cwd=tmp_path)
    assert done.returncode == 1
    assert "exists already" in done.stderr
    assert "missing" not in done.stderr


def test_parts_are_joined_by_their_numbers(tmp_path):
    parts = {f"whole/a.gguf.part{number}": f"<{number}>" for number in range(1, 13)}
    with open_source(str(wheel(tmp_path / "parts.whl", dict(sorted(parts.items()))))) as file:
        assert file.name == "a.gguf"
        assert file.read_text() == "".join(f"<{number}>" for number in range(1, 13))
    assert not file.exists()


def test_a_checkpoint_folder_is_copied_whole_and_examined(spade, tmp_path):
    write_checkpoint(tmp_path)
    done = spade("model", "import", str(tmp_path), "new", cwd=tmp_path)
    assert done.returncode == 0, done
    assert done.stderr == ""
    assert compute_parameters_digest(tmp_path / "new") == compute_parameters_digest(tmp_path)
    assert "✓ training: the learner trains it" in done.stdout
    assert "✗" not in done.stdout


def test_what_will_not_work_is_a_finding(tmp_path):
    write_checkpoint(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    [fault] = [finding for finding in examine(tmp_path) if finding.fault]
    assert fault.name == "conversation"
    assert "tokenizer.json" in fault.text


def test_a_tokenizer_that_is_larger_than_the_embedding_is_a_finding(tmp_path):
    transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=4
        )
    ).save_pretrained(tmp_path)
    write_tokenizer(tmp_path)
    [fault] = [finding for finding in examine(tmp_path) if finding.fault]
    assert fault.name == "conversation"
    assert "301 tokens, and its model embeds 64" in fault.text


def test_a_template_that_holds_no_conversation_is_a_finding(tmp_path):
    write_checkpoint(tmp_path)
    (tmp_path / "chat_template.jinja").write_text("{{ raise_exception('closed') }}")
    [fault] = [finding for finding in examine(tmp_path) if finding.fault]
    assert fault.name == "conversation"
    assert "refuses the conversation: closed" in fault.text


def test_a_model_of_the_hub_is_imported_and_a_missing_one_is_named(tmp_path, monkeypatch):
    folder = tmp_path / "tiny"
    folder.mkdir()
    write_checkpoint(folder)
    with use_hub(tmp_path / "cache", monkeypatch) as served:
        served.push("someone/tiny", {path.name: path.read_bytes() for path in folder.iterdir()})
        with open_source("someone/tiny") as found:
            convert(found, tmp_path / "new", None)
        with pytest.raises(ConfigError, match=r"\A'someone/other' is no folder here"), open_source("someone/other"):
            pass
    check_files(tmp_path / "new")
    assert compute_parameters_digest(tmp_path / "new") == compute_parameters_digest(folder)


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF")
    monkeypatch.setitem(sys.modules, "gguf", None)
    told = rf"^gguf: a GGUF file needs this extra \(.*\); {re.escape(describe_installing('gguf'))}$"
    with pytest.raises(ConfigError, match=told):
        convert(file, tmp_path / "new", None)
    with pytest.raises(ConfigError, match=told):
        write_gguf(tmp_path, tmp_path / ".draft-1" / "model.gguf", "nano")


@pytest.mark.parametrize(("said", "told"), [
    ("ERROR: Could not find a version", "ERROR: Could not find a version"),
    ("ERROR: Exception:\nTraceback:\nOSError: [Errno 28] No space left on device\n", "OSError: [Errno 28] No space"),
    ("", "pip failed"),
])  # fmt: skip
def test_a_crash_of_pip_is_told_by_its_error(tmp_path, monkeypatch, said, told):
    crash = tmp_path / "pip"
    crash.write_text(f"#!{sys.executable}\nimport sys\nsys.exit({said!r})\n")
    crash.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(crash))
    with pytest.raises(ConfigError, match=f"^pip:odd: {re.escape(told)}"), open_source("pip:odd"):
        raise AssertionError("must not be downloaded")
