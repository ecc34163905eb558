"""Two language models of others, as `spade model import` converts them; `make test-lm` keeps them in a cache."""

import pytest

from tests.models import MODELS


def model(name):
    folder = MODELS / name
    if not (folder / "config.json").is_file():
        pytest.fail(f"{folder} is missing: `make test-lm` makes it")
    return folder


@pytest.fixture(scope="session")
def smollm2():
    """SmolLM2-135M-Instruct: a Llama with tied embeddings and a ChatML template."""
    return model("smollm2-135m-instruct")


@pytest.fixture(scope="session")
def gemma3():
    """Gemma 3 270M: a base model with sliding windows and no template."""
    return model("gemma-3-270m")
