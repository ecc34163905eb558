"""Two lives of a learner over one run: what the older one would still do has no effect, wherever it was stopped."""

import hashlib
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from learner import checkpoint, weights
from learner.claim import FILE, Claim
from spade.errors import RunError
from spade.policy import kept
from spade.policy.manifest import MANIFEST, PARAMETERS
from spade.protocol import LifeNumber, StepMetrics

OLD, NEW = LifeNumber(1, 3), LifeNumber(2, 1)
OVER = "life 1.3 of learner is over: life 2.1 has taken its place"


@pytest.fixture
def root(tmp_path):
    return tmp_path / "checkpoints"


def claim(root, life):
    made = Claim(root, "learner", life)
    made.take(root, root.parent / "weights")
    return made


def write(root, step, by, save=lambda folder: None):
    def fill(folder):
        (folder / "state").write_text(f"{step}")
        save(folder)
        return {}

    with by.held():
        return checkpoint.write(root, step, StepMetrics(), fill, by.check)


def seen(folder):
    """Every file with a digest of its bytes."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_an_older_life_may_delete_a_folder_just_before_the_newer_one_does(root):
    published = root.parent / "weights"
    for folder in (root / ".draft-a", published / ".draft-a", published / "a"):
        folder.mkdir(parents=True)

    def others_delete():
        for folder in (root / ".draft-a", published / ".draft-a", published / "a"):
            shutil.rmtree(folder, ignore_errors=True)

    checkpoint.prune(root, 3, 1, others_delete)
    (published / ".draft-a").mkdir()
    weights.prune(published, ["a"], others_delete)
    assert [*root.iterdir(), *published.iterdir()] == []


def test_only_drafts_and_retired_weights_are_deleted(tmp_path):
    for name in (".draft-a", "a", "b", ".cache"):
        (tmp_path / name).mkdir()
    weights.prune(tmp_path, ["a"], lambda: None)
    assert {path.name for path in tmp_path.iterdir()} == {"b", ".cache"}


def test_an_older_life_that_was_stopped_after_its_last_check_deletes_nothing_of_a_newer_one(root):
    policies = root.parent / "policies"
    for name in "ab":
        (root.parent / name).mkdir()
        (root.parent / name / MANIFEST).write_text(name)
    old, before = claim(root, OLD), []

    def checked():
        if not before:  # the newer life lives while the older one is stopped
            before.append({})
            new = Claim(root, "learner", NEW)
            new.take(root, policies)
            write(root, 4, new)
            kept.keep(policies, 4, root.parent / "b", new.check)
            before[0] = seen(root.parent)

    def write_checkpoint():
        checkpoint.write(root, 4, StepMetrics(), lambda folder: {}, checked)

    def keep_policy():
        kept.keep(policies, 4, root.parent / "a", checked)

    for act in (write_checkpoint, keep_policy):
        before.clear()
        (root / FILE).unlink(missing_ok=True)
        shutil.rmtree(root / "step-4", ignore_errors=True)
        shutil.rmtree(policies, ignore_errors=True)
        old.check()
        with pytest.raises(FileNotFoundError):
            act()
        assert seen(root.parent) == before[0]


def test_a_newer_life_ends_what_the_older_one_does_to_the_run(root):
    old = claim(root, OLD)
    for step in (1, 2, 3):
        write(root, step, old)
    for name in "abcdef":
        (root.parent / "weights" / name).mkdir(parents=True)
        (root.parent / "weights" / name / PARAMETERS).touch()
    new = claim(root, NEW)
    before = seen(root.parent)
    for act in (
        lambda: write(root, 4, old),
        lambda: checkpoint.prune(root, 3, 1, old.check),
        lambda: weights.prune(root.parent / "weights", ["a"], old.check),
        lambda: claim(root, OLD),
        lambda: claim(root, LifeNumber()),
    ):
        with pytest.raises(RunError) as refused:
            act()
        assert str(refused.value).endswith("is over: life 2.1 has taken its place")
    assert seen(root.parent) == before
    write(root, 4, new)
    checkpoint.prune(root, 4, 1, new.check)
    weights.prune(root.parent / "weights", ["a"], new.check)
    assert [step for step, _ in checkpoint.list_kept(root)] == [4]
    assert [path.name for path in sorted((root.parent / "weights").iterdir())] == list("bcdef")


def test_a_checkpoint_that_was_begun_before_a_newer_life_came_does_not_appear_after(root):
    old = claim(root, OLD)
    write(root, 1, old)
    before = {}

    def stopped_meanwhile(folder):
        claim(root, NEW)
        before.update(seen(root))

    with pytest.raises(RunError, match=OVER):
        write(root, 2, old, stopped_meanwhile)
    assert before.keys() == {FILE, "step-1/state", f"step-1/{checkpoint.MANIFEST}"}
    assert seen(root) == before


def test_stopped_between_the_check_and_the_name_of_its_checkpoint_it_finds_no_draft(root):
    old = claim(root, OLD)

    def check():
        old.check()
        claim(root, NEW)  # it is stopped for this long

    with pytest.raises(RunError, match=OVER), old.held():
        checkpoint.write(root, 2, StepMetrics(), lambda folder: {}, check)
    assert checkpoint.find_newest(root) is None
    assert list(seen(root)) == [FILE]


def test_a_life_that_is_not_counted_claims_nothing(root):
    write(root, 1, claim(root, LifeNumber()))
    assert checkpoint.find_newest(root)[1].step == 1
    assert not (root / FILE).exists()


def test_a_damaged_claim_is_one_line(root):
    claim(root, NEW)
    (root / FILE).write_text("[2")
    with pytest.raises(RunError, match=r"life\.json: is damaged .* delete it once"):
        claim(root, NEW)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)).map(lambda pair: LifeNumber(*pair)), min_size=1))
def test_of_lives_in_any_order_the_newest_so_far_alone_may_act(tmp_path_factory, lives):
    root = tmp_path_factory.mktemp("run") / "checkpoints"
    newest = LifeNumber()
    for life in lives:
        if life < newest:
            with pytest.raises(RunError, match="is over"):
                Claim(root, "learner", life).check()
        else:
            Claim(root, "learner", life).check()
            newest = life
