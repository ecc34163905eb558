"""An adapter alone is trained, published merged, and kept as peft's own folder."""

import torch
from peft import PeftModel

from learner.backends import state
from learner.models import lora
from spade import config
from spade.policy.model import load
from tests.deepspeed.backends import QUICK, STEPS, alone, deepspeed, difference, life, opened, tensors, train

LORA = ("learner.lora_rank=4", "learner.lora_alpha=8.0")
CPU = torch.device("cpu")


def merged(folder, settings, policy, after):
    """Logits of the published model after another step."""
    with opened(folder, *settings) as backend:
        backend.load(after)
        before = backend.model(torch.arange(20)[None]).logits.detach().clone()
        train(backend, policy, range(6, 7))
        return before, backend.model(torch.arange(20)[None]).logits.detach().clone()


def test_an_adapter_is_trained_and_published_merged(policy, checkpoint_folder, tmp_path):
    ours = deepspeed(3, 2, *LORA)
    for name, settings in {"torch": LORA, "deepspeed": ours}.items():
        alone(life, checkpoint_folder, settings, policy, STEPS, tmp_path / name)
    found, expected = tensors(tmp_path / "deepspeed"), tensors(tmp_path / "torch")
    assert difference(found, expected) <= 1e-5
    names = {name for name in expected if name.startswith("parameter.")}
    assert names
    assert all(".lora_" in name for name in names)

    plain = load(checkpoint_folder, dtype="float32", device=CPU)
    settings = config.load("nano", (*QUICK, *LORA, f"model.path={checkpoint_folder}"))
    lora.write_adapter(tmp_path / "torch" / state.FILE, settings.learner, tmp_path / "adapter")
    adapted = PeftModel.from_pretrained(plain, tmp_path / "adapter").eval()
    with torch.no_grad():
        apart = adapted(torch.arange(20)[None]).logits
    base = load(checkpoint_folder, dtype="float32", device=CPU)(torch.arange(20)[None]).logits
    for name in ("torch", "deepspeed"):
        now, later = alone(merged, checkpoint_folder, LORA if name == "torch" else ours, policy, tmp_path / name)
        assert torch.allclose(now, apart, atol=1e-4)
        assert not torch.allclose(now, base, atol=1e-2)  # of what was learnt
        assert not torch.equal(now, later)
