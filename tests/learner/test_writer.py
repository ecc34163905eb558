"""A learner's files beside its next step: the same bytes in the same order, whatever happens meanwhile."""

import copy
import errno
import threading
import time

import pytest
import trio
from safetensors.torch import load_file

from learner import checkpoint, weights
from learner.backends import state
from learner.backends.torch import TorchBackend
from learner.claim import Claim
from learner.train import Learner
from learner.writer import Writer
from spade import config
from spade.errors import BusError, RunError
from spade.policy import kept
from spade.processes.entry import _find_verdict
from spade.protocol import Batch, LifeNumber, StepMetrics
from tests.learner.test_claim import NEW, OLD, OVER, seen
from tests.learner.told_replay import Replay
from tests.peers import changed

ALONE = LifeNumber()


class Copying(TorchBackend):
    """Writes its checkpoints beside a step, as on a GPU."""

    copies_state = True


class Run:
    """A learner of the tests' policy over a replay service of the test."""

    def __init__(self, policy, folder, root, steps, life=ALONE, **learner):
        self.root = root
        every = {"checkpoint_every": 2, "keep_checkpoints": 100, "keep_policy_every": 3, "lr": 1e-2, **learner}
        settings = changed(config.load("nano", (f"model.path={folder}",)), learner=every, supervise={"drain_s": 1.0})
        self.settings = settings
        self.backend = Copying(copy.deepcopy(policy.model), settings)
        self.replay = Replay([Batch(step, 1, policy.groups(step, off=0.5)) for step in range(1, steps + 1)], root)
        self.claim = Claim(root / "checkpoints", "learner", life)
        self.learner = Learner(self.backend, StepMetrics(), self.replay, settings, root, self.claim)

    async def live(self):
        """Until the last batch is trained and written."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.learner.live)
            await self.replay.done.wait()
            await self.learner._writer.settle()
            nursery.cancel_scope.cancel()

    def states(self):
        """The state in each checkpoint, by step."""
        found = checkpoint.list_kept(self.root / "checkpoints")
        return {step: load_file(folder / state.FILE) for step, folder in found}


@pytest.fixture
def run(policy, checkpoint_folder, tmp_path):
    def made(steps=4, name="run", **options):
        return Run(policy, checkpoint_folder, tmp_path / name, steps, **options)

    return made


@pytest.fixture
def slow(monkeypatch):
    """Hold the writing of the weights of a step, until the test lets it go on: (set as it begins, to be set)."""

    def made(step):
        begun, go_on = threading.Event(), threading.Event()
        write = Writer._write_policy

        def held(self, work):
            if work.step == step:
                begun.set()
                assert go_on.wait(30)
            return write(self, work)

        monkeypatch.setattr(Writer, "_write_policy", held)
        return begun, go_on

    return made


async def until(holds):
    while not holds():  # noqa: ASYNC110 - threads of the learner set it
        await trio.sleep(0.005)


async def test_files_and_receipts_are_those_of_a_learner_that_writes_between_its_steps(run, monkeypatch):
    beside, between = run(6, "beside"), run(6, "between")
    await beside.live()
    hand_over = Writer.hand_over

    async def settled(self, copy):
        await hand_over(self, copy)
        await self.settle()

    monkeypatch.setattr(Writer, "hand_over", settled)
    await between.live()
    assert beside.replay.told == between.replay.told
    assert beside.replay.retired == between.replay.retired
    assert [line[:2] for line in beside.replay.told] == [
        ("weights", 0), ("weights", 1), ("weights", 2), ("checkpoint", 2), ("weights", 3), ("weights", 4),
        ("checkpoint", 4), ("weights", 5), ("weights", 6), ("checkpoint", 6),
    ]  # fmt: skip
    assert len({line[2] for line in beside.replay.told if line[0] == "weights"}) == 7
    for name in ("weights", kept.FOLDER):
        assert seen(beside.root / name) == seen(between.root / name)
        assert list((beside.root / name).iterdir())
    ours, theirs = beside.states(), between.states()
    assert ours.keys() == theirs.keys() == {2, 4, 6}
    for step, tensors in ours.items():
        assert tensors.keys() == theirs[step].keys()
        assert all((value == theirs[step][name]).all() for name, value in tensors.items())


async def test_a_learner_trains_one_step_beside_a_slow_disk_and_no_more(run, slow):
    tested = run()
    begun, go_on = slow(2)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(tested.live)
        await until(begun.is_set)
        await until(lambda: tested.backend.step == 3)
        await until(lambda: "its writer" in {wait.holder for wait in tested.replay.client.waits.report()})
        await trio.sleep(0.1)
        assert tested.backend.step == 3
        assert tested.replay.told[-1][:2] == ("weights", 1)
        go_on.set()
    assert tested.replay.told[-1] == ("checkpoint", 4)
    assert (tested.root / kept.FOLDER / "step-3").is_dir()


async def test_a_step_beside_changes_nothing_of_what_is_written(run, slow):
    tested, plain = run(name="tested"), run(name="plain")
    begun, go_on = slow(2)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(tested.live)
        await until(begun.is_set)
        await until(lambda: tested.backend.step == 3)
        go_on.set()
    for step in (1, 2):
        plain.backend.train(plain.replay.batches[step])
    digest, _ = weights.publish(plain.backend.model, "float32", tested.root.parent / "model", plain.root / "weights")
    assert ("weights", 2, digest) in tested.replay.told
    plain.root.joinpath("state").mkdir()
    plain.backend.save(plain.root / "state")
    expected, found = load_file(plain.root / "state" / state.FILE), tested.states()[2]
    assert expected.keys() == found.keys()
    assert all((value == found[name]).all() for name, value in expected.items())


async def test_a_disk_that_fails_meanwhile_ends_the_learner_in_one_line(run, monkeypatch):
    tested = run()
    write = weights.PolicyCopy.write

    def failing(self, tokenizer, root):
        if tested.replay.told and tested.replay.told[-1][1] == 2:
            raise OSError(errno.EIO, "Input/output error", str(root))
        return write(self, tokenizer, root)

    monkeypatch.setattr(weights.PolicyCopy, "write", failing)
    with pytest.RaisesGroup(pytest.RaisesExc(OSError, match="Input/output error"), flatten_subgroups=True) as failed:
        await tested.live()
    code, line, _ = _find_verdict(failed.value)
    assert code == 1
    assert line == f"OSError: [Errno 5] Input/output error: '{tested.root / 'weights'}'"
    assert list(tested.states()) == [2]  # no checkpoint is tried on such a disk
    assert tested.replay.told[-1] == ("checkpoint", 2)


async def test_a_learner_that_is_told_to_leave_finishes_what_it_writes(run, slow):
    tested = run()
    begun, go_on = slow(3)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(tested.learner.live)
        await until(begun.is_set)
        await until(lambda: tested.backend.step == 4)
        nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            await trio.sleep(0.05)
            assert tested.replay.told[-1][:2] == ("checkpoint", 2)
            go_on.set()
    assert tested.replay.told[-1][:2] == ("weights", 3)  # the next life announces those of step 4
    assert list(tested.states()) == [2, 4]
    assert (tested.root / kept.FOLDER / "step-3").is_dir()


async def test_a_learner_that_is_told_to_leave_does_not_begin_a_checkpoint_twice(run, slow):
    """It has trained no step since the work in hand, whose checkpoint is the last one anyway."""
    tested = run()
    begun, go_on = slow(4)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(tested.learner.live)
        await until(begun.is_set)
        await tested.replay.done.wait()
        nursery.cancel_scope.cancel()
        go_on.set()
    assert tested.replay.told[-1][:2] == ("weights", 4)
    assert list(tested.states()) == [2, 4]


async def test_a_learner_that_leaves_keeps_a_policy_whose_publication_failed(run, slow):
    tested = run()
    begun, go_on = slow(3)
    publish = tested.replay.publish

    async def failing(step, *rest):
        if step == 3:
            raise BusError("no answer")
        return await publish(step, *rest)

    tested.replay.publish = failing
    with pytest.RaisesGroup(pytest.RaisesExc(BusError), flatten_subgroups=True):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(tested.learner.live)
            await until(begun.is_set)
            await until(lambda: tested.backend.step == 4)
            nursery.cancel_scope.cancel()
            go_on.set()
    assert list(tested.states()) == [2, 4]
    kept_policy = tested.root / kept.FOLDER / "step-3"
    plain = run(name="plain")
    await plain.live()
    assert seen(kept_policy) == seen(plain.root / kept.FOLDER / "step-3")


async def test_a_replay_service_that_does_not_answer_costs_a_leaving_learner_no_checkpoint(run):
    tested = run()
    tested.replay.silent = 3
    async with trio.open_nursery() as nursery:
        nursery.start_soon(tested.learner.live)
        await tested.replay.done.wait()
        await until(lambda: tested.backend.step == 4)
        nursery.cancel_scope.cancel()
    assert tested.replay.told[-1] == ("checkpoint", 2)
    assert list(tested.states()) == [2, 4]


async def test_a_newer_life_ends_what_an_older_one_writes_beside_a_step(run, slow):
    tested = run(life=OLD)
    begun, go_on = slow(2)
    with pytest.RaisesGroup(pytest.RaisesExc(RunError, match=OVER), flatten_subgroups=True):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(tested.learner.live)
            await until(begun.is_set)
            Claim(tested.root / "checkpoints", "learner", NEW).take(
                tested.root / "checkpoints", tested.root / "weights"
            )
            before = seen(tested.root)
            go_on.set()
    assert seen(tested.root) == before
    assert tested.replay.told[-1][:2] == ("weights", 1)


async def test_a_newer_life_that_deletes_meanwhile_ends_the_older_one_in_the_same_line(run, monkeypatch):
    tested = run(life=OLD)

    def deleted(root, needed):
        Claim(tested.root / "checkpoints", "learner", NEW).take()
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(root / "gone"))

    monkeypatch.setattr(weights, "list_spare", deleted)
    with pytest.RaisesGroup(pytest.RaisesExc(RunError, match=OVER), flatten_subgroups=True):
        await tested.live()


async def test_a_state_that_is_not_copied_is_written_between_two_steps(run, monkeypatch):
    """As by a learner on a CPU, and by ranks that write their parts."""
    monkeypatch.setattr(Copying, "copies_state", False)
    tested = run()
    saved = []

    def saving(folder):
        before = tested.backend.step
        time.sleep(0.2)
        saved.append((before, tested.backend.step))
        return TorchBackend.save(tested.backend, folder)

    tested.backend.save = saving
    await tested.live()
    assert saved == [(2, 2), (4, 4)]
    assert list(tested.states()) == [2, 4]
