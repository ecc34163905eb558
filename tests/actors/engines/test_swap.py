"""An engine samples from what was published, or not at all: weights are corrupted for real here."""

from pathlib import Path

import pytest
import torch
import trio
from msgspec.structs import replace
from transformers import GenerationConfig, Qwen3Config, Qwen3ForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM

from actors.engines import server as engine_server
from actors.engines.torch.engine import TorchEngine
from actors.engines.weights.swap import TOLERANCE, swap
from learner import weights as learner
from spade.config import Engine
from spade.errors import RunError, WeightsError
from spade.policy import canary, manifest
from spade.policy import model as policy
from spade.protocol import Weights
from tests.actors.engines.test_server import request, running, settings
from tests.peers import alone

SHAPE = {
    "vocab_size": 300, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 512, "initializer_range": 0.2,
    "eos_token_id": 2,
}  # fmt: skip
MOST = TOLERANCE["float32"]


def model(tied=True, experts=False, seed=0):
    torch.manual_seed(seed)
    if experts:
        made = Qwen3MoeForCausalLM(
            Qwen3MoeConfig(**SHAPE, num_experts=4, num_experts_per_tok=2, tie_word_embeddings=tied)
        )
    else:
        made = Qwen3ForCausalLM(Qwen3Config(**SHAPE, tie_word_embeddings=tied))
    made.generation_config = GenerationConfig(eos_token_id=2, pad_token_id=0)
    return made.eval()


class Learner:
    """A model whose weights are published again and again."""

    def __init__(self, tokenizer, root, made, dtype="float32"):
        self.model, self._tokenizer, self._root, self._dtype, self._version = made, tokenizer, root, dtype, 0
        self._random = torch.Generator().manual_seed(0)

    @torch.no_grad()
    def publish(self):
        """New weights, all of them changed."""
        for parameter in self.model.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=self._random))
        self._version += 1
        digest, folder = learner.publish(self.model, self._dtype, self._tokenizer, self._root / "weights")
        return Weights(self._version, self._version, digest, str(folder))


def engine(weights, dtype="float32"):
    return TorchEngine(weights, Engine(rows=2, context_tokens=64, kv_bytes=1 << 28, device="cpu"), dtype)


@pytest.mark.parametrize("made", [{"tied": True}, {"tied": False}, {"experts": True}], ids=str)
def test_new_weights_are_copied_into_the_model_and_agree_with_the_learner(tiny_checkpoint, tmp_path, made):
    source = Learner(tiny_checkpoint, tmp_path, model(**made))
    serving = engine(source.publish())
    places = {name: one.data_ptr() for name, one in serving._model.state_dict().items()}
    for _ in range(2):
        newest = source.publish()
        assert swap(serving, newest, MOST).off < 1e-5
    expected = policy.load(tmp_path / "weights" / newest.digest, dtype="float32", device=torch.device("cpu"))
    for name, one in serving._model.state_dict().items():
        assert torch.equal(one, expected.state_dict()[name])
        assert one.data_ptr() == places[name]


def test_bfloat16_is_within_its_tolerance_and_other_weights_are_not(tiny_checkpoint, tmp_path):
    source = Learner(tiny_checkpoint, tmp_path, model(), "bfloat16")
    first = source.publish()
    serving = engine(first, "bfloat16")
    newest = source.publish()
    off = swap(serving, newest, TOLERANCE["bfloat16"]).off
    assert 0 < off < TOLERANCE["bfloat16"] / 2
    stale = canary.compute_mismatch(canary.read(tmp_path / "weights" / first.digest), serving.logprobs(range(8)))
    assert stale > TOLERANCE["bfloat16"]


@pytest.mark.parametrize("kept", ["lm_head.weight", "model.norm.weight", "model.layers.1.mlp.down_proj.weight"])
def test_an_engine_that_keeps_an_old_tensor_does_not_sample(tiny_checkpoint, tmp_path, monkeypatch, kept):
    source = Learner(tiny_checkpoint, tmp_path, model(tied=False))
    serving = engine(source.publish())
    old = serving._model.state_dict()[kept].clone()
    load = serving.load_weights

    def stale(weights):
        load(weights)
        serving._model.state_dict()[kept].copy_(old)

    monkeypatch.setattr(serving, "load_weights", stale)
    with pytest.raises(WeightsError, match="policy version 2: the canary"):
        swap(serving, source.publish(), MOST)


