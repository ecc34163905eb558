"""Builds the nano checkpoint from scratch: a tokenizer and a warm start, reproducible from a seed."""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import GenerationConfig, PreTrainedModel, Qwen3Config, Qwen3ForCausalLM

from actors.corpus import load
from actors.nano.demonstrations import Demonstration, make_demonstration
from actors.nano.world import World
from actors.nano.worlds import WORLDS
from actors.text.profile import Document
from spade.app.nano import LAYERS
from spade.app.nano.simulation import SIMULATIONS
from spade.app.nano.tokens import ASSISTANT, END, FORMS, PAD, SPECIAL, USER, Row, encode, make_tokenizer
from spade.app.printing import say
from spade.config import DomainName
from spade.policy.model import write_parameters
from spade.progress import follow
from spade.seeds import derive
from spade.tokens import Tokenizer

STEPS_PER_MINUTE = 60
"""Steps for each minute on one core. Fixed, so that a build is the same on every machine."""

DEMONSTRATIONS_PER_STEP = 6
MICRO_BATCH_TOKENS = 800
TOKENIZER_DEMONSTRATIONS = 4000
HINT_ONE_IN = 2
"""One demonstration in this many includes its hint. Hints are shorter than programs, and need fewer demonstrations."""

MUON_RATE, ADAM_RATE = 0.01, 6e-3
WARM_UP, COOL_DOWN = 0.02, 0.8
"""Shares of the steps in which the learning rate rises and falls."""

ECHO_STEPS, ECHO_ROWS = 300, 32
ECHO_TOKENS = (8, 20)
"""Least and greatest length of the random token sequences that the model first learns to repeat. This teaches copying
within a minute. Programs alone teach it late."""

RECORD = "build.json"


class Build(msgspec.Struct, frozen=True):
    """The record of a build, kept beside its checkpoint."""

    seed: int
    """Decides everything random."""

    steps: int
    """Steps of the warm start."""

    world: DomainName = "games"
    """The domain of the world that the model learns."""

    layers: int = LAYERS
    """Number of layers of the model."""

    @property
    def demonstrations(self) -> int:
        return self.steps * DEMONSTRATIONS_PER_STEP


def build(out: Path, seed: int, minutes: float, domain: DomainName = "games", layers: int = LAYERS) -> Build:
    """Make a checkpoint folder at `out`."""
    # One thread sums in a fixed order, so that the same seed gives the same weights.
    torch.set_num_threads(1)
    record = Build(seed, round(minutes * STEPS_PER_MINUTE), domain, layers)
    world = WORLDS[domain]
    out.mkdir(parents=True, exist_ok=True)
    corpus = load("builtin", domain)
    tokenizer = make_tokenizer(make_texts(world, seed, corpus), FORMS[domain], out)
    model = make_initial(tokenizer, seed, layers)
    model.train()
    teach_copying(model, tokenizer, seed)
    warm_start(world, model, tokenizer, record, corpus)
    write_parameters(model, out)
    (out / RECORD).write_bytes(msgspec.json.encode(record) + b"\n")
    return record


def make_texts(world: World, seed: int, corpus: Sequence[Document]) -> Iterator[str]:
    """Yield the texts for training the tokenizer: a design request for each document, and demonstrations."""
    for document in corpus:
        yield world.profile.design("", document, [], None)[0].content
    for index in range(TOKENIZER_DEMONSTRATIONS):
        shown = make_demonstration(world, SIMULATIONS[world.name], seed, index, corpus)
        for conversation in (shown.design, shown.hint, *shown.plays):
            yield from (message.content for message in conversation.messages)


