"""Tokens: the template renders as in transformers, and turns are put together without tokenising anything twice."""

import json
import subprocess
import sys
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spade.errors import RunError
from spade.tokens import Tokenizer
from spade.tokens.stand_ins import Slot
from spade.tokens.template import Template
from tests.conftest import TEMPLATE, write_tokenizer
from tests.spade.token_shapes import QWEN3


class Said(NamedTuple):
    role: str
    content: str


TOOLBOX = """\
{% for message in messages %}
    {% if message.role == 'tool' %}{% continue %}{% endif %}
    {% if message.role == 'assistant' %}
[{% generation %}{{ message.content | tojson }}{% endgeneration %}]
    {% else %}
{{ bos_token }}{{ message | tojson(indent=1) }}{{ eos_token }}
    {% endif %}
{% endfor %}
"""
# A message by itself, as a part of something longer, and by a macro.
TRIMMING = """\
{%- macro shown(content) %}{{ content }}{% endmacro %}
{%- for message in messages %}
    {%- if loop.first %}{{- ('[' + message.content).strip() }}{% continue %}{% endif %}
    {%- set content = message.content if message.role == 'user' else shown(message.content) %}
    {{- message.role + content | trim + '\\n' }}
{%- endfor %}
"""
CHAT = [
    Said("system", "  Play.\n"),
    Said("user", ' Find <it> & "win".\n '),
    Said("assistant", "left"),
    Said("user", "No. \t"),
]
END = 2  # <|im_end|>


@pytest.fixture
def load(tmp_path):
    def load(template=TEMPLATE, **options):
        write_tokenizer(tmp_path, template)
        return Tokenizer.load(tmp_path, **options)

    return load


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    write_tokenizer(folder)
    return Tokenizer.load(folder)


def filled(template, chat, **variables):
    """The text of a conversation as its layout has it."""
    layout = Template(template, variables).layout([message.role for message in chat], prompt=True)
    return "".join(piece.text(chat[piece.number].content) if isinstance(piece, Slot) else piece for piece in layout)


@pytest.mark.parametrize("template", [TEMPLATE, QWEN3, TOOLBOX, TRIMMING])
@pytest.mark.parametrize("thinking", [False, True])
def test_renders_as_transformers_does(template, thinking):
    from transformers.utils.chat_template_utils import render_jinja_template

    chat = [message._asdict() for message in CHAT]
    variables = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "enable_thinking": thinking}
    expected, _ = render_jinja_template([chat], chat_template=template, add_generation_prompt=True, **variables)
    assert filled(template, CHAT, **variables) == expected[0]


def test_a_template_that_writes_the_date_asks_the_same_each_day():
    template = "{{ strftime_now('%d %b %Y') }}: {{ messages[0].content }}"
    assert filled(template, [Said("user", "Play.")]) == "26 Jul 2024: Play."


WORDS = st.text(alphabet=st.sampled_from("abcd .\n<|\\{}é象"), max_size=30).map(lambda text: f"x{text}")


@given(observations=st.lists(WORDS, min_size=2, max_size=5), answers=st.lists(WORDS, min_size=5, max_size=5))
def test_turns_put_together_are_the_whole_conversation(tokenizer, observations, answers):
    ids = tokenizer.prompt_ids([Said("user", observations[0])])
    chat = [Said("user", observations[0])]
    for answer, observation in zip(answers, observations[1:], strict=False):
        sampled = [*tokenizer.encode(answer), END]
        ids += sampled + tokenizer.turn_ids(sampled, [Said("user", observation)])
        chat += [Said("assistant", answer), Said("user", observation)]
    assert ids == tokenizer.prompt_ids(chat)


def test_a_turn_cut_short_is_ended_for_the_model(tiny_checkpoint):
    tokenizer = Tokenizer.load(tiny_checkpoint)
    sampled = tokenizer.encode("left")
    delta = tokenizer.turn_ids(sampled, [Said("user", "no")])
    assert delta[0] == END
    assert delta[1:] == tokenizer.turn_ids([*sampled, END], [Said("user", "no")])
    assert delta[1:] == tokenizer.turn_ids([*sampled, 0], [Said("user", "no")]), "<|endoftext|> ends a turn as well"


def test_sampled_thoughts_stay_where_they_are(load):
    tokenizer = load(QWEN3)
    sampled = [*tokenizer.encode("<think>hm</think>left"), END]
    delta = tokenizer.turn_ids(sampled, [Said("user", "no")])
    assert delta == tokenizer.encode("\n<|im_start|>user\nno<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n")


def test_decode_leaves_special_tokens_out(tokenizer):
    assert tokenizer.decode([*tokenizer.encode("é left"), END]) == "é left"


def test_end_of_turn_tokens_come_from_both_files(tiny_checkpoint, load):
    assert Tokenizer.load(tiny_checkpoint).end_ids == {0, END}
    assert load().end_ids == {END}


def prompted(tokenizer):
    return tokenizer.decode(tokenizer.prompt_ids([Said("system", "Play.")]))


def test_the_template_file_wins(tmp_path, load):
    (tmp_path / "chat_template.jinja").write_text("{{ messages[0].content }}!<|im_end|>")
    assert prompted(load()) == "Play.!"


def test_a_named_template(tmp_path, load):
    templates = [
        {"name": "tool_use", "template": "x"},
        {"name": "default", "template": "{{ messages[0].content }}y<|im_end|>"},
    ]
    assert prompted(load(templates)) == "Play.y"


@pytest.mark.parametrize(("template", "complaint"), [
    (None, "no chat template"),
    ("{% for %}", "does not parse"),
    ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
    ("{{ messages.append(1) }}", "refuses the conversation"),
    ("{{ messages[0].content }}", "it cannot hold a conversation"),
    ("{% for m in messages %}{{ m.content + m.content }}{% endfor %}", "it cannot hold a conversation"),
    ("{% for m in messages[::-1] %}{{ m.content }}{% endfor %}", "it cannot hold a conversation"),
    ("{% for m in messages %}{{ m.content | length }}{% endfor %}", "it cannot hold a conversation"),
])  # fmt: skip
def test_complaints_are_one_clear_line(load, template, complaint):
    with pytest.raises(RunError, match=complaint) as caught:
        load(template).turn_ids([], [CHAT[3]])
    assert "\n" not in str(caught.value)


def test_a_folder_without_its_files(tmp_path, load):
    with pytest.raises(RunError, match=r"tokenizer_config\.json: "):
        Tokenizer.load(tmp_path)
    load()
    settings = json.loads((tmp_path / "tokenizer_config.json").read_text())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({**settings, "eos_token": None}))
    with pytest.raises(RunError, match="end-of-turn token"):
        Tokenizer.load(tmp_path)


def test_light_roles_can_afford_it():
    code = (
        "import sys, spade.tokens, spade.policy.model_folder; assert not {'torch', 'transformers'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
