"""Compiled layers and functions, traced as on a GPU and run by their plain operations, against the same uncompiled."""

import pytest
import torch
import transformers

from learner import logprobs
from learner.batch import prepare
from learner.logprobs import compute_trained_logprobs
from learner.models import compiled
from learner.models.attention import PACKED, compute_packed_attention
from learner.models.prepare import prepare_model
from tests.learner.test_shared_beginnings import batch_of, gradient, make

pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")


@pytest.fixture
def traced(monkeypatch):
    """Trace as on a GPU. Yields the graphs."""
    graphs = []

    def keep(graph, _):
        graphs.append(graph)
        return graph.forward

    monkeypatch.setattr(compiled, "_BACKEND", keep)
    monkeypatch.setattr(compiled, "_TOKENS", 20)
    monkeypatch.setattr(compiled, "can_compile", lambda: True)
    monkeypatch.setattr(logprobs, "_fits_fusion", lambda *_: True)
    yield graphs
    torch._dynamo.reset()
    compiled.compile_function.cache_clear()
    transformers.AttentionInterface.register(PACKED, compute_packed_attention)


@pytest.mark.slow
def test_compiled_layers_compute_the_same_without_another_graph_for_each(traced, monkeypatch):
    groups, found = batch_of(1)[1], []
    work = prepare(groups, 60, 32.0)
    assert len({len(micro.ids) for micro in work.micro}) > 2
    for fused in (False, True):
        monkeypatch.setattr(compiled, "can_compile", lambda fused=fused: fused)
        policy = make("qwen3")
        prepare_model(policy.model, activation_checkpointing=True)
        if fused:
            assert compiled.compile_layers(policy.model)
            assert all(one.grad is None for one in policy.model.parameters())
            layers = len(traced)
            compiled.compile_function.cache_clear()
        scores = []
        for micro in work.micro:
            score, entropy = compute_trained_logprobs(policy.model, micro)
            score.sum().backward()
            scores += [score.detach(), entropy]
        found.append((torch.cat(scores), gradient(policy.model)))
    for plain, ours in zip(*found, strict=True):
        assert torch.allclose(ours, plain, atol=1e-5, rtol=1e-4)
    assert 2 <= layers <= 5, "one set of graphs serves all layers"
    assert layers < len(traced) <= layers + 4, "the functions of the head, and no layer again"


def test_a_model_that_cannot_be_compiled_stays_as_it_is(traced, monkeypatch, caplog):
    def fail(graph, inputs):
        raise ValueError("no compiler\nfor this")

    monkeypatch.setattr(compiled, "_BACKEND", fail)
    model, ids = make("llama").model, torch.arange(12)[None]
    expected = model(ids).logits
    assert not compiled.compile_layers(model)
    assert "cannot compile a layer of llama" in caplog.text
    assert torch.equal(model(ids).logits, expected)


def test_nothing_is_compiled_without_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    compiled.can_compile.cache_clear()
    compiled.compile_function.cache_clear()
    assert compiled.compile_function(abs) is abs
    assert not compiled.compile_layers(make("llama").model)
    compiled.can_compile.cache_clear()
