"""The similarity by a real sentence-transformers model, a tiny BERT with random parameters that is built here."""

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from transformers import BertConfig, BertModel, BertTokenizerFast

from actors.text.measures.diversity import compute_vendi_share, load_embedding
from spade.errors import ConfigError
from spade.extras import get_requirement

SOURCES = ["class AEnv: red", "class BEnv: blue", "class AEnv: red", "import random"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A checkpoint folder of BERT: sentence-transformers takes the mean of its token vectors."""
    path = tmp_path_factory.mktemp("embedding")
    letters = [chr(code) for code in range(33, 127)]
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters)]
    (path / "vocab.txt").write_text("\n".join(vocabulary))
    BertTokenizerFast(vocab=str(path / "vocab.txt")).save_pretrained(path)
    torch.manual_seed(0)
    settings = BertConfig(
        vocab_size=len(vocabulary), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    BertModel(settings).save_pretrained(path)
    return path


def test_similarities_are_the_cosines_of_the_models_vectors(folder):
    vectors = SentenceTransformer(str(folder), device="cpu").encode(SOURCES, convert_to_numpy=True).astype(float)
    lengths = np.linalg.norm(vectors, axis=1)
    similarities = load_embedding(str(folder))(SOURCES)
    assert similarities == pytest.approx(vectors @ vectors.T / np.outer(lengths, lengths), abs=1e-5)
    assert 1 / 4 < compute_vendi_share(similarities) < 3 / 4  # two of the four are the same


def test_vectors_are_kept_for_the_next_time(folder):
    embedding = load_embedding(str(folder))
    first = embedding(SOURCES[:2])
    embedded, encode = [], embedding._model.encode
    embedding._model.encode = lambda texts, **settings: embedded.extend(texts) or encode(texts, **settings)
    again = embedding(SOURCES[:3])
    assert embedded == []
    assert again[:2, :2] == pytest.approx(first)
    embedding(SOURCES[3:])
    embedding(SOURCES[:1])
    assert embedded == [SOURCES[3], SOURCES[0]]  # those of the last time alone are kept


@pytest.mark.parametrize("broken", [None, "{", "{}"])
def test_what_is_no_model_is_refused_in_one_line(tmp_path, broken):
    if broken is not None:
        (tmp_path / "config.json").write_text(broken)
    with pytest.raises(ConfigError, match=r"evaluation\.embedding: .* cannot be loaded") as refused:
        load_embedding(str(tmp_path))
    assert "\n" not in str(refused.value)


def test_the_extra_is_named_as_pyproject_has_it():
    assert get_requirement("measures").startswith("sentence-transformers")
