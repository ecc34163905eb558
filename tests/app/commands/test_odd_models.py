"""Commands that use a model of others refuse a faulty one in a line, before anything is made."""

import json

import pytest

from spade.policy import manifest
from tests.conftest import write_checkpoint

COMMANDS = {
    "up": ("up", "nano", "--headless", "--set", "model.path={model}", "--set", "model.profile=full"),
    "eval": ("eval", "{model}", "--suite", "aime25"),
    "serve": ("serve", "{model}", "--port", "0"),
    "config check": ("config", "check", "nano", "--set", "model.path={model}"),
    "import": ("model", "import", "{model}", "made"),
}


def cut(model):
    file = model / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    return f"{file}: "


def without_a_layer(model):
    file = model / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "num_hidden_layers": 3, "layer_types": None}))
    return f"{model}: its tensors do not fit its config.json: 11 are missing, the first is model.layers.2"


def changed(model):
    digest, file = manifest.write(model), model / "model.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    return f"{file}: its digest is not {digest}; it was changed or cut short"


@pytest.mark.parametrize("fault", [cut, without_a_layer, changed])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_checkpoint_with_a_fault_is_refused_at_the_start(command, fault, spade, tmp_path):
    model = tmp_path / "model"
    model.mkdir()
    said = fault(write_checkpoint(model))
    place = tmp_path / "place"
    place.mkdir()
    done = spade(*(word.format(model=model) for word in COMMANDS[command]), cwd=place)
    assert done.returncode == 1, done
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not list(place.iterdir())
