"""Tool calls in what a model says: in either dialect all that was written is read, and nothing raises."""

import json
import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.text.toolcalls import DIALECTS, Call, MalformedBlock
from actors.text.toolcalls.blocks import DEEPEST
from spade.protocol import MOST_ARGUMENTS

HERMES, XML = DIALECTS
NAMES = (
    st.text(st.characters(codec="utf-8", exclude_characters=">\n"), min_size=1, max_size=8).map(str.strip).filter(len)
)
MARKED = st.lists(
    st.sampled_from(
        ["<tool_call>", "</tool_call>", "</parameter>", "</function>", "<answer>", "{", '"', "\\", "\n", "a"]
    )
).map("".join)
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8), MARKED,
)  # fmt: skip
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner))
ARGUMENTS = st.dictionaries(NAMES, VALUES, max_size=4)


def hermes(name, arguments):
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments}, ensure_ascii=False)}\n</tool_call>"


def xml(name, arguments):
    shown = {key: value if isinstance(value, str) else json.dumps(value) for key, value in arguments.items()}
    parameters = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in shown.items())
    return f"<tool_call>\n<function={name}>\n{parameters}</function>\n</tool_call>"


TYPES = {type(None): "null", bool: "boolean", int: "integer", float: "number", str: "string", list: "array"}


def schemas(name, arguments):
    return {name: {key: {"type": TYPES.get(type(value), "object")} for key, value in arguments.items()}}


def read(dialect, *parts):
    said = dialect.read("".join(parts), {})
    return [(block.name, json.loads(block.arguments)) if isinstance(block, Call) else block for block in said.blocks]


@given(name=NAMES, arguments=ARGUMENTS)
def test_any_object_survives_hermes(name, arguments):
    assert read(HERMES, "I look. ", hermes(name, arguments)) == [(name, arguments)]


@given(name=NAMES, arguments=ARGUMENTS)
def test_any_object_of_declared_types_survives_xml_unless_it_has_the_end_of_a_parameter(name, arguments):
    for value in arguments.values():
        if "</parameter>" in (value if isinstance(value, str) else json.dumps(value)):
            return
    said = XML.read(xml(name, arguments), schemas(name, arguments))
    assert [(block.name, json.loads(block.arguments)) for block in said.blocks] == [(name, arguments)]


@given(calls=st.lists(st.tuples(NAMES, ARGUMENTS), max_size=4))
def test_calls_come_in_the_order_in_which_they_stand(calls):
    text = "then".join(hermes(*each) for each in calls)
    assert read(HERMES, text, "<answer>done</answer>") == calls


PIECES = [
    "<tool_call>", "</tool_call>", "<answer>", "</answer>", "<function=", "<function=f>", "</function>", "{",
    "<parameter=a>",    "</parameter>", "}", '{"name": "f", "arguments": ', '"', "\\", "[", "]", ":", ",", "NaN",
    "1e999", "9" * 5000,
    "\\ud800", " ", "\n", "null", "[" * 2000, '{"a":' * 2000, "True", "x", "é", "<", ">", "\0", "\u2028",
]  # fmt: skip


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_no_text_raises(dialect):
    rng = random.Random(7)
    for _ in range(10_000):
        no_text_raises(dialect, "".join(rng.choices(PIECES, k=rng.randrange(12))))


def no_text_raises(dialect, text):
    said = dialect.read(text, {"f": {"a": {"type": "integer"}}})
    for block in said.blocks:
        if isinstance(block, Call):
            block.name.encode()
            assert isinstance(json.loads(block.arguments), dict)
            assert block.arguments.isascii()
        else:
            assert block.why.isprintable()


