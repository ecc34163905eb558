"""A checkpoint's dialect is found by a round trip, or the model is refused in one line."""

import pytest

from actors.text.toolcalls import DIALECTS, find_dialect
from spade.errors import RunError
from spade.tokens import Tokenizer
from tests.spade import token_shapes
from tests.spade.token_shapes import QWEN3_2507, TOOL_SHAPES


@pytest.mark.parametrize(("shape", "name"), list(zip(TOOL_SHAPES, ["hermes", "hermes", "xml", "hermes"], strict=True)))
def test_the_dialect_is_the_one_that_reads_what_the_template_writes(tmp_path, shape, name):
    shape.build(tmp_path)
    assert find_dialect(Tokenizer.load(tmp_path), DIALECTS, "some/model").name == name


@pytest.mark.parametrize(("old", "new", "why"), [
    ("{{- tool | tojson }}", "", "drops the tools"),
    ("{{- tool | tojson }}", "{{- tool.function.name }}", "drops parts of a tool: 'A tool of the probe.'"),
    ("{{- tool | tojson }}", "{{- tool | string }}", "drops the tools"),
    ("{{- tool | tojson }}", "{{- raise_exception('no tools') }}", "shows no tools (the model's chat template refuses"),
    ("message.role == 'tool'", "false", "drops the results of calls"),
    ("+ message.content + '\\n</tool_response>'", "+ 'seen\\n</tool_response>'", "drops the results of calls"),
    ("{{- call.function.arguments | tojson }}", "{{- '{}' }}", "writes calls in another way than hermes or xml"),
    ("<tool_call>\\n{\"name\": \"' +", "[CALL]\\n{\"name\": \"' +", "writes calls in another way than hermes or xml"),
    ("message.tool_calls or []", "(raise_exception('no calls') if message.tool_calls else [])", "shows no calls"),
])  # fmt: skip
def test_a_template_that_lacks_something_is_refused_in_one_line(tmp_path, old, new, why):
    assert old in QWEN3_2507
    bpe = token_shapes.byte_level(None, token_shapes.QWEN_CONTROL, token_shapes.QWEN_MARKS)
    token_shapes.save(bpe, tmp_path, QWEN3_2507.replace(old, new), "", "<|im_end|>")
    with pytest.raises(RunError) as caught:
        find_dialect(Tokenizer.load(tmp_path), DIALECTS, "some/model")
    line = str(caught.value)
    assert line.startswith(f"the chat template of some/model {why}")
    assert "Qwen3" in line
    assert "\n" not in line
