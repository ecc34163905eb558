"""A run, or a folder of results, of somebody else may have links. No command writes or deletes behind one."""

import pytest

from spade.app.rundir import RunDir
from spade.config import load
from spade.errors import RunError

COMMANDS = {
    "up": ("up", "--run", "{run}", "--headless"),
    "replay up": ("replay", "up", "--run", "{run}"),
    "learner up": ("learner", "up", "{run}"),
    "eval": ("eval", "{run}", "--suite", "nano", "--policy", "start"),
    "serve": ("serve", "{run}", "--port", "0", "--policy", "start"),
    "serve --live": ("serve", "{run}", "--port", "0", "--live"),
    "track": ("track", "{run}", "--to", "prometheus"),
}


@pytest.fixture
def precious(tmp_path):
    """A folder that a link leads to."""
    folder = tmp_path / "precious"
    folder.mkdir()
    (folder / "thesis").write_text("not saved elsewhere")
    yield folder
    assert [path.name for path in folder.iterdir()] == ["thesis"]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_run_with_a_folder_that_is_a_link_is_refused(command, spade, tmp_path, precious):
    run = RunDir(tmp_path / "run")
    run.create(load("nano"))
    run.metrics_path.touch()
    run.weights.symlink_to(precious)
    done = spade(*(word.format(run=run.path) for word in COMMANDS[command]), cwd=tmp_path)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1), done
    assert f"{run.weights}: is a link" in done.stderr


@pytest.mark.parametrize("link", ["best", "checkpoints/step-1", "evaluations/weights/0123"])
def test_a_link_is_found_at_any_depth(link, tmp_path, precious):
    run = RunDir(tmp_path / "run")
    run.create(load("nano"))
    (run.path / link).parent.mkdir(parents=True, exist_ok=True)
    (run.path / link).symlink_to(precious)
    with pytest.raises(RunError, match=f"{link}: is a link"), run.lock("replay"):
        pass


@pytest.mark.parametrize(
    ("words", "link"),
    [
        (("serve", "nano", "--port", "0"), "serving/serve-1"),
        (("eval", "nano", "--suite", "nano", "--protocol", "short", "--items", "9"), "evaluations/processes"),
    ],
)
def test_a_folder_of_a_models_results_that_is_a_link_is_refused(words, link, spade, tmp_path, precious):
    place = tmp_path / "place"
    (place / link).parent.mkdir(parents=True)
    (place / link).symlink_to(precious)
    done = spade(*words, cwd=place)
    assert done.returncode == 1, done
    assert f"{place / link}: is a link" in done.stderr


def test_the_store_may_be_a_link(tmp_path, precious):
    run = RunDir(tmp_path / "run")
    run.create(load("nano"))
    run.store.symlink_to(precious)
    with run.lock("replay"):
        pass
