"""A learner step on one batch: ours, TRL's GRPO trainer, and a plain padded loop.

Two batches: "uneven", plays of several turns whose tokens have nothing in common; "groups", 64 plays of one turn, of
which eight share each prompt.

    pip install trl
    python -m tests.bench.learner [--rounds 5] [--models tiny nano] [--out learner.json]

All take the same optimiser step on the same trajectories, sampled with the very weights they train, so that importance
weights are 1 and all three gradients should be one. Interleaved, one thread; medians. Seconds are the process's own
on the CPU: other work on the machine does not add its share. `peak` is what torch allocated at once during
a step, gradients included, parameters and Adam's moments not.
"""

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.profiler import ProfilerActivity, profile
from transformers import AutoTokenizer, Qwen3Config, Qwen3ForCausalLM, set_seed

from learner.advantage import group_advantages
from learner.backends.torch import TorchBackend
from learner.batch import prepare
from learner.logprobs import compute_trained_logprobs
from learner.optimizer import BETAS, EPS
from spade.codec import pack_floats, pack_ids, unpack_ids, unpack_mask
from spade.config import Config, load
from spade.policy.model import load as load_model
from spade.policy.model_folder import resolve
from spade.protocol import Batch, Group, Trajectory
from tests.bench.harness import command, conclude, in_turns
from tests.masks import pack_mask

PLAYS = 8  # of a group
ROWS = 8  # of a micro-batch of TRL, its default, and of the plain loop; ours is cut by tokens
Step = Callable[[], None]


def make_model(name: str) -> Any:
    """Load the shipped "nano" or a checkpoint's folder, or make "tiny": two random layers, a vocabulary of 4,096."""
    if name != "tiny":
        return load_model(resolve(name), dtype="float32", device=torch.device("cpu"))
    set_seed(0)
    settings = Qwen3Config(
        vocab_size=4_096, hidden_size=64, intermediate_size=192, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, tie_word_embeddings=True,
    )  # fmt: skip
    return Qwen3ForCausalLM(settings).eval()


# ---------------------------------------------------------------- the batch


def play(ids: list[int], sampled: list[bool]) -> Trajectory:
    return Trajectory(pack_ids(ids), pack_mask(sampled), pack_floats([0.0] * sum(sampled)), ((1, sum(sampled)),), 1.0)


