"""Prompts by the model's own template have the ids that Transformers gives them."""

from random import Random

import pytest
from transformers import AutoTokenizer

from actors.text.profile import ChatMessage
from spade.tokens import Tokenizer

WORDS = (
    "the", "answer", "is", "42", "3.14", "\\boxed{7}", "naïve", "北京", "🙂", "x==y", "\n", "\n\n", "  ", "\t", "don't",
    "<b>", "{}", "user", "assistant", "I", "…", "def f(x):\n    return x", "A1b2", "́",
)  # fmt: skip


def conversation(random):
    """A conversation that ends with the user: with or without a system message, of one to four exchanges."""
    roles = ["user", "assistant"] * random.randrange(4) + ["user"]
    if random.random() < 0.5:
        roles.insert(0, "system")
    texts = (random.choice(("", " ")).join(random.choices(WORDS, k=random.randrange(1, 30))) for _ in roles)
    return [{"role": role, "content": text} for role, text in zip(roles, texts, strict=True)]


@pytest.fixture(scope="module")
def both(smollm2):
    return Tokenizer.load(smollm2), AutoTokenizer.from_pretrained(smollm2)


@pytest.mark.parametrize("seed", range(50))
def test_a_prompt_has_the_ids_of_transformers(seed, both):
    ours, theirs = both
    messages = conversation(Random(seed))
    expected = theirs.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    found = ours.prompt_ids([ChatMessage(**each) for each in messages])
    assert found == expected
    assert ours.decode(ours.encode(messages[-1]["content"])) == messages[-1]["content"]


def test_a_turn_ends_with_the_template_s_token(both):
    ours, theirs = both
    assert theirs.convert_tokens_to_ids("<|im_end|>") in ours.end_ids
