"""Calls as the templates of four families write them: whatever the arguments, they are read back as they were."""

import json
import re

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from actors.text.toolcalls import DIALECTS, Call, find_dialect
from spade.tokens import Tokenizer
from tests.actors.text.toolcalls.test_toolcalls import ARGUMENTS, schemas
from tests.spade.token_shapes import TOOL_SHAPES

ENDED = re.compile(r"</parameter>\s*(<parameter=|</function>)")
TOOLS = st.from_regex(r"[a-z_]{1,12}", fullmatch=True)
LEFT = {"role": "assistant", "content": ""}
ASKED = {"role": "user", "content": "Go."}


class Family:
    """A checkpoint of a shape, its dialect, and calls as its template writes them."""

    def __init__(self, shape, folder):
        shape.build(folder)
        self.template = json.loads((folder / "tokenizer_config.json").read_text())["chat_template"]
        self.bpe = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.ours = Tokenizer.load(folder)
        self.dialect = find_dialect(self.ours, DIALECTS, shape.name)

    def written(self, calls):
        """The text behind the question, as transformers renders it."""
        from transformers.utils.chat_template_utils import render_jinja_template

        called = [{"type": "function", "function": {"name": name, "arguments": each}} for name, each in calls]
        texts, _ = render_jinja_template(
            [[ASKED, {**LEFT, "tool_calls": called}]], chat_template=self.template, enable_thinking=False
        )
        return texts[0].partition("Go.")[2]

    def said(self, calls):
        """The same as the model's tokens, and decoded as a play decodes them."""
        return self.ours.decode(self.ours.encode(self.written(calls)), self.dialect.marks)

    def normal(self, calls):
        """The calls in the form of Unicode to which the tokenizer brings all text, if it does."""
        text = json.dumps(calls, ensure_ascii=False)
        return list(map(tuple, json.loads(self.bpe.normalizer.normalize_str(text) if self.bpe.normalizer else text)))


@pytest.fixture(scope="module", params=TOOL_SHAPES, ids=lambda shape: shape.name)
def family(request, tmp_path_factory) -> Family:
    return Family(request.param, tmp_path_factory.mktemp(request.param.name))


def readable(family, calls):
    """False for what XML cannot hold: a text that ends its own argument."""
    values = [value if isinstance(value, str) else json.dumps(value) for _, each in calls for value in each.values()]
    return family.dialect.name != "xml" or not any(map(ENDED.search, values))


@given(calls=st.lists(st.tuples(TOOLS, ARGUMENTS), min_size=1, max_size=3))
def test_all_calls_of_a_message_survive_the_template_and_its_tokens(family, calls):
    calls = list(dict(calls).items())  # a schema for each name
    if not readable(family, calls):
        return
    declared = {tool: properties for name, each in calls for tool, properties in schemas(name, each).items()}
    for text, expected in ((family.written(calls), calls), (family.said(calls), family.normal(calls))):
        blocks = family.dialect.read(text, declared).blocks
        assert [(block.name, json.loads(block.arguments)) for block in blocks if isinstance(block, Call)] == expected
        assert len(blocks) == len(calls)
