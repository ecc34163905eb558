"""A run's policies pinned: they survive their retirement, and are let go without a trace."""

import shutil

import pytest
from msgspec.structs import replace

from spade.app.evaluation import policies
from spade.app.evaluation.averaging import find_policy
from spade.app.evaluation.policies import hold_pinned, list_policy_names, pin, release
from spade.app.rundir import RunDir
from spade.app.supervisor.kept import KeptPolicy
from spade.config import load
from spade.errors import ConfigError, RunError, WeightsError
from spade.evaluations import find_evaluations, open_folder
from spade.policy import manifest
from tests.spade.evaluations.samples import RULES, SCHEDULED
from tests.unreadable import unwritable


@pytest.fixture
def digests():
    """The digests of the run's policies by their steps."""
    return {}


@pytest.fixture
def run(tmp_path, tiny_checkpoint, digests, monkeypatch):
    """A run with two published policies, of steps 3 and 7."""
    run = RunDir(tmp_path / "run")
    run.weights.mkdir(parents=True)
    kept = []
    for step in 3, 7:
        made = tmp_path / f"step-{step}"
        shutil.copytree(tiny_checkpoint, made)
        file = made / manifest.PARAMETERS
        file.write_bytes(file.read_bytes()[:-1] + bytes([step]))
        digests[step] = manifest.write(made)
        folder = made.rename(run.weights / digests[step])
        kept.append(KeptPolicy(step, "published", folder, (digests[step],)))
    monkeypatch.setattr(policies, "list_kept_policies", lambda _: [one for one in kept if one.folder.is_dir()])
    return run


def test_the_newest_is_pinned_and_outlives_its_retirement(run, digests, tiny_checkpoint):
    place = run.path / "evaluations"
    pinned = pin(run, str(tiny_checkpoint), "float32", "newest", place)
    assert (pinned.digest, pinned.name) == (digests[7], "step 7")
    shutil.rmtree(run.weights / pinned.digest)
    assert manifest.verify_parameters(pinned.folder) == digests[7]
    assert pin(run, str(tiny_checkpoint), "float32", pinned.digest[-32:], place).folder == pinned.folder
    assert pin(run, str(tiny_checkpoint), "float32", "newest", place).name == "step 3"
    release(pinned, place)
    assert [path.name for path in (place / "weights").iterdir()] == [digests[3]]


def test_weights_that_another_command_measures_stay_until_it_ends(run, tiny_checkpoint):
    place = run.path / "evaluations"
    with hold_pinned(run, str(tiny_checkpoint), "float32", "newest", place) as policy:
        release(pin(run, str(tiny_checkpoint), "float32", "newest", place), place)
        assert policy.folder.is_dir()
    assert not policy.folder.exists()


def test_weights_stay_while_an_evaluation_of_them_has_samples_to_play(run, tiny_checkpoint):
    place = run.path / "evaluations"
    with (
        hold_pinned(run, str(tiny_checkpoint), "float32", "newest", place) as policy,
        open_folder(run.path, replace(RULES, policy=policy.digest), SCHEDULED),
    ):
        pass
    assert policy.folder.is_dir()
    (kept,) = find_evaluations(run.path)
    (kept.folder / "protocol.toml").write_text("damaged")
    release(policy, place)
    assert policy.folder.is_dir()
    shutil.rmtree(kept.folder)
    release(policy, place)
    assert not policy.folder.exists()


def test_a_step_or_digest_that_is_not_kept_is_refused_with_those_that_are(run, digests, tiny_checkpoint):
    place = run.path / "evaluations"
    assert pin(run, str(tiny_checkpoint), "float32", "step:3", place).digest == digests[3]
    for asked in "step:4", "0123456789abcdef":
        with pytest.raises(RunError, match=r"step 3 \(published\), step 7 \(published\)"):
            pin(run, str(tiny_checkpoint), "float32", asked, place)
    (place / "weights" / digests[7][:8].ljust(32, "0")).mkdir()
    with pytest.raises(ConfigError, match="several digests begin with it"):
        pin(run, str(tiny_checkpoint), "float32", digests[7][:8], place)


def test_another_folder_beside_pinned_weights_takes_no_digest_away(run, digests, tiny_checkpoint):
    place = run.path / "evaluations"
    pinned = pin(run, str(tiny_checkpoint), "float32", "newest", place)
    shutil.copytree(pinned.folder, pinned.folder.with_name(f"{pinned.digest}-copy"))
    assert pin(run, str(tiny_checkpoint), "float32", digests[7], place).digest == digests[7]


def test_a_kept_policy_has_a_digest_if_the_run_published_no_other_at_that_step(run, tiny_checkpoint, monkeypatch):
    folder = shutil.copytree(tiny_checkpoint, run.path / "policies" / "step-14")
    digest, place = manifest.write(folder), run.path / "evaluations"
    for published in ((digest,), ("f" * 32, digest)):
        kept = [KeptPolicy(14, "kept", folder, published)]
        monkeypatch.setattr(policies, "list_kept_policies", lambda _, kept=kept: kept)
        pinned = pin(run, str(tiny_checkpoint), "float32", digest[:16], place)
        assert (pinned.digest, pinned.step) == (digest, 14)
        release(pinned, place)
    with pytest.raises(RunError, match=r"no policy f{32} is kept or was measured; there is step 14 \(kept\)"):
        pin(run, str(tiny_checkpoint), "float32", "f" * 32, place)
    assert not (place / "weights").exists()


