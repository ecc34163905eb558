"""A tiny random policy and trajectories sampled from it by a plain forward pass of our own."""

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from learner import optimizer
from spade import codec
from spade.protocol import Group, Trajectory
from tests.masks import pack_mask

VOCABULARY = 48


@pytest.fixture
def large_eps(monkeypatch: pytest.MonkeyPatch) -> None:
    """An ε of AdamW under which rounding does not decide the direction of a step."""
    monkeypatch.setattr(optimizer, "EPS", 1e-3)


class Policy:
    """A model and what a reference implementation says about it: whole logits, no batching, no padding."""

    def __init__(self, model: Qwen3ForCausalLM) -> None:
        self.model = model

    def logprobs(self, ids: np.ndarray, temperature: float) -> torch.Tensor:
        """Log-probability of ids[1:], each given what precedes it; float32, (tokens - 1,), with gradient."""
        logits = self.model(torch.from_numpy(ids.astype(np.int64))[None]).logits[0, :-1] / temperature
        return torch.log_softmax(logits, -1)[torch.arange(len(ids) - 1), torch.from_numpy(ids[1:].astype(np.int64))]

    @torch.no_grad()
    def trajectory(self, rng: np.random.Generator, temperature: float = 0.7, off: float = 0.0) -> Trajectory:
        """Random tokens, some of them counted as sampled at `temperature`; `off` shifts their log-probabilities."""
        length = int(rng.integers(4, 20))
        ids = rng.integers(0, VOCABULARY, length).astype(np.int32)
        mask = rng.random(length) < 0.5
        mask[0], mask[-2] = False, True
        logprobs = np.zeros(length, np.float32)
        logprobs[1:] = self.logprobs(ids, temperature).numpy() + off * rng.normal(size=length - 1)
        return Trajectory(
            codec.pack_ids(ids.tolist()), pack_mask(mask.tolist()), codec.pack_floats(logprobs[mask].tolist()),
            ((1, int(mask.sum())),), temperature,
        )  # fmt: skip

    def groups(self, seed: int, temperature: float = 0.7, off: float = 0.0) -> tuple[Group, ...]:
        """Two agent groups of four plays, a designer group of two and a designer alone."""
        rng = np.random.default_rng(seed)

        def group(id: str, role: str, size: int, baseline: float | None = None) -> Group:
            members = tuple(self.trajectory(rng, temperature, off) for _ in range(size))
            return Group(id, role, tuple(rng.random(size).tolist()), members, baseline)

        return (
            group("a", "agent", 4),
            group("d", "designer", 2),
            group("b", "agent", 4),
            group("e", "designer", 1, 0.2),
        )


def make_policy() -> Policy:
    torch.manual_seed(7)
    settings = Qwen3Config(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=16, max_position_embeddings=64, tie_word_embeddings=True, initializer_range=0.2,
    )  # fmt: skip
    return Policy(Qwen3ForCausalLM(settings).eval())


def write_checkpoint(policy: Policy, folder: Path) -> Path:
    """Write the policy in the Hugging Face layout, with a file that stands for its tokenizer."""
    policy.model.save_pretrained(folder)
    (folder / "tokenizer.json").write_text('{"model": null}')
    return folder


@pytest.fixture
def policy() -> Policy:
    return make_policy()


@pytest.fixture
def checkpoint_folder(policy: Policy, tmp_path: Path) -> Path:
    return write_checkpoint(policy, tmp_path / "model")
