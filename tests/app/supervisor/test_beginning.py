"""A new run with another run's policy and memory."""

import json
import shutil
from functools import partial

import pytest
from typer.testing import CliRunner

from learner import checkpoint
from replay.inspect.environments import list_published, run_id
from replay.ledger.records import MemoryEntry
from replay.store import open_reader, open_store
from spade.app.cli import app
from spade.app.rundir import RunDir
from spade.app.supervisor.beginning import OldRun, begin, check_start, make_model_override, parse_step
from spade.config import load
from spade.errors import ConfigError, RunError
from spade.policy import manifest
from spade.policy.best import Best, keep
from spade.policy.model_folder import NANO
from spade.protocol import StepMetrics
from tests.replay.kept_world import SETTINGS, keep_world
from tests.replay.replay_world import weights


def publish(run, world, digest):
    """Publish the newest step again, with weights that there are."""
    world.ledger.apply(weights(newest(run), digest), "learner/1", world.now)
    with open_store(run.store, "nosync") as store:
        store.commit(store.encode(world.ledger.state.changes()))


def copy_model(policy, folder):
    shutil.copytree(policy, folder / "model")
    return {}


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """An old run with three policies: published after its last step, in a checkpoint of step 1, the best of step 2."""
    run = RunDir(tmp_path_factory.mktemp("old") / "run")
    run.create(SETTINGS)
    world = keep_world(run.store, 3, 90.0)
    shutil.copytree(NANO, run.path / "made")
    digest = manifest.write(run.path / "made")
    publish(run, world, digest)
    run.weights.mkdir()
    policy = (run.path / "made").rename(run.weights / digest)
    checkpoint.write(run.checkpoints, 1, StepMetrics(), partial(copy_model, policy), lambda: None)
    keep(run.path / "best", policy, Best(2, digest, "these plays", 0.5, 0.1, 8))
    return run


@pytest.fixture
def old(kept, tmp_path):
    shutil.copytree(kept.path, tmp_path / "old")
    return RunDir(tmp_path / "old")


@pytest.fixture
def new(tmp_path):
    return RunDir(tmp_path / "new")


def newest(run):
    return list_published(run.store)[-1].step


def test_a_run_begins_with_the_newest_policy_and_the_memory_and_notes_both(old, new):
    begin(new, "nano", (), OldRun(old, memory=True))
    origin = new.origin
    assert (origin.path, origin.run, origin.step) == (str(old.path), run_id(old.store), newest(old))
    assert origin.digest == manifest.compute_digest(manifest.measure(new.start))
    assert origin.model == "nano"
    with open_reader(new.store) as mine, open_reader(old.store) as theirs:
        assert origin.memory == len(mine.scan("memory", MemoryEntry)) == len(theirs.scan("memory", MemoryEntry)) > 0
    assert load("nano", make_model_override(new)).model.path == str(new.start)


def test_the_same_command_again_resumes_and_copies_nothing(old, new):
    begin(new, "nano", (), OldRun(old))
    new.create(load("nano", make_model_override(new)))
    (new.start / "config.json").write_text("of the new run")
    shutil.rmtree(old.path)
    begin(new, "nano", (), OldRun(old))
    assert (new.start / "config.json").read_text() == "of the new run"
    with pytest.raises(RunError, match=r"began from .*old, not from .*other; choose another --run"):
        begin(new, "nano", (), OldRun(RunDir(old.path.parent / "other")))
    with pytest.raises(RunError, match="began with step"):
        begin(new, "nano", (), OldRun(old, step=1))


@pytest.mark.parametrize("command", [("up", "nano"), ("replay", "up", "nano")])
def test_what_a_killed_command_left_starts_no_run_that_was_not_asked_to_begin_with_it(old, new, command):
    begin(new, "nano", (), OldRun(old))  # killed before the run has its config
    ended = CliRunner().invoke(app, [*command, "--run", str(new.path), "--set", "design.corpus=nowhere"])
    assert isinstance(ended.exception, RunError)
    assert "a command with --from did not finish here; give the same command" in str(ended.exception)
    assert not new.exists