def test_a_canary_that_is_off_at_the_start_ends_the_engine_for_good(tiny_checkpoint, tmp_path):
    first = Learner(tiny_checkpoint, tmp_path, model()).publish()
    whole = canary.read(Path(first.path))
    canary.write(replace(whole, logprobs=tuple(each - 1 for each in whole.logprobs)), Path(first.path))
    with pytest.raises(RunError, match=r"policy version 1: the canary is off by 1\S* nats"):
        engine_server._load(settings(), first)


def test_a_canary_that_is_no_number_is_off(tiny_checkpoint, tmp_path):
    source = Learner(tiny_checkpoint, tmp_path, model())
    serving = engine(source.publish())
    with torch.no_grad():
        serving._model.get_input_embeddings().weight.fill_(torch.nan)
    expected = canary.read(tmp_path / "weights" / serving._digest)
    assert canary.compute_mismatch(expected, serving.logprobs(expected.ids)) == float("inf")


def test_weights_that_are_gone_are_passed_over_and_the_old_ones_stay(tiny_checkpoint, tmp_path):
    source = Learner(tiny_checkpoint, tmp_path, model())
    serving = engine(source.publish())
    before = serving.logprobs(range(8))
    assert swap(serving, Weights(2, 2, 32 * "0", str(tmp_path / "gone")), MOST) is None
    assert serving.version == 1
    assert serving.logprobs(range(8)) == before


def test_another_models_weights_are_refused_before_anything_is_copied(tiny_checkpoint, tmp_path):
    serving = engine(Learner(tiny_checkpoint, tmp_path, model()).publish())
    before = serving.logprobs(range(8))
    (tmp_path / "other").mkdir()
    wider = Qwen3ForCausalLM(Qwen3Config(**SHAPE | {"intermediate_size": 128}, tie_word_embeddings=True)).eval()
    with pytest.raises(WeightsError, match="does not fit"):
        serving.load_weights(Learner(tiny_checkpoint, tmp_path / "other", wider).publish())
    assert serving.logprobs(range(8)) == before


async def test_a_byte_that_the_canary_cannot_see_ends_the_engine(tmp_path, tiny_checkpoint):
    made = policy.load(tiny_checkpoint, dtype="float32", device=torch.device("cpu"))
    source = Learner(tiny_checkpoint, tmp_path, made)

    async def serve():
        async with running(settings(), source.publish()) as (caller, replay):
            assert (await caller.call(request(1))).digests == bytes.fromhex(replay.weights.digest)
            bad = source.publish()
            file = tmp_path / "weights" / bad.digest / manifest.PARAMETERS
            start, _ = manifest.read_spans(file)["model.layers.1.mlp.down_proj.weight"]
            data = bytearray(file.read_bytes())
            data[start] ^= 1  # the last bit of one number
            file.write_bytes(data)
            await replay.announce(bad)
            await trio.sleep_forever()

    with pytest.RaisesGroup(pytest.RaisesExc(WeightsError, match="its digest is not"), flatten_subgroups=True):
        await serve()


@pytest.mark.parametrize("first", [True, False], ids=["start", "swap"])
def test_weights_are_kept_while_they_are_loaded_however_many_are_published_meanwhile(
    tiny_checkpoint, tmp_path, monkeypatch, first
):
    """An engine that takes its time to start, as vLLM does, is overtaken by publications."""
    source = Learner(tiny_checkpoint, tmp_path, model())
    running = engine(source.publish())
    weights = source.publish()

    def overtaken(loads):
        def loaded(*args, **kwargs):
            for _ in range(learner.KEPT):
                newest = source.publish()
            learner.prune(tmp_path / "weights", frozenset({newest.digest}), alone)
            return loads(*args, **kwargs)

        return loaded

    if first:
        monkeypatch.setattr(engine_server, "open_engine", overtaken(lambda weights, *_: engine(weights)))
        _, swapped = engine_server._load(settings(), weights)
    else:
        monkeypatch.setattr(running, "load_weights", overtaken(running.load_weights))
        swapped = swap(running, weights, MOST)
    assert swapped.off <= MOST, "and their canary is asked"


def test_weights_that_are_gone_before_an_engine_starts_are_one_clear_line(tmp_path):
    with pytest.raises(WeightsError, match="policy version 3 was retired"):
        engine_server._load(settings(), Weights(3, 3, 32 * "0", str(tmp_path / "gone")))