def uneven(rng: np.random.Generator) -> Iterator[Trajectory]:
    """12 groups. Lengths are log-normal (deviation 0.8), median 100, between 24 and 384 tokens.

    A quarter of a play is its prompt. Turns of 12 sampled tokens follow, with observations of 12 between them.
    """
    for drawn in np.clip(rng.lognormal(np.log(100), 0.8, 12 * PLAYS), 24, 384):
        length = int(drawn)
        prompt = length // 4
        sampled = [False] * prompt + [at // 12 % 2 == 0 for at in range(length - prompt)]
        yield play(rng.integers(3, 1_500, length).tolist(), sampled)


def grouped(rng: np.random.Generator) -> Iterator[Trajectory]:
    """8 groups: a common prompt of 80 to 120 tokens, of which 30 are the same in all groups; answers of 8 to 32."""
    system = rng.integers(3, 1_500, 30).tolist()
    for _ in range(8):
        prompt = system + rng.integers(3, 1_500, int(rng.integers(50, 91))).tolist()
        for _ in range(PLAYS):
            said = int(rng.integers(8, 33))
            yield play(prompt + rng.integers(3, 1_500, said).tolist(), [False] * len(prompt) + [True] * said)


def make_batch(kind: str, model: Any) -> Batch:
    """Plays whose behaviour log-probabilities are the model's own, computed one by one."""
    rng = np.random.default_rng(0)
    plays = list({"uneven": uneven, "groups": grouped}[kind](rng))
    for index, one in enumerate(plays):
        (micro,) = prepare([Group("g", "agent", (1.0,), (one,))], 1, 1.0).micro
        with torch.no_grad():
            logprobs, _ = compute_trained_logprobs(model, micro)
        plays[index] = msgspec.structs.replace(one, logprobs=pack_floats(logprobs.tolist()))
    groups = tuple(
        Group(str(at), "agent", tuple(rng.random(PLAYS).tolist()), tuple(plays[at : at + PLAYS]))
        for at in range(0, len(plays), PLAYS)
    )
    return Batch(1, 1, groups)


def rows(batch: Batch) -> list[tuple[Tensor, Tensor, float]]:
    """ids int64 (tokens,), sampled bool (tokens,) and the advantage of each play."""
    return [
        (torch.from_numpy(unpack_ids(play.ids).astype(np.int64)), torch.from_numpy(unpack_mask(play).astype(bool)), a)
        for group in batch.groups
        for play, a in zip(group.trajectories, group_advantages(group).tolist(), strict=True)
    ]


# ---------------------------------------------------------------- who takes the step


def adamw(model: Any, config: Config) -> torch.optim.AdamW:
    learner = config.learner
    return torch.optim.AdamW(model.parameters(), learner.lr, BETAS, EPS, weight_decay=0.0, fused=True)


def ours(model: Any, batch: Batch, config: Config) -> Step:
    """The torch back-end as a run uses it, from the batch that replay sends to the metrics it reports."""
    backend = TorchBackend(model, config)

    def step() -> None:
        backend.train(Batch(backend.step + 1, 1, batch.groups))

    return step


def plain(model: Any, batch: Batch, config: Config) -> Step:
    """Rows as they came, padded to the longest of their micro-batch, whole logits."""
    plays, optimizer = rows(batch), adamw(model, config)
    total = sum(int(sampled.sum()) for _, sampled, _ in plays)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        for at in range(0, len(plays), ROWS):
            part = plays[at : at + ROWS]
            ids = torch.nn.utils.rnn.pad_sequence([ids for ids, _, _ in part], batch_first=True)
            sampled = torch.nn.utils.rnn.pad_sequence([sampled for _, sampled, _ in part], batch_first=True)[:, 1:]
            real = torch.nn.utils.rnn.pad_sequence([torch.ones_like(ids) for ids, _, _ in part], batch_first=True)
            logits = model(input_ids=ids, attention_mask=real, use_cache=False).logits[:, :-1]
            scores = torch.log_softmax(logits, -1).gather(-1, ids[:, 1:, None])[..., 0]
            advantage = torch.tensor([advantage for _, _, advantage in part])[:, None]
            (-(torch.exp(scores - scores.detach()) * advantage * sampled).sum() / total).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), config.learner.max_grad_norm)
        optimizer.step()

    return step


def trl(model: Any, batch: Batch, config: Config) -> Step:
    """`GRPOTrainer`'s own loss of each micro-batch; padded over the batch and shuffled as it pads and shuffles."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    plays, optimizer = rows(batch), adamw(model, config)
    count = len(plays) // ROWS
    arguments = GRPOConfig(
        output_dir=tempfile.mkdtemp(), per_device_train_batch_size=ROWS, gradient_accumulation_steps=count,
        num_generations=PLAYS, use_cpu=True, bf16=False, report_to=[], beta=0.0, loss_type="dapo", temperature=1.0,
        gradient_checkpointing=False,
    )  # fmt: skip
    trainer = GRPOTrainer(
        model, lambda completions, **_: [0.0] * len(completions), args=arguments,
        train_dataset=Dataset.from_list([{"prompt": "p"}] * count),
        processing_class=AutoTokenizer.from_pretrained(resolve("nano")),
    )  # fmt: skip
    trainer.current_gradient_accumulation_steps = count
    prompts = [int(sampled.long().argmax()) for _, sampled, _ in plays]
    left, right = max(prompts), max(len(ids) - prompt for (ids, _, _), prompt in zip(plays, prompts, strict=True))

    def padded(values: list[Tensor]) -> tuple[Tensor, Tensor]:
        both = [(value[:at], value[at:]) for value, at in zip(values, prompts, strict=True)]
        return (
            torch.stack([pad(value, (left - len(value), 0)) for value, _ in both]),
            torch.stack([pad(value, (0, right - len(value))) for _, value in both]),
        )

    prompt_ids, completion_ids = padded([ids for ids, _, _ in plays])
    prompt_mask, completion_mask = padded([torch.ones_like(ids) for ids, _, _ in plays])
    _, tool_mask = padded([sampled.long() for _, sampled, _ in plays])
    inputs = {
        "prompt_ids": prompt_ids, "prompt_mask": prompt_mask, "completion_ids": completion_ids,
        "completion_mask": completion_mask, "tool_mask": tool_mask,
        "advantages": torch.tensor([advantage for _, _, advantage in plays]),
    }  # fmt: skip
    order = torch.randperm(len(plays), generator=torch.Generator().manual_seed(0)).split(ROWS)
    model.train()

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        for part in order:
            micro = {name: value[part] for name, value in inputs.items()} | {"num_items_in_batch": tool_mask.sum()}
            trainer.compute_loss(model, micro).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), config.learner.max_grad_norm)
        optimizer.step()

    return step


# ---------------------------------------------------------------- what is measured


def gradient(model: Any) -> Tensor:
    """As the last step left it; clipping changes its length alone."""
    return torch.cat([one.grad.flatten() for one in model.parameters()]).double()


def peak_bytes(step: Step) -> int:
    """The most that torch held of what it allocated since the step began."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        step()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        recorded.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    return max(event["args"]["Total Allocated"] for event in events if event.get("name") == "[memory]")


