"""Models of the hub, by its own client from a server on loopback: pinned once, from the cache if the hub fails."""

import threading
import time

import pytest

from spade.app.rundir import RunDir
from spade.config import load, replace_settings
from spade.errors import ConfigError
from spade.policy import hub
from spade.policy.checkpoint_files import check_files
from spade.policy.model_folder import pin_path, resolve
from tests.conftest import write_checkpoint
from tests.spade.hub_server import use_hub

NAME = "someone/tiny"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = write_checkpoint(tmp_path_factory.mktemp("tiny"))
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def server(tmp_path, monkeypatch, files):
    with use_hub(tmp_path / "cache", monkeypatch) as served:
        served.push(NAME, files)
        yield served


def test_a_name_is_pinned_to_its_commit_and_stays_there(server, files):
    pinned = pin_path(NAME)
    assert pinned == f"{NAME}@{server.commits[NAME]}"
    check_files(resolve(pinned))
    server.push(NAME, {**files, "README.txt": b"newer"})
    server.asked.clear()
    assert resolve(pinned).name == pinned.partition("@")[2]
    assert not server.asked, "what a commit holds never changes"
    assert pin_path(pinned) == pinned
    assert pin_path(NAME) != pinned


def test_a_run_keeps_the_commit_that_it_began_with(server, files, tmp_path):
    run = RunDir(tmp_path / "run")
    config = load("nano", (f"model.path={NAME}",))
    run.create(replace_settings(run.settle(config), {"model.path": pin_path(NAME)}))
    begun = run.config()
    server.push(NAME, {**files, "README.txt": b"newer"})
    assert run.settle(config) == begun
    run.create(run.settle(config))
    assert RunDir(tmp_path / "other").settle(config) != begun


def test_a_download_prints_nothing_where_no_terminal_is(server, capsys):
    hub.find_snapshot(NAME)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("fault", ["429", "html", "cut", "gone"])
def test_the_cache_serves_if_the_hub_fails(server, fault):
    folder = hub.find_snapshot(NAME)
    if fault == "gone":
        server.commits.clear()
    server.fault = fault
    assert hub.find_snapshot(NAME) == folder


@pytest.mark.parametrize("fault", ["429", "html", "cut", "gone"])
def test_without_a_copy_a_failing_hub_is_one_line(server, fault):
    if fault == "gone":
        server.commits.clear()
    server.fault = fault
    with pytest.raises(ConfigError, match=f"model.path: '{NAME}' is no folder here, and the hub did not") as refused:
        hub.find_snapshot(NAME)
    assert "\n" not in str(refused.value)
    server.fault = ""
    if fault != "gone":
        check_files(hub.find_snapshot(NAME))


@pytest.mark.parametrize("name", ["", "a", "/tmp/none", "../x/y", "a/b/c", "a b/c", "a/b@", "a/b@main", "a/b@0123abc"])
def test_a_text_that_is_no_name_is_not_looked_up(server, name):
    with pytest.raises(ConfigError, match="there is no folder"):
        hub.find_snapshot(name)
    assert not server.asked


@pytest.mark.parametrize("header", ["ETag", "X-Linked-ETag", "X-Repo-Commit"])
@pytest.mark.parametrize("path", ["../../../../out", "/{}/out"])
def test_a_hub_writes_nothing_outside_the_cache(server, tmp_path, monkeypatch, header, path):
    """The hub's client takes these headers as parts of its paths."""
    given, answer = path.format(tmp_path), server.answer

    def lie(asked):
        status, headers, body = answer(asked)
        return status, headers | ({header: f'"{given}"'} if "ETag" in headers else {}), body

    monkeypatch.setattr(server, "answer", lie)
    with pytest.raises(ConfigError, match=f"the {header} of 127.0.0.1 is a path: "):
        hub.find_snapshot(NAME)
    assert not [each for each in tmp_path.rglob("*") if each.name == "out"]


def test_a_hub_that_asks_for_a_wait_of_hours_is_not_waited_for(server, monkeypatch):
    answer = server.answer

    def refuse(asked):
        return (429, {"Retry-After": "36000"}, b"") if "/resolve/" in asked else answer(asked)

    monkeypatch.setattr(server, "answer", refuse)
    with pytest.raises(ConfigError, match="asks to wait 36000 s"):
        hub.find_snapshot(NAME)


def test_a_hub_that_says_nothing_is_not_awaited_for_ever(server, monkeypatch):
    monkeypatch.setattr(hub, "ANSWER_S", 0.2)
    silence, answer = threading.Event(), server.answer

    def say_nothing(asked):
        silence.wait(20)
        return answer(asked)

    monkeypatch.setattr(server, "answer", say_nothing)
    began = time.monotonic()
    with pytest.raises(ConfigError, match="the hub did not give it"):
        hub.find_snapshot(NAME)
    silence.set()
    assert time.monotonic() - began < 10
