"""The contract of every kind of engine, on the nano checkpoint: a kind's tests subclass these and say how it starts."""

from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from msgspec.structs import replace
from transformers import AutoModelForCausalLM, DynamicCache, PreTrainedModel

from actors.engines.torch.sampling import truncate_logprobs
from spade.codec import pack_ids, unpack_floats, unpack_ids
from spade.errors import WeightsError
from spade.policy.canary import next_logprobs
from spade.policy.logprobs import log_distribution
from spade.policy.manifest import MANIFEST
from spade.policy.model import compute_parameters_digest, save
from spade.policy.model_folder import NANO
from spade.protocol import Generate, Generated, Weights
from spade.tokens import Tokenizer
from tests.actors.engines.swapping import asked_over_swaps

ROWS, CONTEXT = 4, 256
END = Tokenizer.load(NANO).end_ids
CLOSE = {"rtol": 0, "atol": 1e-4}  # nats


class Checkpoint(NamedTuple):
    """A checkpoint folder, its digest, and what it holds as transformers loads it."""

    folder: Path
    digest: str
    model: PreTrainedModel

    def weights(self, version: int) -> Weights:
        return Weights(version, version - 1, self.digest, str(self.folder))


def checkpoint(folder: Path) -> Checkpoint:
    return Checkpoint(folder, compute_parameters_digest(folder), AutoModelForCausalLM.from_pretrained(folder))


def request(index, tokens=40, max_tokens=60, temperature=0.9, first=()):
    rng = np.random.default_rng(index)
    prompt = [*first, *rng.integers(3, 1_500, tokens).tolist()]
    return Generate(pack_ids(prompt), max_tokens, temperature, 1_000 + index)


def answers(engine, requests, between=lambda results: None):
    """Submit all and step until none is left, looking at the results so far in between; results by index."""
    for index, one in enumerate(requests):
        assert engine.refusal(one) is None
        engine.submit(index, one)
    results = {}
    while engine.busy:
        for index, result in engine.step():
            assert index not in results
            assert isinstance(result, Generated), result
            results[index] = result
        between(results)
    return results