def make_initial(tokenizer: Tokenizer, seed: int, layers: int) -> PreTrainedModel:
    """Return a random Qwen3. With four layers it has about a million parameters."""
    [end] = tokenizer.end_ids
    config = Qwen3Config(
        vocab_size=tokenizer.size,
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=1024,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=end,
        pad_token_id=SPECIAL.index(PAD),
        dtype="float32",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model: PreTrainedModel = Qwen3ForCausalLM(config)  # type: ignore[no-untyped-call]
    model.generation_config = GenerationConfig(  # type: ignore[no-untyped-call]
        do_sample=True, temperature=1.0, eos_token_id=end, pad_token_id=config.pad_token_id
    )
    return model


def teach_copying(model: PreTrainedModel, tokenizer: Tokenizer, seed: int) -> None:
    """Train the model to repeat the user. Attention learns to look up what followed an earlier copy of a token."""
    optimizers = make_optimizers(model)
    rng = random.Random(derive(b"", "nano echoes", seed))
    words = range(len(SPECIAL), tokenizer.size)
    for step in follow(range(ECHO_STEPS), "copying"):
        sequences = [rng.choices(words, k=rng.randint(*ECHO_TOKENS)) for _ in range(ECHO_ROWS)]
        rows = [make_echo(tokenizer, ids) for ids in sequences]
        loss = accumulate(model, [rows])
        descend(optimizers, min((step + 1) / (WARM_UP * ECHO_STEPS), 1.0))
    say(f"copying: loss {loss:.3f}")


def make_echo(tokenizer: Tokenizer, ids: list[int]) -> Row:
    """Return the tokens of a conversation in which the assistant repeats the user."""
    user, assistant, end = (tokenizer.encode(mark) for mark in (USER, ASSISTANT, END))
    prompt = user + ids + end + assistant
    return prompt + ids + end, [False] * len(prompt) + [True] * len(ids + end)


def warm_start(
    world: World, model: PreTrainedModel, tokenizer: Tokenizer, record: Build, corpus: Sequence[Document]
) -> None:
    """Train the model to imitate demonstrations. Each demonstration is used once."""
    optimizers = make_optimizers(model)
    for step in follow(range(record.steps), "warm start"):
        first = step * DEMONSTRATIONS_PER_STEP
        shown = [
            make_demonstration(world, SIMULATIONS[world.name], record.seed, first + n, corpus)
            for n in range(DEMONSTRATIONS_PER_STEP)
        ]
        loss = accumulate(model, make_micro_batches(tokenizer, shown))
        descend(optimizers, schedule((step + 1) / record.steps))
        if step % 100 == 0:
            say(f"step {step} of {record.steps}, loss {loss:.3f}")


def descend(optimizers: Sequence[tuple[torch.optim.Optimizer, float]], share: float) -> None:
    """Take one optimiser step, with this share of the peak learning rates."""
    for optimizer, rate in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = rate * share
        optimizer.step()
        optimizer.zero_grad()


def make_optimizers(model: PreTrainedModel) -> list[tuple[torch.optim.Optimizer, float]]:
    """Return Muon for the inner matrices and Adam for embeddings and norms, each with its peak rate."""
    inner = [p for name, p in model.named_parameters() if p.ndim == 2 and "embed" not in name]
    outer = [p for name, p in model.named_parameters() if p.ndim != 2 or "embed" in name]
    return [
        (torch.optim.Muon(inner, lr=MUON_RATE, weight_decay=0.01), MUON_RATE),
        (torch.optim.Adam(outer, lr=ADAM_RATE, betas=(0.9, 0.98)), ADAM_RATE),
    ]


def schedule(progress: float) -> float:
    """Return the share of the peak rates at a step: a linear rise, a plateau, a linear fall to 0."""
    return min(progress / WARM_UP, 1.0, (1.0 - progress) / COOL_DOWN)


def make_micro_batches(tokenizer: Tokenizer, shown: Sequence[Demonstration]) -> list[list[Row]]:
    """Batch the conversations of demonstrations by length, to limit padding."""
    conversations = [conversation for one in shown for conversation in (one.design, *one.plays)]
    conversations += [one.hint for one in shown[::HINT_ONE_IN]]
    batches: list[list[Row]] = [[]]
    for row in sorted((encode(tokenizer, conversation) for conversation in conversations), key=count_tokens):
        if sum(map(count_tokens, batches[-1])) >= MICRO_BATCH_TOKENS:
            batches.append([])
        batches[-1].append(row)
    return batches


def count_tokens(row: Row) -> int:
    """Return the length of a row."""
    return len(row[0])


def accumulate(model: PreTrainedModel, batches: Sequence[Sequence[Row]]) -> float:
    """Accumulate the gradient of the mean loss over the imitated tokens of all micro-batches. Return the loss."""
    total = sum(sum(imitated) for batch in batches for _, imitated in batch)
    summed = 0.0
    for batch in batches:
        loss = compute_batch_loss(model, batch) / total
        loss.backward()  # type: ignore[no-untyped-call]
        summed += loss.item()
    return summed


def compute_batch_loss(model: PreTrainedModel, batch: Sequence[Row]) -> Tensor:
    """Return the summed cross-entropy of the imitated tokens. Causal attention never sees the padding on the right."""
    ids = nn.utils.rnn.pad_sequence([torch.tensor(ids) for ids, _ in batch], batch_first=True)
    imitated = nn.utils.rnn.pad_sequence([torch.tensor(mask) for _, mask in batch], batch_first=True)[:, 1:]
    hidden = model.base_model(input_ids=ids[:, :-1], use_cache=False).last_hidden_state
    logits = model.lm_head(hidden[imitated])
    return cross_entropy(logits, ids[:, 1:][imitated], reduction="sum")