@pytest.mark.parametrize("asked", ["newest", "step:7", "digest"])
def test_damaged_weights_are_not_measured(run, digests, tiny_checkpoint, asked):
    place = run.path / "evaluations"
    asked = digests[7] if asked == "digest" else asked
    pin(run, str(tiny_checkpoint), "float32", asked, place)
    file = run.weights / digests[7] / manifest.PARAMETERS  # the pinned folder has the same file
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    with pytest.raises(WeightsError, match="changed or cut short"):
        pin(run, str(tiny_checkpoint), "float32", asked, place)
    shutil.rmtree(run.weights / digests[7])
    with pytest.raises(WeightsError, match="changed or cut short"):
        pin(run, str(tiny_checkpoint), "float32", digests[7], place)


def test_a_policy_of_a_curve_is_found_by_its_step_wherever_it_lies(run, tiny_checkpoint, monkeypatch):
    folder = shutil.copytree(tiny_checkpoint, run.path / "policies" / "step-14")
    digest = manifest.write(folder)
    there = [*policies.list_kept_policies(run), KeptPolicy(14, "kept", folder, (digest,))]
    monkeypatch.setattr(policies, "list_kept_policies", lambda _: there)
    assert list_policy_names(run, "every:7") == ["step:7", "step:14"]
    pinned = pin(run, str(tiny_checkpoint), "float32", "step:14", run.path / "evaluations")
    assert (pinned.digest, pinned.step) == (digest, 14)
    run.create(load("nano"))
    with pytest.raises(
        RunError, match=r"no policy of 'every:5' is kept \(learner.keep_policy_every = 0\); there is step 3"
    ):
        list_policy_names(run, "every:5")


def test_an_average_names_a_policy_of_a_run_without_writing_into_the_run(run, digests):
    run.create(load("nano"))
    assert [find_policy(run.path, [], asked, "") for asked in ("newest", "step:3")] == [digests[7], digests[3]]
    with pytest.raises(RunError, match=r"the policy 'step:4' is not kept; there is step 3 \(published\), step 7"):
        find_policy(run.path, [], "step:4", "")
    assert not (run.path / "evaluations").exists()


def test_a_kept_policy_that_was_damaged_is_not_measured(run, tiny_checkpoint, monkeypatch):
    folder = shutil.copytree(tiny_checkpoint, run.path / "policies" / "step-14")
    manifest.write(folder)
    data = (folder / manifest.PARAMETERS).read_bytes()
    (folder / manifest.PARAMETERS).write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    monkeypatch.setattr(policies, "list_kept_policies", lambda _: [KeptPolicy(14, "kept", folder)])
    with pytest.raises(WeightsError, match="changed or cut short"):
        pin(run, str(tiny_checkpoint), "float32", "step:14", run.path / "evaluations")
    assert not (run.path / "evaluations" / "weights").exists()


def test_a_policy_that_lacks_a_file_is_not_pinned_until_the_file_is_back(run, tiny_checkpoint, monkeypatch):
    folder, place = shutil.copytree(tiny_checkpoint, run.path / "policies" / "step-14"), run.path / "evaluations"
    digest = manifest.write(folder)
    monkeypatch.setattr(policies, "list_kept_policies", lambda _: [KeptPolicy(14, "kept", folder, (digest,))])
    settings = (folder / "config.json").read_bytes()
    (folder / "config.json").unlink()
    with pytest.raises(RunError, match=rf"^{folder}/config.json: No such file"):
        pin(run, str(tiny_checkpoint), "float32", "step:14", place)
    assert not (place / "weights").exists()
    (folder / "config.json").write_bytes(settings)
    assert pin(run, str(tiny_checkpoint), "float32", "step:14", place).folder == place / "weights" / digest


@pytest.mark.parametrize("damage", [
    lambda file: file.unlink(),
    lambda file: file.write_bytes(b"{}"),
], ids=["missing", "changed"])  # fmt: skip
@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", manifest.PARAMETERS])
def test_a_pinned_folder_that_is_damaged_is_replaced(run, tiny_checkpoint, digests, damage, name):
    place = run.path / "evaluations"
    file = pin(run, str(tiny_checkpoint), "float32", "newest", place).folder / name
    whole = file.read_bytes()
    file.unlink()  # otherwise the same link would change in the run's own folder
    file.write_bytes(whole)
    damage(file)
    pin(run, str(tiny_checkpoint), "float32", "newest", place)
    assert file.read_bytes() == whole
    assert [path.name for path in (place / "weights").iterdir()] == [digests[7]]


def test_a_pinned_folder_that_lacks_a_file_is_not_measured_when_its_source_is_gone(run, tiny_checkpoint, digests):
    place = run.path / "evaluations"
    pinned = pin(run, str(tiny_checkpoint), "float32", "newest", place)
    shutil.rmtree(run.weights / digests[7])
    (pinned.folder / "config.json").unlink()
    with pytest.raises(RunError, match=rf"^{pinned.folder}/config.json: No such file"):
        pin(run, str(tiny_checkpoint), "float32", digests[7], place)


def test_a_policy_is_pinned_where_it_lies_if_nothing_can_be_written(run, tiny_checkpoint, digests):
    place = run.path / "evaluations"
    with unwritable(run.path), hold_pinned(run, str(tiny_checkpoint), "float32", "newest", place) as policy:
        assert (policy.digest, policy.folder) == (digests[7], run.weights / digests[7])
    pin(run, str(tiny_checkpoint), "float32", "newest", place)
    with unwritable(run.path), hold_pinned(run, str(tiny_checkpoint), "float32", "newest", place) as policy:
        assert policy.folder == place / "weights" / digests[7]


def test_the_start_of_a_run_is_its_model_where_it_lies(run, tiny_checkpoint):
    pinned = pin(run, str(tiny_checkpoint), "float32", "start", run.path / "evaluations")
    assert (pinned.folder, pinned.name) == (tiny_checkpoint, "start")
    release(pinned, run.path / "evaluations")
    assert tiny_checkpoint.is_dir()
