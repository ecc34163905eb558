"""Commands that use a model of others refuse a faulty one in a line, before anything is made."""

import pytest

from tests.conftest import write_checkpoint

COMMANDS = {
    "up": ("up", "nano", "--headless", "--set", "model.path={model}", "--set", "model.profile=full"),
    "eval": ("eval", "{model}", "--suite", "aime25"),
    "serve": ("serve", "{model}", "--port", "0"),
    "config check": ("config", "check", "nano", "--set", "model.path={model}"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_cut_checkpoint_is_refused_at_the_start(command, spade, tmp_path):
    model = tmp_path / "model"
    model.mkdir()
    file = write_checkpoint(model) / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    place = tmp_path / "place"
    place.mkdir()
    done = spade(*(word.format(model=model) for word in COMMANDS[command]), cwd=place)
    assert done.returncode == 1, done
    assert f"{file}: " in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not list(place.iterdir())