def logprobs(served, one, generated):
    """Of the sampled tokens, by plain forwards: `served` are runs (model, count) as the versions claim them.

    The keys of a token are of the model that read it, as they are where a sequence goes on under new weights.
    """
    whole = torch.from_numpy(np.concatenate([unpack_ids(one.prompt), unpack_ids(generated.ids)]).astype(np.int64))
    cache, at, parts = DynamicCache(), 0, []
    read = len(one.prompt) // 4 - 1
    for model, count in served:
        read += count
        with torch.inference_mode():
            logits = model(whole[None, at:read], past_key_values=cache, use_cache=True).logits[0]
        parts.append(log_distribution(logits, one.temperature).gather(1, whole[at + 1 : read + 1, None])[:, 0])
        at = read
    return torch.cat(parts)[-len(generated.ids) // 4 :].numpy()


def assert_sampled_from(model, one, generated):
    expected = logprobs([(model, len(generated.ids) // 4)], one, generated)
    np.testing.assert_allclose(unpack_floats(generated.logprobs), expected, **CLOSE)


class EngineContract:
    """Subclasses have a fixture `engine`: `ROWS` at once, `CONTEXT` tokens each, float32, the nano model."""

    @pytest.fixture(scope="class")
    @classmethod
    def nano(cls):
        return checkpoint(NANO)

    def test_logprobs_are_those_of_a_full_forward(self, engine, nano):
        """So with unchanged weights the learner's importance ratio is 1."""
        asked = [request(index, 5 + 3 * index, temperature=(0.6, 1.0)[index % 2]) for index in range(3 * ROWS)]
        results = answers(engine, asked)
        assert len(results) == len(asked)
        for index, generated in results.items():
            assert_sampled_from(nano.model, asked[index], generated)

    def test_a_shared_beginning_changes_nothing(self, engine, nano):
        common = list(range(3, 120))
        asked = [request(index, 5, first=common) for index in range(ROWS)]
        for _ in range(2):
            for index, generated in answers(engine, asked).items():
                assert_sampled_from(nano.model, asked[index], generated)

    def test_long_prompts_that_come_together(self, engine, nano):
        """More tokens than one step may read."""
        asked = [request(index, CONTEXT - 56, max_tokens=20) for index in range(2 * ROWS)]
        for index, generated in answers(engine, asked).items():
            assert_sampled_from(nano.model, asked[index], generated)

    def test_a_seed_gives_the_same_alone_and_in_a_crowd_and_another_does_not(self, engine):
        asked = [request(index) for index in range(2 * ROWS)]
        crowd = answers(engine, asked)
        for index in (0, ROWS + 1):
            assert answers(engine, [asked[index]])[0].ids == crowd[index].ids
        prompt = asked[0].prompt
        others = answers(engine, [Generate(prompt, 30, 1.0, seed) for seed in range(ROWS)])
        assert len({generated.ids for generated in others.values()}) > ROWS // 2

    def test_an_answer_ends_at_an_end_token_or_at_its_limit(self, engine):
        asked = [request(index, max_tokens=(4, 120)[index % 2], temperature=1.0) for index in range(4 * ROWS)]
        finishes = set()
        for index, generated in answers(engine, asked).items():
            ids = unpack_ids(generated.ids).tolist()
            finishes.add(generated.finish)
            assert not END & set(ids[:-1])
            assert (ids[-1] in END) == (generated.finish == "stop")
            assert len(ids) == asked[index].max_tokens or generated.finish == "stop"
        assert finishes == {"stop", "length"}

    def test_logprobs_are_those_of_the_distribution_that_was_cut(self, engine, nano):
        asked = [replace(request(index, temperature=0.8), top_p=0.7, top_k=(0, 5)[index % 2]) for index in range(ROWS)]
        for index, generated in answers(engine, asked).items():
            one, sampled = asked[index], unpack_ids(generated.ids).astype(np.int64)
            whole = torch.from_numpy(np.concatenate([unpack_ids(one.prompt), sampled]).astype(np.int64))
            with torch.inference_mode():
                logits = nano.model(whole[None]).logits[0, -len(sampled) - 1 : -1]
            count = torch.ones(len(sampled))
            cut = truncate_logprobs(
                log_distribution(logits, one.temperature), 0.7 * count, (one.top_k or logits.shape[1]) * count
            )
            expected = cut.gather(1, torch.from_numpy(sampled)[:, None])[:, 0]
            np.testing.assert_allclose(unpack_floats(generated.logprobs), expected, **CLOSE)

    def test_a_stop_string_ends_an_answer_and_is_part_of_it(self, engine, nano):
        asked = [request(index, max_tokens=60, temperature=1.0) for index in range(ROWS)]
        index, longest = max(answers(engine, asked).items(), key=lambda answer: len(answer[1].ids))
        one, ids = asked[index], unpack_ids(longest.ids).tolist()
        tokenizer = Tokenizer.load(NANO)
        word = tokenizer.decode(ids[4:6])
        assert word
        stopped = answers(engine, [replace(one, stop=("never said", word))])[0]
        kept = unpack_ids(stopped.ids).tolist()
        assert kept == ids[: len(kept)]
        assert word in tokenizer.decode(kept)
        assert word not in tokenizer.decode(kept[:-1])
        assert stopped.finish == "stop"

    def test_the_last_token_of_the_context_can_be_sampled(self, engine, nano):
        full = request(1, CONTEXT - 1, max_tokens=1)
        assert_sampled_from(nano.model, full, answers(engine, [full])[0])

    def test_a_cancelled_request_is_not_answered_and_the_others_are(self, engine):
        asked = [request(index, max_tokens=100) for index in range(3 * ROWS)]
        cancelled = {0, ROWS, 3 * ROWS - 1}  # of which at least the last still waits

        def cancel(results):
            for index in list(cancelled - results.keys()):
                engine.cancel(index)

        results = answers(engine, asked, cancel)
        assert set(range(3 * ROWS)) - cancelled <= results.keys()
        assert 3 * ROWS - 1 not in results
        assert answers(engine, asked[1:2])[0].ids == results[1].ids
        assert (engine.active, engine.queued) == (0, 0)

    def test_it_counts_what_it_sampled(self, engine):
        before = engine.sampled
        results = answers(engine, [request(index) for index in range(3)])
        assert engine.sampled - before == sum(len(generated.ids) // 4 for generated in results.values())

    def test_a_request_that_can_never_be_served_is_refused(self, engine):
        """`test_base` has every reason; an engine knows its context and its vocabulary."""
        assert f"exceed engine.context_tokens = {CONTEXT}" in engine.refusal(request(0, CONTEXT, max_tokens=1))
        assert "ids outside of the model's" in engine.refusal(Generate(pack_ids([3, 99_999]), 1, 1.0, 0))


class FollowingContract(EngineContract):
    """Of engines that serve published weights."""

    @pytest.fixture(scope="class")
    @classmethod
    def newer(cls, nano, tmp_path_factory):
        """Other weights of the same model, as one large learner step would make them."""
        model = AutoModelForCausalLM.from_pretrained(nano.folder)
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += 0.3 * parameter.std() * torch.randn(parameter.shape, generator=generator)
        folder = tmp_path_factory.mktemp("newer")
        save(model, NANO, folder)
        return checkpoint(folder)

    @pytest.fixture(autouse=True)
    def _first_weights(self, engine, nano):
        engine.load_weights(nano.weights(engine.version + 1))

    def test_a_swap_keeps_sequences_in_flight_and_marks_their_tokens(self, engine, nano, newer):
        old, new = engine.version, engine.version + 1
        # The first ends long before those beside it, whatever the model says.
        asked = [request(index, max_tokens=60 + 20 * (index % ROWS), temperature=1.0) for index in range(3 * ROWS)]

        def swap(results):
            if results and engine.version == old:
                engine.load_weights(newer.weights(new))

        results = answers(engine, asked, swap)
        assert len(results) == len(asked), "none is lost"
        models = {old: nano.model, new: newer.model}
        spans = [generated.versions for generated in results.values()]
        assert any(len(span) == 2 for span in spans)
        assert {span[0][0] for span in spans} == {old, new}, "some were over before it, some began after it"
        for index, generated in results.items():
            assert [version for version, _ in generated.versions] == sorted(dict(generated.versions))
            expected = logprobs(
                [(models[version], count) for version, count in generated.versions], asked[index], generated
            )
            np.testing.assert_allclose(unpack_floats(generated.logprobs), expected, **CLOSE)

    async def test_where_a_swap_waits_every_answer_is_of_one_version(self, engine, nano, newer, tmp_path):
        first, last = engine.version, engine.version + 2
        weights = [nano.weights(first), newer.weights(first + 1), newer.weights(last)]
        asked = [request(index, max_tokens=30, temperature=1.0) for index in range(2 * ROWS)]
        results = await asked_over_swaps(engine, "wait", ROWS, weights, asked, tmp_path)
        versions = [tuple(dict(generated.versions)) for generated in results]
        assert Counter(versions) == {(first,): ROWS - 1, (last,): ROWS + 1}, "what was passed over was never served"
        for one, generated, (version,) in zip(asked, results, versions, strict=True):
            assert_sampled_from({first: nano.model, last: newer.model}[version], one, generated)

    def test_nothing_of_the_old_weights_is_left(self, engine, newer):
        """Neither the output head nor the keys of a prompt that they have read."""
        one = request(5, 150)
        before = answers(engine, [one])[0]
        engine.load_weights(newer.weights(engine.version + 1))
        after = answers(engine, [one])[0]
        assert_sampled_from(newer.model, one, after)
        assert after.versions == ((engine.version, len(after.ids) // 4),)
        assert (
            np.abs(logprobs([(newer.model, len(before.ids) // 4)], one, before) - unpack_floats(before.logprobs)).max()
            > 0.1
        )

    def test_it_says_what_it_makes_of_tokens_it_did_not_sample(self, engine, nano, newer):
        """The canary of new weights."""
        ids = list(range(5, 40))
        for version, served in enumerate((nano, newer), engine.version + 1):
            engine.load_weights(served.weights(version))
            with torch.inference_mode():
                logits = served.model(torch.tensor([ids])).logits[0]
            np.testing.assert_allclose(engine.logprobs(ids), next_logprobs(logits, ids), **CLOSE)

    def test_weights_that_are_gone_are_said_to_be(self, engine, newer, tmp_path):
        with pytest.raises(FileNotFoundError):
            engine.load_weights(Weights(engine.version + 1, 0, newer.digest, str(tmp_path / "pruned")))

    def test_the_same_weights_again_are_a_version_and_nothing_more(self, engine, nano, tmp_path):
        version = engine.version + 1
        engine.load_weights(Weights(version, 0, nano.digest, str(tmp_path / "never read")))
        assert answers(engine, [request(1)])[0].versions[0][0] == version

    def test_damaged_weights_are_refused_and_the_old_ones_stay(self, engine, nano, newer, tmp_path):
        for file in newer.folder.iterdir():
            if file.name != MANIFEST:  # else its bytes are looked at later
                (tmp_path / file.name).write_bytes(file.read_bytes())
        with (tmp_path / "model.safetensors").open("r+b") as file:
            file.seek(-1, 2)
            file.write(b"x")
        version = engine.version
        with pytest.raises(WeightsError, match="its digest is not"):
            engine.load_weights(Weights(version + 1, version, newer.digest, str(tmp_path)))
        one = request(2)
        after = answers(engine, [one])[0]
        assert after.versions[0][0] == version
        assert_sampled_from(nano.model, one, after)
