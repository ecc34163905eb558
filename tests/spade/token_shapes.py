"""Small tokenizers with the shapes of real ones: their pre-tokenizers, normalizers, added tokens and templates."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from spade.app.nano.tokens import FORMS, SPECIAL, make_tokenizer
from spade.app.nano.tokens import MARKS as NANO_MARKS
from spade.policy import model_folder

TEXTS = [
    "open the left door\nuser assistant system\n\n    Actions: left right 12",
    "[INST] look [/INST] for the door",
] * 8
WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

# Parts of the templates of Qwen3, most of them common to all of the family.
_QWEN_TOOLS = """\
{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{%- endif %}
    {{- 'Tools:\\n<tools>' }}
    {%- for tool in tools %}{{- '\\n' }}{{- tool | tojson }}{%- endfor %}
    {{- '\\n</tools>\\nCall one so:\\n<tool_call>\\n{"name": <name>, "arguments": <object>}\\n</tool_call>' }}
    {{- '<|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
"""
_QWEN_LAST_ASKED = """\
{%- set ns = namespace(asking=true, last=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set told = message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>') %}
    {%- if ns.asking and message.role == 'user' and not told %}
        {%- set ns.asking = false %}
        {%- set ns.last = messages|length - 1 - loop.index0 %}
    {%- endif %}
{%- endfor %}
"""
_QWEN_ASKED = """\
{%- for message in messages %}
    {%- set content = message.content %}
    {%- if message.role == 'user' or message.role == 'system' and not loop.first %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>\\n' }}
    {%- elif message.role == 'assistant' %}
"""
_QWEN_THOUGHT = """\
        {%- set thought = '' %}
        {%- if '</think>' in content %}
            {%- set thought = content.split('</think>')[0].split('<think>')[-1].strip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last %}
            {{- '<|im_start|>assistant\\n<think>\\n' + thought + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
        {%- else %}
            {{- '<|im_start|>assistant\\n' + content }}
        {%- endif %}
"""
_QWEN_CALLS = """\
        {%- for call in message.tool_calls or [] %}
            {%- if not loop.first or content %}{{- '\\n' }}{%- endif %}
            {{- '<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
            {{- call.function.arguments | tojson }}{{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == 'tool' %}
        {%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{- '<|im_start|>user' }}{%- endif %}
        {{- '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}
        {%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{- '<|im_end|>\\n' }}{%- endif %}
    {%- endif %}
{%- endfor %}
"""
_QWEN_PROMPT = """\
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""
_QWEN_NO_THOUGHT = """\
        {{- '<|im_start|>assistant\\n' + content }}
"""
_QWEN_NO_THOUGHT_PROMPT = """\
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""
QWEN3 = _QWEN_TOOLS + _QWEN_LAST_ASKED + _QWEN_ASKED + _QWEN_THOUGHT + _QWEN_CALLS + _QWEN_PROMPT
# As Qwen3-Instruct-2507: no thoughts at all.
QWEN3_2507 = _QWEN_TOOLS + _QWEN_ASKED + _QWEN_NO_THOUGHT + _QWEN_CALLS + _QWEN_NO_THOUGHT_PROMPT
# As Qwen3-Coder, Qwen3.5 and Nemotron 3: schemas and calls have marks of their own; no thoughts here.
XML = """\
{%- macro extras(fields, known) %}
    {%- for key in fields if key not in known %}
        {%- if fields[key] is mapping or fields[key] is sequence and fields[key] is not string %}
            {{- '\\n<' ~ key ~ '>' ~ (fields[key] | tojson | safe) ~ '</' ~ key ~ '>' }}
        {%- else %}
            {{- '\\n<' ~ key ~ '>' ~ (fields[key] | string) ~ '</' ~ key ~ '>' }}
        {%- endif %}
    {%- endfor %}
{%- endmacro %}
{%- if messages[0].role == 'system' or tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}{{- messages[0].content }}{%- endif %}
    {%- if tools %}
        {{- '\\n\\nTools:\\n<tools>' }}
        {%- for tool in tools %}
            {%- set tool = tool.function %}
            {{- '\\n<function>\\n<name>' ~ tool.name ~ '</name>' }}
            {{- '\\n<description>' ~ (tool.description | trim) ~ '</description>\\n<parameters>' }}
            {%- for name, fields in tool.parameters.properties | items %}
                {{- '\\n<parameter>\\n<name>' ~ name ~ '</name>' }}
                {%- if fields.type is defined %}{{- '\\n<type>' ~ (fields.type | string) ~ '</type>' }}{%- endif %}
                {{- extras(fields, ['name', 'type']) }}
                {{- '\\n</parameter>' }}
            {%- endfor %}
            {{- extras(tool.parameters, ['type', 'properties']) }}
            {{- '\\n</parameters>\\n</function>' }}
        {%- endfor %}
        {{- '\\n</tools>\\nCall one so:\\n<tool_call>\\n<function=name>\\n<parameter=a>\\n1\\n</parameter>' }}
        {{- '\\n</function>\\n</tool_call>' }}
    {%- endif %}
    {{- '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'user' or message.role == 'system' and not loop.first %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
    {%- elif message.role == 'assistant' %}
        {{- '<|im_start|>assistant\\n' + message.content }}
        {%- for call in message.tool_calls or [] %}
            {{- '\\n<tool_call>\\n<function=' + call.function.name + '>\\n' }}
            {%- for name, value in call.function.arguments | items %}
                {{- '<parameter=' + name + '>\\n' }}
                {%- if value is mapping or value is sequence and value is not string %}
                    {{- value | tojson | safe }}
                {%- else %}
                    {{- value | string }}
                {%- endif %}
                {{- '\\n</parameter>\\n' }}
            {%- endfor %}
            {{- '</function>\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == 'tool' %}
        {%- if loop.previtem and loop.previtem.role != 'tool' %}{{- '<|im_start|>user\\n' }}{%- endif %}
        {{- '<tool_response>\\n' + message.content + '\\n</tool_response>\\n' }}
        {%- if loop.last or loop.nextitem.role != 'tool' %}{{- '<|im_end|>\\n' }}{%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""
LLAMA3 = """\
{{- bos_token }}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = '' %}
{%- endif %}
{{- '<|start_header_id|>system<|end_header_id|>\\n\\nCutting Knowledge Date: December 2023\\n\\n' }}
{{- system_message + '<|eot_id|>' }}
{%- for message in messages %}
    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}
    {{- message['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""
MISTRAL = """\
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content'] %}
    {%- set messages = messages[1:] %}
{%- endif %}
{{- bos_token }}
{%- for message in messages %}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('roles must alternate user/assistant/user/assistant') }}
    {%- endif %}
    {%- if message['role'] == 'user' and loop.last and system_message is defined %}
        {{- '[INST] ' + system_message + '\\n\\n' + message['content'] + '[/INST]' }}
    {%- elif message['role'] == 'user' %}
        {{- '[INST] ' + message['content'] + '[/INST]' }}
    {%- else %}
        {{- ' ' + message['content']|trim + eos_token }}
    {%- endif %}
{%- endfor %}
"""
GEMMA = """\
{{ bos_token }}
{%- for message in messages %}
    {%- set role = 'model' if message.role == 'assistant' else message.role %}
    {{- '<start_of_turn>' + role + '\\n' + (message.content | trim) + '<end_of_turn>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}
"""


class Shape(NamedTuple):
    """`control` tokens are special, `marks` are added and not special."""

    name: str
    build: Callable[[Path], None]
    control: tuple[str, ...]
    marks: tuple[str, ...] = ()


def byte_level(
    normalizer: normalizers.Normalizer | None, special: tuple[str, ...], marks: tuple[str, ...]
) -> Tokenizer:
    """As Qwen and Llama 3: added tokens follow the vocabulary."""
    bpe = Tokenizer(models.BPE(ignore_merges=normalizer is None))
    if normalizer is not None:
        bpe.normalizer = normalizer
    split = pre_tokenizers.Split(Regex(WORDS), behavior="isolated")
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    bpe.train_from_iterator(TEXTS, trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False))
    bpe.add_special_tokens([AddedToken(text, normalized=False) for text in special])
    bpe.add_tokens([AddedToken(text, normalized=False) for text in marks])
    return bpe


def sentence_pieces(special: tuple[str, ...], blanks: tuple[str, ...] = ()) -> Tokenizer:
    """As Mistral and Gemma: added tokens begin the vocabulary, merges lead to some, bytes stand in for what is rare."""
    bpe = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    bpe.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    data = [f"<0x{byte:02X}>" for byte in range(256)]
    first = ["<unk>", *special, *data, *(blank.replace(" ", "▁") for blank in blanks)]
    bpe.train_from_iterator(TEXTS, trainers.BpeTrainer(vocab_size=520, special_tokens=first, show_progress=False))
    tree = json.loads(bpe.to_str())
    tree["added_tokens"] = [token for token in tree["added_tokens"] if token["content"] not in data]
    for token in tree["added_tokens"]:
        token["special"] = token["content"] in ("<unk>", *special)
    if blanks:
        tree["pre_tokenizer"] = None
        tree["normalizer"] = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
        for token in tree["added_tokens"]:
            token["normalized"] = not token["special"]
    bpe = Tokenizer.from_str(json.dumps(tree))
    bpe.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    return bpe


def save(bpe: Tokenizer, folder: Path, template: str, bos: str, eos: str) -> None:
    """As Hugging Face lays it out, in as far as our loader reads it."""
    bpe.save(str(folder / "tokenizer.json"))
    settings = {"bos_token": bos, "eos_token": eos, "unk_token": {"content": "<unk>"}, "chat_template": template}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


QWEN_CONTROL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
QWEN_MARKS = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
LLAMA_CONTROL = ("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|python_tag|>")
MISTRAL_CONTROL = ("<s>", "</s>", "[INST]", "[/INST]")
GEMMA_CONTROL = ("<bos>", "<start_of_turn>", "<end_of_turn>")
NANO_CONTROL = tuple(SPECIAL)


def qwen3(folder: Path) -> None:
    save(byte_level(normalizers.NFC(), QWEN_CONTROL, QWEN_MARKS), folder, QWEN3, "", "<|im_end|>")


def qwen3_2507(folder: Path) -> None:
    save(byte_level(normalizers.NFC(), QWEN_CONTROL, QWEN_MARKS), folder, QWEN3_2507, "", "<|im_end|>")


def xml(folder: Path) -> None:
    save(byte_level(normalizers.NFC(), (*QWEN_CONTROL, *QWEN_MARKS), ()), folder, XML, "", "<|im_end|>")


def nano_tools(folder: Path) -> None:
    make_tokenizer(iter(TEXTS), FORMS["tools"], folder)


def llama3(folder: Path) -> None:
    save(byte_level(None, LLAMA_CONTROL, ()), folder, LLAMA3, "<|begin_of_text|>", "<|eot_id|>")


def mistral(folder: Path) -> None:
    save(sentence_pieces(MISTRAL_CONTROL), folder, MISTRAL, "<s>", "</s>")


def gemma(folder: Path) -> None:
    save(sentence_pieces(GEMMA_CONTROL, ("\n\n", "  ", "    ")), folder, GEMMA, "<bos>", "<end_of_turn>")


def nano(folder: Path) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(model_folder.resolve("nano") / name, folder)


TOOL_SHAPES = (
    Shape("qwen3", qwen3, QWEN_CONTROL, QWEN_MARKS),
    Shape("qwen3-2507", qwen3_2507, QWEN_CONTROL, QWEN_MARKS),
    Shape("xml", xml, (*QWEN_CONTROL, *QWEN_MARKS)),
    Shape("nano-tools", nano_tools, NANO_CONTROL, NANO_MARKS),
)
"""Their templates show tools and results; the marks of XML are special."""

SHAPES = (
    Shape("qwen3", qwen3, QWEN_CONTROL, QWEN_MARKS),
    Shape("llama3", llama3, LLAMA_CONTROL),
    Shape("mistral", mistral, MISTRAL_CONTROL),
    Shape("gemma", gemma, GEMMA_CONTROL),
    Shape("nano", nano, NANO_CONTROL),
)
