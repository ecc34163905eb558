"""Paths of a config: absolute from the start of a run, so that a resume may begin anywhere."""

import pytest

from spade.app.rundir import RunDir
from spade.config import PATH_SETTINGS, get_setting, load, make_paths_absolute
from spade.config.paths import PACKAGE_MODELS
from tests.conftest import write_checkpoint

RELATIVE = {
    "model.path": "models/tiny", "design.corpus": "docs.jsonl", "design.seeds": "folder:seeds",
    "pool.source": "run:runs/old", "tools.settings": "settings.txt", "evaluation.suite": "folder:held_out",
    "endpoint.key": "key", "serve.key": "key", "replay.store": "store", "bus.keys": "keys",
}  # fmt: skip
NAMES = {
    "model.path": "nano", "design.corpus": "builtin", "pool.source": "reasoning-gym:nano", "tools.settings": "builtin",
    "evaluation.embedding": "tfidf", "replay.store": "",
}  # fmt: skip


@pytest.fixture
def here(tmp_path, monkeypatch):
    (tmp_path / "models" / "tiny").mkdir(parents=True)
    write_checkpoint(tmp_path / "models" / "tiny")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", RELATIVE)
def test_a_relative_path_becomes_absolute(name, here):
    value = RELATIVE[name]
    pooled = ("design.source=pool",) if name == "pool.source" else ()
    found = get_setting(make_paths_absolute(load("nano", (f"{name}={value}", *pooled))), name)
    kind, colon, path = value.rpartition(":")
    assert found == f"{kind}{colon}{here / path}"


@pytest.mark.parametrize("end", ["", "@short"])
def test_the_file_of_a_suite_becomes_absolute(end, here):
    config = load("nano", (f"evaluation.suite=aime25:aime@home.jsonl{end}",))
    assert make_paths_absolute(config).evaluation.suite == f"aime25:{here / 'aime@home.jsonl'}{end}"
    assert make_paths_absolute(load("nano", ("evaluation.suite=nano@short",))).evaluation.suite == "nano@short"


def test_what_is_no_path_stays():
    library = 'sandbox.libraries=["reasoning-gym"]'
    config = load("nano", ("design.source=pool", library, *(f"{name}={value}" for name, value in NAMES.items())))
    assert make_paths_absolute(config) == config


@pytest.mark.parametrize("name", PACKAGE_MODELS)
def test_a_model_of_the_package_stays_beside_a_folder_of_its_name(name, here):
    """As in the folder `runs`, which has a run `nano`."""
    (here / name).mkdir()
    assert make_paths_absolute(load("nano", (f"model.path={name}",))).model.path == name
    assert make_paths_absolute(load("nano", (f"model.path=./{name}",))).model.path == str(here / name)


@pytest.mark.parametrize("name", ["design.corpus", "replay.store", "serve.key"])
def test_the_home_of_an_unknown_user_is_a_folder_of_that_name(name, here):
    config = make_paths_absolute(load("nano", ("evaluation.suite=", f"{name}=~nobody-of-that-name/x")))
    assert get_setting(config, name) == str(here / "~nobody-of-that-name" / "x")


def test_the_own_home_is_expanded(here, monkeypatch):
    monkeypatch.setenv("HOME", str(here))
    config = load("nano", ("model.path=~/models/tiny", "model.profile=nano"))
    assert make_paths_absolute(config).model.path == str(here / "models" / "tiny")


def test_a_run_is_resumed_from_another_folder(here, monkeypatch):
    run = RunDir(here / "run")
    config = load("nano", ("model.path=models/tiny", "model.profile=nano"))
    run.create(run.settle(config))
    assert run.config().model.path == str(here / "models" / "tiny")
    assert run.settle(config) == run.config()
    (here / "elsewhere").mkdir()
    monkeypatch.chdir(here / "elsewhere")
    assert run.settle(run.config()) == run.config()


def test_a_run_that_kept_a_relative_path_keeps_it(here):
    """As runs did that began before paths were made absolute."""
    run = RunDir(here / "run")
    config = load("nano", ("model.path=models/tiny", "model.profile=nano"))
    run.create(config)
    assert run.settle(config).model.path == "models/tiny"
    assert (
        run.settle(load("nano", (f"model.path={here}/models/tiny", "model.profile=nano"))).model.path == "models/tiny"
    )


def test_every_listed_setting_exists():
    for name in PATH_SETTINGS:
        assert isinstance(get_setting(load(), name), str)