@contextmanager
def computing(model: Any) -> Iterator[list[float]]:
    """CPU seconds from the start of each forward to the end of its backward, and in the optimiser."""
    spans: list[float] = []
    starts: list[float] = []
    backward, optimise = Tensor.backward, torch.optim.AdamW.step

    def begin(*_: Any) -> None:
        starts.append(time.process_time())

    def whole_backward(*arguments: Any, **options: Any) -> None:
        backward(*arguments, **options)
        spans.append(time.process_time() - starts.pop())

    def whole_optimise(*arguments: Any, **options: Any) -> None:
        begin()
        optimise(*arguments, **options)
        spans.append(time.process_time() - starts.pop())

    hook = model.base_model.register_forward_pre_hook(begin)
    with patch.object(Tensor, "backward", whole_backward), patch.object(torch.optim.AdamW, "step", whole_optimise):
        yield spans
    hook.remove()


def seconds(step: Step) -> float:
    began = time.process_time()
    step()
    return time.process_time() - began


def overhead(model: Any, step: Step) -> float:
    """Share of a step outside forward, loss, backward and optimiser."""
    with computing(model) as spans:
        whole = seconds(step)
    return 1 - sum(spans) / whole


def measure(name: str, kind: str, rounds: int) -> dict[str, dict[str, float]]:
    """Figures by contender, of the model `name` on the batch `kind`."""
    config = load("nano", ("learner.lr=1e-6", "learner.schedule=constant"))
    batch = make_batch(kind, make_model(name))
    models = {who.__name__: make_model(name) for who in (ours, plain, trl)}
    steps = {who.__name__: who(models[who.__name__], batch, config) for who in (ours, plain, trl)}
    for step in steps.values():  # also warms up
        step()
    found = {who: gradient(model) for who, model in models.items()}
    jobs = {who: lambda _, step=step: seconds(step) for who, step in steps.items()}
    taken = in_turns({**jobs, "overhead": lambda _: overhead(models["ours"], steps["ours"])}, rounds)
    tokens = sum(play.tokens for group in batch.groups for play in group.trajectories)
    work = prepare(batch.groups, config.learner.microbatch_tokens, config.learner.designer_weight_max)
    figures = {
        who: {
            "seconds": median(taken[who]),
            "tokens/s": tokens / median(taken[who]),
            "peak MiB": peak_bytes(steps[who]) / 2**20,
            "cosine to plain": torch.cosine_similarity(found[who], found["plain"], 0).item(),
        }
        for who in steps
    }
    figures["ours"]["times TRL"] = median(a / b for a, b in zip(taken["trl"], taken["ours"], strict=True))
    figures["ours"]["times plain"] = median(a / b for a, b in zip(taken["plain"], taken["ours"], strict=True))
    figures["ours"]["overhead %"] = 100 * median(taken["overhead"])
    figures["ours"] |= {"tokens read": work.read_tokens, "tokens computed": work.computed_tokens}
    return figures


def main() -> None:
    arguments = command(__doc__, rounds=5, models=["tiny", "nano"], out=Path("learner.json")).parse_args()
    torch.set_num_threads(1)
    figures = {
        f"{name} {kind}": measure(name, kind, arguments.rounds)
        for kind in ("uneven", "groups")
        for name in arguments.models
    }
    lines = [
        "  ".join([f"{name:<12}{who:<6}", *(f"{key} {value:.6g}" for key, value in row.items())])
        for name, rows in figures.items()
        for who, row in rows.items()
    ]
    conclude(arguments.out, figures, "\n".join(lines))


if __name__ == "__main__":
    main()
