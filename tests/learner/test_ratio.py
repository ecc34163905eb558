"""What the torch engine samples is worth its full weight: with unchanged weights every importance ratio is 1."""

import numpy as np
import pytest
import torch

from actors.engines.torch import TorchEngine
from learner.batch import prepare
from learner.logprobs import trained_logprobs
from spade import codec
from spade.policy.model import load, parameters_digest
from spade.protocol import Generate, Group, Trajectory, Weights


def trajectory(asked, generated):
    """As an actor keeps it: the prompt read, the rest sampled."""
    spans = len(codec.unpack_ids(asked.prompt)), len(codec.unpack_ids(generated.ids))
    return Trajectory(asked.prompt + generated.ids, spans, generated.logprobs, ((1, spans[1]),), asked.temperature)


@pytest.mark.parametrize("temperature", [0.6, 1.0, 1.3])
def test_every_ratio_of_what_the_torch_engine_sampled_is_one(tiny_checkpoint, temperature):
    weights = Weights(1, 0, parameters_digest(tiny_checkpoint), str(tiny_checkpoint))
    engine = TorchEngine(weights, rows=4, context_tokens=256, dtype="float32", device="cpu")
    rng = np.random.default_rng(0)
    asked = [
        Generate(codec.pack_ids(rng.integers(3, 256, rng.integers(1, 80)).tolist()), 40, temperature, index)
        for index in range(12)
    ]
    for index, one in enumerate(asked):
        engine.submit(index, one)
    members = []
    while engine.busy:
        members += [trajectory(asked[index], generated) for index, generated in engine.step()]
    work = prepare((Group("a", "agent", tuple(range(12)), tuple(members)),), 512, 1.0)
    model = load(tiny_checkpoint, dtype="float32", device=torch.device("cpu"))
    with torch.no_grad():
        ratios = [torch.exp(trained_logprobs(model, micro)[0] - micro.behaviour) for micro in work.micro]
    assert sum(map(len, ratios)) == work.trained_tokens > 100
    assert (torch.cat(ratios) - 1).abs().max() < 1e-4