def test_a_run_that_began_without_the_memory_is_not_resumed_as_with_it(old, new):
    begin(new, "nano", (), OldRun(old))
    new.create(load("nano", make_model_override(new)))
    with pytest.raises(RunError, match=r"without the memory of .*old; `spade replay import`"):
        begin(new, "nano", (), OldRun(old, memory=True))


def test_what_a_killed_command_left_is_made_again(old, new):
    begin(new, "nano", (), OldRun(old, memory=True))
    whole = new.origin
    new.origin_path.unlink()
    (new.start / manifest.PARAMETERS).unlink()
    begin(new, "nano", (), OldRun(old, memory=True))
    assert new.origin == whole
    assert manifest.compute_digest(manifest.measure(new.start)) == whole.digest


@pytest.mark.parametrize(("step", "taken"), [(1, 1), ("best", 2), (2, 2)])
def test_a_step_in_a_checkpoint_and_the_best_one_are_found(old, new, step, taken):
    begin(new, "nano", (), OldRun(old, step))
    assert new.origin.step == taken


def test_a_step_that_is_not_kept_is_refused_with_those_that_are(old, new):
    with pytest.raises(RunError) as caught:
        begin(new, "nano", (), OldRun(old, 999))
    there = f"step {newest(old)} (published), step 1 (checkpoint), step 2 (best)"
    assert str(caught.value) == f"{old.path}: the policy of step 999 is not kept; there is {there}"
    assert not new.exists


def test_a_run_without_a_best_policy_says_so(old, new):
    shutil.rmtree(old.path / "best")
    with pytest.raises(RunError, match=r": the best policy is not kept; there is step \d+ \(published\), step 1 "):
        begin(new, "nano", (), OldRun(old, "best"))


