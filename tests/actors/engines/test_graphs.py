"""The decoding of a GPU, with plain calls in place of captured graphs and of the flash kernel."""

import numpy as np
import pytest
import torch
import transformers
from msgspec.structs import replace

from actors.engines.torch import graphs
from actors.engines.torch.graphs import TRIP, round_up
from actors.engines.torch.sampling import invert, invert_in_blocks
from spade.codec import pack_ids, unpack_floats, unpack_ids
from spade.protocol import Generate
from tests.actors.engines.engine_contract import FollowingContract, answers
from tests.actors.engines.plain_flash import pretend_gpu
from tests.actors.engines.test_contract import torch_engine
from tests.actors.engines.test_torch_engine import TOKEN_BYTES, assert_plain, engine, requests, write_architecture


@pytest.fixture(scope="module")
def pretended():
    with pytest.MonkeyPatch.context() as patch:
        pretend_gpu(patch)
        yield


@pytest.mark.usefixtures("pretended")
class TestTrips(FollowingContract):
    @pytest.fixture(scope="class")
    @classmethod
    def engine(cls, nano, pretended):
        engine = torch_engine(nano)
        assert engine._decoder is not None
        return engine


def count_steps(monkeypatch):
    """A list that grows by the steps of each trip."""
    trips = []
    run = graphs._Step.run

    def counted(step, packed, steps):
        trips.append(steps)
        return run(step, packed, steps)

    monkeypatch.setattr(graphs._Step, "run", counted)
    return trips


def test_many_tokens_take_few_trips(tiny_checkpoint, pretended, monkeypatch):
    trips = count_steps(monkeypatch)
    sampler = engine(tiny_checkpoint)
    sampler._end_ids = frozenset()
    answers(sampler, [Generate(pack_ids([5, 6, 7]), 1 + 3 * TRIP + 2, 1.0, 1)])
    assert trips == [TRIP, TRIP, TRIP, 2]


def test_a_trip_ends_with_the_context(tiny_checkpoint, pretended, monkeypatch):
    trips = count_steps(monkeypatch)
    sampler = engine(tiny_checkpoint, context_tokens=64)
    sampler._end_ids = frozenset()
    asked = [Generate(pack_ids([7] * 59), 5, 1.0, 1), Generate(pack_ids([8] * 20), 40, 1.0, 2)]
    results = answers(sampler, asked)
    assert max(trips) == TRIP
    assert_plain(transformers.AutoModelForCausalLM.from_pretrained(tiny_checkpoint), asked, results)


def test_tokens_and_logprobs_are_those_of_single_steps(tiny_checkpoint, monkeypatch):
    """Also if the keys are so full that sequences return to the queue, and if some distributions are cut."""
    asked = [
        replace(one, top_p=(1.0, 0.9)[index % 3 == 1], top_k=(0, 40)[index % 5 == 4])
        for index, one in enumerate(requests(20, seed=15, longest=120))
    ]
    single = answers(engine(tiny_checkpoint), asked)
    pretend_gpu(monkeypatch)
    for contexts in (1, 8):
        bundled = answers(engine(tiny_checkpoint, kv_bytes=contexts * 256 * TOKEN_BYTES), asked)
        for index, generated in bundled.items():
            assert unpack_ids(generated.ids).tolist() == unpack_ids(single[index].ids).tolist()
            expected = unpack_floats(single[index].logprobs)
            np.testing.assert_allclose(unpack_floats(generated.logprobs), expected, atol=1e-4)


@pytest.mark.parametrize("name", ["qwen2, mixed", "mistral, sliding", "gpt2", "gemma3, mixed"])
def test_the_flash_path_computes_other_architectures(name, tmp_path, pretended):
    model = write_architecture(name, tmp_path)
    asked = list(requests(6, longest=30, temperature=1.0))
    assert_plain(model, asked, answers(engine(tmp_path, rows=3), asked))


@pytest.mark.parametrize("vocabulary", [5, 320, 1_536, 1_187 * 128])
def test_inversion_in_blocks_finds_the_same_tokens(vocabulary):
    generator = torch.Generator().manual_seed(vocabulary)
    logits = 4 * torch.randn(12, vocabulary, generator=generator)
    logits[4:8] = logits[4:8].masked_fill(torch.rand(4, vocabulary, generator=generator) < 0.9, -torch.inf)
    logits[4:8, 1] = 0.0
    logits[8:] = -torch.inf
    logits[8:, 3] = 0.0
    logprobs = logits.log_softmax(-1)
    drawn = torch.rand(12, generator=generator, dtype=torch.float64)
    for uniform in (drawn, torch.zeros_like(drawn), torch.full_like(drawn, 1 - 2.0**-48)):
        ids = invert_in_blocks(logprobs, uniform)
        assert ids.tolist() == invert(logprobs, uniform).tolist()
        assert logprobs.gather(-1, ids).isfinite().all()


def test_buckets_hold_their_rows_with_little_room_to_spare():
    sizes = [round_up(rows) for rows in range(1, 1_025)]
    assert all(rows <= size <= max(rows + 1, 1.25 * rows) for rows, size in enumerate(sizes, 1))
    assert len(set(sizes)) <= 36