@pytest.mark.parametrize(("content", "why"), [
    ("", "the JSON ends too early: expecting value"),
    ('{"name": "f", "arguments": {}', "the JSON ends too early: expecting ',' delimiter"),
    ('{"name": "f", "arguments": {"a": 1,, "b": 2}}</tool_call>', "the JSON is invalid at character 36: expecting"),
    ('\n\n{"name": f}</tool_call>', "the JSON is invalid at character 10: expecting value"),
    ('{"name": "f", "arguments": {"a": NaN}}</tool_call>', "NaN is not JSON"),
    ('{"name": "f", "arguments": {"a": -Infinity}}</tool_call>', "-Infinity is not JSON"),
    ('{"name": "f", "arguments": {"a": 1e999}}</tool_call>', "a number is too large"),
    ('{"name": "f", "arguments": {"a": ' + "9" * 5000 + "}}</tool_call>", "a number has too many digits"),
    ("[" * 100_000 + "</tool_call>", "the JSON is nested too deeply"),
    ('{"name": "f", "arguments": {"a": ' + "[" * DEEPEST + "]" * DEEPEST + "}}", '"arguments" are nested too deeply'),
    ('{"name": "f", "arguments": {"a": "' + "x" * MOST_ARGUMENTS + '"}}', '"arguments" are too long'),
    ('["f"]</tool_call>', "a call must be an object"),
    ('{"arguments": {}}</tool_call>', "the call has no name"),
    ('{"name": 5}</tool_call>', "the call has no name"),
    ('{"name": "' + "f" * 300 + '"}</tool_call>', '"name" must be a text of at most 256'),
    ('{"name": "\\ud800"}</tool_call>', '"name" must be a text of at most 256'),
    ('{"name": "f", "arguments": [1]}</tool_call>', '"arguments" must be an object'),
    ('{"name": "f", "arguments": "[1]"}</tool_call>', '"arguments" must be an object'),
    ('{"name": "f", "arguments": "a=1"}</tool_call>', '"arguments" must be an object; its text cannot be read: the'),
    ('{"name": "f", "arguments": "{} x"}', '"arguments" must be an object; its text cannot be read: there is more'),
    ('{"name": "f"} and so on</tool_call>', "the JSON ends at character 13, but no </tool_call> follows"),
])  # fmt: skip
def test_a_malformed_block_says_what_is_wrong_and_where(content, why):
    (block,) = HERMES.read(f"I look. <tool_call>{content}", {}).blocks
    assert isinstance(block, MalformedBlock)
    assert block.why.startswith(why)


@pytest.mark.parametrize(("content", "why"), [
    ("find", "<function=NAME> is missing at character 1"),
    ("<function=>", "<parameter=NAME> or </function> is missing at character 12"),
    ("<function=f>\n<parameter=a>\n1\n</parameter>", "the parameter a, from character 27 on, is never closed"),
    ("<function=f></function> so </tool_call>", "</tool_call> is missing at character 25"),
    ("<function=></function></tool_call>", "the call has no name"),
])  # fmt: skip
def test_so_does_one_of_xml(content, why):
    (block,) = XML.read(f"I look. <tool_call>{content}", {}).blocks
    assert isinstance(block, MalformedBlock)
    assert block.why.startswith(why)


@pytest.mark.parametrize("broken", ['{"name": f}</tool_call>', '{"name": "f"', '{"name": "f"} x', "", "</tool_call>"])
def test_the_other_blocks_of_a_message_are_read(broken):
    good = hermes("g", {"a": 1})
    first, bad, last = read(HERMES, good, "<tool_call>", broken, good)
    assert (first, last) == (("g", {"a": 1}), ("g", {"a": 1}))
    assert isinstance(bad, MalformedBlock)


@pytest.mark.parametrize("end", ["", " \n", "</tool_call>"])
@pytest.mark.parametrize(("dialect", "write"), [(HERMES, hermes), (XML, xml)])
def test_a_whole_call_counts_at_the_end_of_a_message_without_its_closing_mark(dialect, write, end):
    text = write("f", {"a": "x"}).removesuffix("</tool_call>")
    assert read(dialect, text + end) == [("f", {"a": "x"})]