def test_another_model_or_tokenizer_is_refused(old, new, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(NANO, other)
    begin(RunDir(tmp_path / "same"), "nano", (f"model.path={other}",), OldRun(old))
    (other / "tokenizer.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"another tokenizer\.json"):
        begin(new, "nano", (f"model.path={other}",), OldRun(old))
    settings = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps({**settings, "hidden_size": 7}))
    with pytest.raises(ConfigError, match="has hidden_size 7, the other run's policy"):
        begin(new, "nano", (f"model.path={other}",), OldRun(old))
    assert not new.path.exists()


@pytest.mark.parametrize("text", ["", "<html>429</html>", "[]"])
def test_a_damaged_config_of_either_model_is_one_line(old, new, tmp_path, text):
    other = tmp_path / "other"
    shutil.copytree(NANO, other)
    (other / "config.json").write_text(text)
    with pytest.raises(RunError, match=r"other/config\.json: "):
        begin(new, "nano", (f"model.path={other}",), OldRun(old))


def test_another_policy_in_the_place_of_a_kept_one_is_refused(old, new):
    """Its weights and its manifest fit each other, but the run published others after that step."""
    shutil.copytree(old.checkpoints / "step-1" / "model", old.path / "policies" / "step-2")
    shutil.rmtree(old.checkpoints)
    shutil.rmtree(old.path / "best")
    with pytest.raises(RunError, match=r"policies/step-2/model\.safetensors: its digest is not "):
        begin(new, "nano", (), OldRun(old, 2))


def test_another_policy_in_the_place_of_the_best_one_is_refused(old, new):
    """Its weights and its manifest fit each other, but the evaluation was of other weights."""
    kept = next((old.path / "best").glob("*/best.json"))
    kept.write_bytes(kept.read_bytes().replace(list_published(old.store)[-1].digest.encode(), b"0" * 32))
    with pytest.raises(RunError, match=r"policy/model\.safetensors: its digest is not 0{32}; .*choose another --step"):
        begin(new, "nano", (), OldRun(old, "best"))


def test_a_damaged_record_of_the_best_policy_is_read_for_that_policy_alone(old, new):
    next((old.path / "best").glob("*/best.json")).write_text("x")
    with pytest.raises(RunError, match=r"best\.json: cannot be read"):
        begin(new, "nano", (), OldRun(old, "best"))
    begin(new, "nano", (), OldRun(old))
    assert new.origin.step == list_published(old.store)[-1].step


def test_damaged_weights_are_refused(old, new):
    file = old.weights / list_published(old.store)[-1].digest / manifest.PARAMETERS
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.unlink()
    file.write_bytes(bytes(data))
    with pytest.raises(RunError, match="changed or cut short; choose another --step"):
        begin(new, "nano", (), OldRun(old))
    assert not new.exists


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_a_policy_that_lacks_a_file_is_refused_by_its_own_name(old, new, name):
    file = old.weights / list_published(old.store)[-1].digest / name
    file.unlink()
    with pytest.raises(RunError, match=f"^{file}: "):
        begin(new, "nano", (), OldRun(old))
    assert not new.start.exists()


def test_weights_under_the_name_of_others_are_refused(old, new):
    folder = old.weights / list_published(old.store)[-1].digest
    file = folder / manifest.PARAMETERS
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    manifest.write(folder)  # so that only the folder's name tells
    with pytest.raises(RunError, match=f"its digest is not {folder.name}"):
        begin(new, "nano", (), OldRun(old))


@pytest.mark.parametrize(
    ("step", "says"), [(9, "step-9: is the checkpoint of step 1"), (40, "step-40: the run published no policy of step")]
)
def test_a_policy_under_the_name_of_another_step_is_refused(old, new, step, says):
    (old.checkpoints / "step-1").rename(old.checkpoints / "step-9")
    shutil.copytree(NANO, old.path / "policies" / "step-40")
    manifest.write(old.path / "policies" / "step-40")
    with pytest.raises(RunError, match=says):
        begin(new, "nano", (), OldRun(old, step))
    assert not new.exists


def test_a_run_whose_first_policy_was_damaged_does_not_begin_with_it(old, new):
    begin(new, "nano", (), OldRun(old))
    check_start(new)
    file = new.start / manifest.PARAMETERS
    data = file.read_bytes()
    file.unlink()  # the old run has the same file
    file.write_bytes(data[:-1] + b"x")
    with pytest.raises(RunError, match="changed or cut short"):
        check_start(new)
    (new.checkpoints / "step-1").mkdir(parents=True)
    check_start(new)  # the learner begins with its checkpoint


def test_a_third_stage_knows_the_first_model_and_a_run_shows_where_it_came_from(old, new, tmp_path):
    begin(new, "nano", (), OldRun(old))
    new.create(load("nano", make_model_override(new)))
    settings = load("nano", (*make_model_override(new), "audit.replays=0", "audit.random_plays=0"))
    publish(new, keep_world(new.store, 4, 40.0, settings), new.origin.digest)
    shutil.copytree(new.start, new.weights / list_published(new.store)[-1].digest)
    third = RunDir(tmp_path / "third")
    begin(third, "nano", (), OldRun(new))
    assert third.origin.model == "nano"
    shown = CliRunner().invoke(app, ["config", "show", str(new.path)]).stdout
    assert shown.startswith(
        f"# began with the policy of {old.path} (run {run_id(old.store)}) after step {newest(old)}, "
    )


@pytest.mark.parametrize("words", [["--step", "3"], ["--memory"], ["--from", "old"]])
def test_options_that_go_together_are_asked_for(words, tmp_path):
    done = CliRunner().invoke(app, ["up", "--run", str(tmp_path / "run"), *words])
    assert isinstance(done.exception, ConfigError)
    assert not (tmp_path / "run").exists()


def test_a_step_is_a_number_or_the_best():
    assert [parse_step(text) for text in (None, "best", "12")] == [None, "best", 12]
    for text in ("", "-1", "newest", "٣", "1" * 10):
        with pytest.raises(ConfigError, match="--step"):
            parse_step(text)
