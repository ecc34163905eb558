"""The learner on a GPU: its step beside the same step on the CPU, and a checkpoint of it."""

import msgspec
import pytest
import torch

from learner.backends.torch import TorchBackend
from spade.config import load as load_config
from spade.policy.model import load
from tests.gpu.shapes import make_batch
from tests.peers import changed

CPU = torch.device("cpu")


def open_backend(folder, device, dtype, **learner):
    settings = changed(
        load_config("nano"), model={"path": str(folder), "dtype": dtype},
        learner={"microbatch_tokens": 1_024, "activation_checkpointing": False, "lr": 1e-5, **learner},
    )  # fmt: skip
    model = load(folder, dtype="float32", device=device).requires_grad_(True)
    return TorchBackend(model, settings)


@pytest.fixture(scope="module")
def batch(reference):
    return make_batch(2_048, 128, reference.config.vocab_size, 40)


def train(backend, batch):
    return backend.train(msgspec.structs.replace(batch, step=backend.step + 1))


def list_parameters(backend):
    return torch.cat([value.detach().float().flatten().cpu() for _, value in backend.model.named_parameters()])


@pytest.mark.parametrize("checkpointing", [False, True])
def test_a_step_is_the_step_of_the_cpu(folder, device, batch, checkpointing):
    metrics = {
        where: train(open_backend(folder, where, "float32", activation_checkpointing=checkpointing), batch)
        for where in (CPU, device)
    }
    ours, theirs = metrics[device], metrics[CPU]
    assert ours.trained_tokens == theirs.trained_tokens
    assert ours.loss == pytest.approx(theirs.loss, rel=1e-3, abs=1e-4)
    assert ours.grad_norm == pytest.approx(theirs.grad_norm, rel=1e-2)
    assert ours.entropy == pytest.approx(theirs.entropy, rel=1e-3)
    assert ours.mismatch == pytest.approx(theirs.mismatch, rel=1e-2)


def test_bfloat16_is_near_float32(folder, device, batch):
    narrow, wide = (train(open_backend(folder, device, dtype), batch) for dtype in ("bfloat16", "float32"))
    assert narrow.loss == pytest.approx(wide.loss, rel=0.1, abs=0.02)
    assert narrow.grad_norm == pytest.approx(wide.grad_norm, rel=0.15)


def test_a_checkpoint_goes_on(folder, device, batch, tmp_path):
    first = open_backend(folder, device, "bfloat16")
    train(first, batch)
    first.save(tmp_path)
    second = open_backend(folder, device, "bfloat16")
    second.load(tmp_path)
    assert second.step == 1
    assert torch.equal(list_parameters(first), list_parameters(second))
    train(first, batch)
    train(second, batch)
    moved = (list_parameters(first) - list_parameters(second)).abs().max()
    assert moved < 2e-5  # of two steps of 1e-5: sums of a GPU are not in one order


# DeepSpeed imports parts of torch that warn of their end, and leaves its process group open.
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_deepspeed_takes_the_step_of_torch(folder, device, batch):
    pytest.importorskip("deepspeed")
    from learner.backends.deepspeed import DeepSpeedBackend
    from learner.backends.ranks import Ranks

    settings = changed(
        load_config("nano"), model={"path": str(folder), "dtype": "bfloat16"},
        learner={
            "microbatch_tokens": 1_024, "activation_checkpointing": False, "lr": 1e-5, "backend": "deepspeed",
            "device": str(device),
        },
    )  # fmt: skip
    backend = DeepSpeedBackend(settings, Ranks(settings))
    try:
        ours = train(backend, batch)
    finally:
        backend.close()
    theirs = train(open_backend(folder, device, "bfloat16"), batch)
    assert ours.loss == pytest.approx(theirs.loss, rel=0.05, abs=0.01)
    assert ours.grad_norm == pytest.approx(theirs.grad_norm, rel=0.05)
