"""The torch engine on a GPU: its arithmetic, its receipts, and new weights in it."""

import pytest
import torch

from actors.engines.torch.engine import TorchEngine
from actors.engines.torch.flash import FlashCall
from actors.engines.weights.swap import TOLERANCE, compare
from learner import weights as learner
from learner.batch import prepare
from learner.logprobs import compute_trained_logprobs
from learner.models.prepare import prepare_model
from spade.codec import pack_ids, unpack_floats, unpack_ids
from spade.config import Engine
from spade.policy import canary
from spade.policy.model import compute_parameters_digest, load
from spade.protocol import Generate, Group, Trajectory, Weights
from tests.actors.engines.plain_flash import run_plainly
from tests.masks import pack_mask

ROWS, PLAYS, TOKENS = 16, 24, 24


def open_engine(folder, dtype, device, version=1):
    given = Weights(version, version - 1, compute_parameters_digest(folder), str(folder))
    settings = Engine(rows=ROWS, context_tokens=256, kv_bytes=1 << 28, device=str(device))
    return TorchEngine(given, settings, dtype)


def make_prompts(model, count):
    """Prompts of different lengths. Every second one begins like the one before it."""
    ids = canary.spread_ids(model, 2_000)
    prompts = [ids[at : at + 20 + 7 * (at % 9)] for at in range(count)]
    return [prompts[at - 1][:18] + one if at % 2 else one for at, one in enumerate(prompts)]


def play(engine, prompts, before_step=lambda step: None):
    """Return the engine's answers to the prompts."""
    for number, ids in enumerate(prompts):
        engine.submit(number, Generate(pack_ids(ids), TOKENS, 1.0, number))
    answers, steps = {}, 0
    while engine.busy:
        before_step(steps)
        answers.update(engine.step())
        steps += 1
    return [answers[number] for number in range(len(prompts))]


def make_trajectories(prompts, answers):
    made = []
    for prompt, answer in zip(prompts, answers, strict=True):
        new = unpack_ids(answer.ids).tolist()
        mask = [False] * len(prompt) + [True] * len(new)
        made.append(Trajectory(pack_ids(prompt + new), pack_mask(mask), answer.logprobs, tuple(answer.versions), 1.0))
    return tuple(made)


@torch.no_grad()
def compute_exact(reference, prompts, answers):
    """Return the log-probabilities of the sampled tokens in float32 on the CPU, one sequence after the other."""
    found = []
    for prompt, answer in zip(prompts, answers, strict=True):
        ids = prompt + unpack_ids(answer.ids).tolist()
        logits = reference(torch.tensor([ids]), use_cache=False).logits[0]
        found += canary.next_logprobs(logits, ids)[len(prompt) - 1 :]
    return torch.tensor(found)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@torch.no_grad()
def test_engine_learner_and_the_cpu_agree_on_sampled_tokens(folder, reference, device, dtype):
    prompts = make_prompts(reference, PLAYS)
    answers = play(open_engine(folder, dtype, device), prompts)
    exact = compute_exact(reference, prompts, answers)
    model = load(folder, dtype="float32", device=device)
    prepare_model(model, activation_checkpointing=False)
    made = make_trajectories(prompts, answers)
    returns = tuple(float(number % 2) for number in range(PLAYS))
    work = prepare([Group("g", "agent", returns, made)], 100_000, 32)
    (micro,) = work.micro
    assert work.computed_tokens < work.read_tokens  # some beginnings are shared
    with torch.autocast(device.type, dtype=torch.bfloat16, enabled=dtype == "bfloat16"):
        learned = compute_trained_logprobs(model, micro.to(device))[0].cpu()
    sampled = torch.cat([torch.from_numpy(unpack_floats(answer.logprobs).copy()) for answer in answers])
    if dtype == "float32":
        assert (sampled - exact).abs().max() < 5e-3
        assert (learned - micro.behaviour).abs().max() < 5e-3
        return
    narrow = load(folder, dtype=dtype, device=device)
    rounded = []
    for prompt, answer in zip(prompts, answers, strict=True):
        ids = prompt + unpack_ids(answer.ids).tolist()
        logits = narrow(torch.tensor([ids], device=device), use_cache=False).logits[0]
        rounded += canary.next_logprobs(logits, ids)[len(prompt) - 1 :]
    own = (torch.tensor(rounded) - exact).abs().mean()  # of Transformers in bfloat16
    assert (sampled - exact).abs().mean() < 1.5 * own + 0.01
    assert (learned - micro.behaviour).abs().mean() < 3 * own + 0.01


@pytest.mark.parametrize("window", [None, 100])
@pytest.mark.parametrize(("rows", "heads", "dim"), [(2, 2, 128), (70, 5, 80), (900, 1, 64), (600, 20, 64)])
def test_the_kernel_of_single_queries_is_attention(device, rows, heads, dim, window):
    generator = torch.Generator().manual_seed(rows)
    counts = torch.randint(1, 700, (rows,), generator=generator).int()
    first = torch.randint(0, 1_000, (rows + 1,), generator=generator).int()
    drawn = [torch.randn(*shape, generator=generator) for shape in ((rows, heads, dim), (1_700, dim), (1_700, dim))]
    narrow = [each.bfloat16() for each in drawn]
    if device.type == "cpu":
        pytest.skip("the kernel needs a GPU")
    from actors.engines.torch import single  # torch for a CPU has no Triton

    assert single.can_attend(device, torch.bfloat16)
    found = single.attend_single(*(each.to(device) for each in (*narrow, first, counts)), None, window)
    call = FlashCall(None, torch.arange(rows + 1).int(), first, counts, 1, 700)
    expected = run_plainly(*(each.float() for each in narrow), call, None, window)
    assert (found.cpu().float() - expected).abs().max() < 0.03


@torch.no_grad()
def test_new_weights_reach_sequences_in_flight(folder, device, tmp_path):
    engine = open_engine(folder, "bfloat16", device)
    model = load(folder, dtype="float32", device=device)
    for parameter in model.parameters():
        parameter.mul_(1.01)
    digest, published = learner.publish(model, "bfloat16", folder, tmp_path)
    newer = Weights(2, 1, digest, str(published))
    prompts = make_prompts(model, 4)

    def swap(step):
        if step == 2:  # a GPU samples up to eight tokens in a step
            engine.load_weights(newer)

    answers = play(engine, prompts, swap)
    assert {version for answer in answers for version, _ in answer.versions} == {1, 2}
    off = compare(engine, newer, canary.read(published), TOLERANCE["bfloat16"])
    assert off is not None
    model.to(torch.bfloat16)
    fresh = play(engine, prompts)
    again = play(open_engine(published, "bfloat16", device, version=2), prompts)
    same = sum(one.ids == other.ids for one, other in zip(fresh, again, strict=True))
    assert same >= 3, "the engine samples other tokens than an engine that begins with the new weights"


def test_a_context_longer_than_one_forward_is_computed(folder, reference, device):
    """A prompt in several pieces gives the same log-probabilities as in one."""
    engine = open_engine(folder, "float32", device)
    ids = canary.spread_ids(reference, 200)
    answers = play(engine, [ids, ids[:100], ids])
    exact = compute_exact(reference, [ids], answers[:1])
    assert (torch.from_numpy(unpack_floats(answers[0].logprobs).copy()) - exact).abs().max() < 5e-3
