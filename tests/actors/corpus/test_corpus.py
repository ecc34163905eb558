import re

import pytest

from actors import corpus
from actors.text.profile import Document
from spade.errors import ConfigError


def test_the_builtin_corpus_is_whole():
    documents = corpus.load("builtin")
    assert len(documents) >= 200
    assert len({document.id for document in documents}) == len(documents)
    assert len({document.title for document in documents}) == len(documents)
    assert {document.field for document in documents} == {"mathematics", "science", "everyday"}
    assert all(len(document.text) > 100 for document in documents)


def test_any_jsonl_of_texts_will_do(tmp_path):
    file = tmp_path / "texts.jsonl"
    file.write_text(
        '{"text": "Tides rise and fall.", "url": "x"}\n'
        "\n"
        '{"id": 7, "field": "science", "title": "Ice", "text": " Ice floats. "}\n'
    )
    assert corpus.load(str(file)) == (
        Document("1", "", "Tides rise and fall.", "Tides rise and fall."),
        Document("7", "science", "Ice", "Ice floats."),
    )


@pytest.mark.parametrize(("content", "message"), [
    (None, "No such file"),
    (b"", "holds no document"),
    (b'{"text": "good"}\n{"title": "no text"}\n', "line 2: Object missing required field `text`"),
    (b"\n{broken\n", "line 2: JSON is malformed"),
    (b'{"text": "  "}\n', "line 1: the text is empty"),
    (b'{"text": "\xff"}\n', "line 1: "),
])  # fmt: skip
def test_one_line_says_what_is_wrong(tmp_path, content, message):
    file = tmp_path / "texts.jsonl"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match=re.escape(str(file))) as raised:
        corpus.load(str(file))
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)
