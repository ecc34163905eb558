import pytest
import torch
from transformers import Gemma2Config, Gemma2ForCausalLM

from learner import logprobs
from learner.batch import prepare
from learner.logprobs import check_head, compute_trained_logprobs
from spade import codec
from spade.errors import RunError
from tests.learner.conftest import VOCABULARY


def reference(policy, groups):
    """Log-probabilities of all sampled tokens, sequence by sequence, by the whole model."""
    found = []
    for group in groups:
        for member in group.trajectories:
            every = policy.logprobs(codec.unpack_ids(member.ids), member.temperature)
            mask = torch.from_numpy(codec.unpack_mask(member).copy()).bool()
            found.append(every[mask[1:]])
    return torch.cat(found)


def ordered(policy, groups, limit):
    """The same through micro-batches, in their order, and the behaviour log-probabilities in it."""
    micros = prepare(groups, limit, 32).micro
    scores = torch.cat([compute_trained_logprobs(policy.model, micro)[0] for micro in micros])
    return scores, torch.cat([micro.behaviour for micro in micros])


@pytest.mark.parametrize("temperature", [0.6, 1.0])
@pytest.mark.parametrize("limit", [30, 10_000])
def test_equals_the_whole_model_at_the_trajectory_s_temperature(policy, temperature, limit):
    groups = policy.groups(1, temperature)
    scores, behaviour = ordered(policy, groups, limit)
    assert torch.allclose(scores, behaviour, atol=1e-5)
    assert torch.allclose(scores.sort().values, reference(policy, groups).sort().values, atol=1e-5)


def test_a_row_knows_nothing_of_its_neighbours(policy):
    groups = policy.groups(2)
    together = prepare(groups, 10_000, 32).micro
    assert len(together) == 1  # padded to the longest
    alone = [prepare([group], 1, 32).micro for group in groups]
    separate = torch.cat([compute_trained_logprobs(policy.model, micro)[0] for micros in alone for micro in micros])
    joint, _ = compute_trained_logprobs(policy.model, together[0])
    assert torch.allclose(joint.sort().values, separate.sort().values, atol=1e-5)


def test_chunks_of_the_vocabulary_change_neither_value_nor_gradient(policy, monkeypatch):
    micro = prepare(policy.groups(3), 10_000, 32).micro[0]
    found = []
    for elements in (logprobs.LOGITS, 7 * policy.model.config.vocab_size):
        monkeypatch.setattr(logprobs, "LOGITS", elements)
        policy.model.zero_grad()
        scores, entropy = compute_trained_logprobs(policy.model, micro)
        scores.square().sum().backward()
        gradient = torch.cat([one.grad.flatten() for one in policy.model.parameters()])
        found.append((scores.detach(), entropy, gradient))
    for whole, chunked in zip(*found, strict=True):
        assert torch.allclose(whole, chunked, rtol=1e-4, atol=1e-4)


def test_entropy_is_that_of_the_tempered_distribution(policy):
    member = policy.groups(4, 0.5)[0].trajectories[0]
    group = policy.groups(4, 0.5)[0]
    work = prepare([group], 1, 32)
    ids = torch.from_numpy(codec.unpack_ids(member.ids).astype("int64"))
    distribution = torch.distributions.Categorical(logits=policy.model(ids[None]).logits[0] / 0.5)
    trained = torch.tensor([at - 1 for at, sampled in enumerate(codec.unpack_mask(member)) if sampled])
    expected = distribution.entropy()[trained]
    found = [compute_trained_logprobs(policy.model, micro)[1] for micro in work.micro]
    assert any(len(one) == len(expected) and torch.allclose(one, expected, atol=1e-5) for one in found)
    assert not any(one.requires_grad for one in found)


def test_a_model_that_caps_its_logits_is_refused(policy):
    check_head(policy.model)
    torch.manual_seed(0)
    settings = Gemma2Config(
        vocab_size=48, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, head_dim=16, final_logit_softcapping=0.1, initializer_range=0.5,
    )  # fmt: skip
    with pytest.raises(RunError, match="gemma2 changes its logits"):
        check_head(Gemma2ForCausalLM(settings).eval())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_vocabulary_axis_never_exceeds_its_chunk(policy, monkeypatch, dtype):
    """Tensors that autograd keeps and that the head makes, forward and backward, with and without autocast."""
    rows, vocabulary = 5, VOCABULARY + 3  # a size that nothing else in the model has
    policy.model.resize_token_embeddings(vocabulary)
    monkeypatch.setattr(logprobs, "LOGITS", rows * vocabulary)
    micro = prepare(policy.groups(3), 10_000, 32).micro[0]
    made, kept, head = [], [], policy.model.get_output_embeddings().weight
    policy.model.get_output_embeddings().register_forward_hook(lambda head, inputs, logits: made.append(logits.shape))

    def keep(tensor):
        kept.append(tensor.shape)
        return tensor

    with (
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
        torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == torch.bfloat16),
    ):
        scores, entropy = compute_trained_logprobs(policy.model, micro)
    assert scores.dtype == entropy.dtype == torch.float32
    scores.sum().backward()
    chunks = -(-len(micro.target) // rows)
    assert len(made) == 2 * chunks, "each is computed again for its gradient"
    assert all(shape[0] <= rows for shape in made)
    assert not [shape for shape in kept if vocabulary in shape[1:] and shape[0] > rows and shape != head.shape[::-1]]
    exact = policy.model(micro.ids[None], position_ids=micro.positions[None], use_cache=False).logits[0, micro.at]
    expected = torch.log_softmax(exact / micro.temperature[:, None], -1).gather(1, micro.target[:, None])[:, 0]
    assert torch.allclose(scores, expected, atol=1e-4 if dtype == torch.float32 else 0.2)


@pytest.mark.parametrize("frozen", [False, True])
def test_scores_without_kept_logits_are_the_plain_ones(policy, monkeypatch, frozen):
    """As on a GPU, in chunks of 7 positions."""
    micro = prepare(policy.groups(3), 10_000, 32).micro[0]
    head = policy.model.get_output_embeddings().weight
    if frozen:
        policy.model.requires_grad_(False).model.layers.requires_grad_(True)
    monkeypatch.setattr(logprobs, "GPU_LOGITS", 7 * len(head))
    found = []
    for fits in (False, True):
        monkeypatch.setattr(logprobs, "_fits_fusion", lambda *_, fits=fits: fits)
        policy.model.zero_grad()
        scores, entropy = compute_trained_logprobs(policy.model, micro)
        scores.square().sum().backward()
        gradients = [one.grad.flatten() for one in policy.model.parameters() if one.grad is not None]
        assert (head.grad is None) == frozen
        found.append((scores.detach(), entropy, torch.cat(gradients)))
    for plain, ours in zip(*found, strict=True):
        assert torch.allclose(ours, plain, rtol=1e-4, atol=1e-3)
