"""Engine, learner and Transformers agree on the log-probabilities of sampled tokens, in both number formats."""

import pytest
import torch
from tokenizers import Tokenizer

from actors.engines.torch.engine import TorchEngine
from learner.batch import prepare
from learner.logprobs import compute_trained_logprobs
from learner.models.prepare import prepare_model
from spade.codec import pack_floats, pack_ids, unpack_floats, unpack_ids
from spade.config import Engine
from spade.policy.logprobs import log_distribution
from spade.policy.model import load
from spade.protocol import Generate, Group, Trajectory, Weights
from tests.masks import pack_mask

CPU = torch.device("cpu")
PROMPTS = (
    "The capital of France is",
    "Question: 4 + 3 = ?\nAnswer:",
    "Once upon a time there was a small engine that sampled tokens, and",
    "def fibonacci(n):\n",
)
TOKENS = 16
DTYPES = "float32", "bfloat16"


def sampled(folder, dtype):
    """Trajectories of the engine: each prompt with tokens that it sampled, and their log-probabilities."""
    weights = Weights(1, 0, "", str(folder))
    engine = TorchEngine(weights, Engine(rows=4, context_tokens=128, kv_bytes=1 << 28, device="cpu"), dtype)
    bpe = Tokenizer.from_file(str(folder / "tokenizer.json"))
    prompts = [bpe.encode(prompt).ids for prompt in PROMPTS]
    for number, ids in enumerate(prompts):
        engine.submit(number, Generate(pack_ids(ids), TOKENS, 1.0, number))
    made = {}
    while engine.busy:
        for number, generated in engine.step():
            new, logprobs = unpack_ids(generated.ids).tolist(), unpack_floats(generated.logprobs).tolist()
            read = len(prompts[number])
            mask = [False] * read + [True] * len(new)
            made[number] = Trajectory(
                pack_ids(prompts[number] + new), pack_mask(mask), pack_floats(logprobs), ((1, len(new)),), 1.0
            )
    return tuple(made[number] for number in range(len(prompts)))


def transformers_logprobs(model, micro):
    """The same tokens by the model's own forward, one sequence after the other."""
    found, start = [], 0
    for number, length in enumerate(micro.lengths):
        logits = model(input_ids=micro.ids[None, start : start + length], use_cache=False).logits[0]
        mine = micro.sequence == number
        distribution = log_distribution(logits[micro.at[mine] - start], 1.0)
        found.append(distribution.gather(-1, micro.target[mine][:, None])[:, 0])
        start += length
    return torch.cat(found)


@pytest.fixture
def smollm2_chat(smollm2):
    return smollm2


@pytest.fixture
def gemma3_chat(gemma3, tmp_path):
    """The base model with a template, without which an engine refuses it."""
    for file in gemma3.iterdir():
        (tmp_path / file.name).symlink_to(file)
    (tmp_path / "chat_template.jinja").write_text(
        "{% for message in messages %}<start_of_turn>{{ message.role }}\n"
        "{{ message.content }}<end_of_turn>\n{% endfor %}"
        "{% if add_generation_prompt %}<start_of_turn>assistant\n{% endif %}"
    )
    return tmp_path


@pytest.mark.parametrize("name", ["smollm2_chat", "gemma3_chat"])
@torch.no_grad()
def test_engine_learner_and_transformers_agree(name, request):
    folder = request.getfixturevalue(name)
    groups = {dtype: [Group("g", "agent", (0.0, 1.0, 0.0, 1.0), sampled(folder, dtype))] for dtype in DTYPES}
    micros = {dtype: prepare(groups[dtype], 1_024, 32).micro[0] for dtype in DTYPES}
    model = load(folder, dtype="float32", device=CPU)
    exact = {dtype: transformers_logprobs(model, micro) for dtype, micro in micros.items()}
    prepare_model(model, activation_checkpointing=False)
    learner = {}
    for dtype, micro in micros.items():
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == "bfloat16"):
            learner[dtype], _ = compute_trained_logprobs(model, micro)
    wide, low = DTYPES
    for found in (micros[wide].behaviour, learner[wide]):
        assert torch.allclose(found, exact[wide], atol=2e-3)
    theirs = transformers_logprobs(load(folder, dtype=low, device=CPU), micros[low])
    rounded = (theirs - exact[low]).abs().mean()
    for found in (micros[low].behaviour, learner[low]):  # as near to float32 as Transformers in bfloat16, with room
        assert (found - exact[low]).abs().mean() < 1.5 * rounded + 0.01