@pytest.mark.parametrize(("written", "arguments"), [
    ('{"name": "f"}', {}),
    ('{"name": "f", "arguments": null}', {}),
    ('{"name": "f", "arguments": "{\\"a\\": {\\"b\\": 1}}"}', {"a": {"b": 1}}),
    ('{"name": "f", "arguments": {"a": 1, "a": 2}}', {"a": 2}),
    ('{"name": "g", "name": "f", "arguments": {"a": "</tool_call>}"}, "id": 7}', {"a": "</tool_call>}"}),
])  # fmt: skip
def test_arguments_are_taken_as_the_object_that_they_are(written, arguments):
    assert read(HERMES, f"<tool_call>{written}</tool_call>") == [("f", arguments)]


@pytest.mark.parametrize(("kind", "written", "value"), [
    ("integer", "5", 5), ("integer", "5.0", 5.0), ("integer", "five", "five"), ("string", "5", "5"),
    ("string", '"5"', '"5"'), (["string", "null"], '"null"', '"null"'), (["integer", "string"], '"5"', '"5"'),
    ("string", "null", "null"), (["string", "null"], "null", None), (["string", "null"], "5", "5"),
    ("boolean", "true", True), ("boolean", "True", True), ("null", "None", None),
    (["integer", "string"], "true", "true"), ("array", '["a", 1]', ["a", 1]), ("object", '{"a": {}}', {"a": {}}),
    (None, "5", 5), (None, "five", "five"),
])  # fmt: skip
def test_an_argument_of_xml_is_what_its_schema_says(kind, written, value):
    (block,) = XML.read(xml("f", {"a": written}), {"f": {"a": {"type": kind}}}).blocks
    assert json.loads(block.arguments) == {"a": value}
    assert type(json.loads(block.arguments)["a"]) is type(value)


@pytest.mark.parametrize(("schema", "written", "value"), [
    ({"enum": ["1", "2"]}, "2", "2"), ({"enum": [1, 2]}, "2", 2), ({"enum": ["true", 1]}, "true", "true"),
    ({"enum": ["null"], "type": ["null", "string"]}, "null", "null"), ({"enum": "12"}, "2", 2),
    ({"enum": ["5"], "type": "integer"}, "5", 5),
])  # fmt: skip
def test_a_text_of_an_enumeration_is_that_text(schema, written, value):
    (block,) = XML.read(xml("f", {"a": written}), {"f": {"a": schema}}).blocks
    assert json.loads(block.arguments) == {"a": value}


@pytest.mark.parametrize(("text", "answer"), [
    ("<answer>done</answer>", "done"),
    ("<answer> Done\n</answer> so", " Done\n"),
    ("<answer>a</answer><answer>b</answer>", "b"),
    ("<answer></answer>", ""),
    ("<answer>done", None),
    ("done</answer>", None),
    ("done", None),
    (hermes("f", {"a": "<answer>done</answer>"}), None),
    ("<answer>done</answer>" + hermes("f", {}), "done"),
    (hermes("f", {}) + "<answer>done</answer>", "done"),
    ("<tool_call>{<answer>done</answer>", None),
])  # fmt: skip
def test_the_answer_is_the_last_whole_one_outside_of_the_calls(text, answer):
    assert HERMES.read(text, {}).answer == answer


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
@pytest.mark.parametrize("unit", [
    "<tool_call>", "<tool_call>{", '<tool_call>{"', '<tool_call>{"a":"', "<tool_call>[", '<tool_call>["",', "<answer>",
    "</answer>", "<tool_call><function=f><parameter=a>", "</parameter>      ", "<tool_call>{}", " ",
    "</parameter> </function", "<tool_call><function=f><parameter=a>x</parameter></function>", "<tool_call><function=",
])  # fmt: skip
def test_hostile_texts_take_linear_time(dialect, unit):
    begin = time.process_time()
    dialect.read("<tool_call><function=f><parameter=a>" + unit * (200_000 // len(unit)), {})
    assert time.process_time() - begin < 2
