"""Ranks on two machines with a cable between them: the same numbers as one process, and the loss of a machine."""

import sys
import time

import msgspec
import pytest

from learner.backends import meeting
from spade import config
from spade.errors import SpadeError
from spade.protocol import Batch, Meet
from spade.transport import keys
from tests.deepspeed.backends import QUICK, STEPS, deepspeed, difference, tensors
from tests.e2e.machines import two_machines
from tests.spade.roles import SOON_S

ADDRESS = "tcp://10.78.0.1:5555"
SILENCE_S = 5.0


@pytest.fixture
def machines():
    with two_machines() as pair:
        yield pair


def start(machines, home, policy, folder, *overrides):
    """Both ranks; returns the first one's process and the other's."""
    home.mkdir()
    keys.create(home / "keys", ())
    given = (*QUICK, f"model.path={folder}", f"bus.keys={home / 'keys'}", "supervise.drain_s=60", *overrides)
    (home / "config.toml").write_text(config.dump(config.load("nano", given)))
    batches = [Batch(step, 1, policy.groups(step, off=0.5)) for step in STEPS]
    (home / "batches").write_bytes(msgspec.msgpack.encode(batches))
    return [
        machine.start(sys.executable, "-m", "tests.deepspeed.on_machine", str(home), ADDRESS, str(rank))
        for rank, machine in enumerate(machines)
    ]


def test_two_machines_give_the_parameters_of_one_process(machines, policy, checkpoint_folder, train_torch, tmp_path):
    home = tmp_path / "home"
    first, other = start(machines, home, policy, checkpoint_folder, *deepspeed(3, 2, "bus.silence_s=60"))
    (home / "out").mkdir()
    expected, _ = train_torch(policy, checkpoint_folder)
    told = [line for line in first.communicate(timeout=SOON_S)[0].splitlines() if line.startswith(("meets", "step"))]
    assert told == ["meets at wire", *(f"step {step}" for step in STEPS)]
    said = other.communicate(timeout=SOON_S)[0]
    # One that asks for no command when the first rank leaves sees that it is gone.
    assert "the learner's first rank has left" in said or "the learner's first rank is gone" in said
    assert difference(tensors(home / "out"), expected) <= 1e-5


def test_the_loss_of_a_machine_ends_the_first_rank_in_one_line(machines, policy, checkpoint_folder, tmp_path):
    settings = deepspeed(2, 2, f"bus.silence_s={SILENCE_S}")
    first, _ = start(machines, tmp_path / "home", policy, checkpoint_folder, *settings)
    while (line := first.stdout.readline()) != "step 2\n":
        assert line, "it ended"
    machines[1].cut_power()
    cut = time.monotonic()
    told = [line for line in first.communicate(timeout=SOON_S)[0].splitlines() if not line.startswith("step ")]
    assert time.monotonic() - cut < SILENCE_S + 30, "a busy machine is slow, but no collective's deadline passed"
    assert [line for line in told if "all ranks begin again at the checkpoint" in line], told


def test_a_first_rank_that_cannot_be_joined_is_one_line(monkeypatch):
    monkeypatch.setattr(meeting, "MEET_S", 1.0)
    store, port = meeting.open_store("127.0.0.1", 2)
    del store
    with pytest.raises(
        SpadeError, match=rf"^the learner's first rank cannot be joined at 127.0.0.1 port {port} \(.*any port$"
    ):
        meeting.find_store(Meet("127.0.0.1", port, "cpu"), 2)
