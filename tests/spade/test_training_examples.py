"""A sampled answer as messages: what the chat template makes of them is what the model read and wrote."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spade.decoding import UnreadableError
from spade.tokens import write_example
from tests.spade.test_conversations import HOSTILE, ORDINARY, Said, read
from tests.spade.test_dialogue import OPENED, load, played
from tests.spade.token_shapes import SHAPES

OPENINGS = (
    [Said("user", "Look: 1 2")],
    [Said("system", "Open doors."), Said("user", "Look: 1 2")],
)


@pytest.fixture(scope="module", params=SHAPES, ids=lambda shape: shape.name)
def built(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param.name)
    request.param.build(folder)
    return read(request.param, folder)


def rendered_ids(built, example):
    """Tokens of the messages by Transformers' template and the tokenizer, as TRL makes them."""
    from transformers.utils.chat_template_utils import render_jinja_template

    messages = [msgspec.structs.asdict(each) for each in (*example.prompt, example.completion)]
    [text], _ = render_jinja_template(
        [messages], chat_template=built.template, add_generation_prompt=False, enable_thinking=False, **built.variables
    )
    return built.bpe.encode(text, add_special_tokens=False).ids


def answered(tokenizer, text):
    return [*tokenizer.encode(text), min(tokenizer._find_template_end())]


@pytest.mark.parametrize("opening", OPENINGS, ids=["user", "system"])
def test_an_answer_is_rendered_to_the_tokens_that_were_sampled(built, opening):
    prompt = built.ours.prompt_ids(opening)
    sampled = answered(built.ours, " left" if built.shape.name == "mistral" else "left 1")
    example = write_example(built.ours, prompt, sampled)
    assert example.exact
    if built.shape.name not in ("mistral", "nano"):  # Mistral's system message is part of the question
        assert [each.role for each in example.prompt] == [each.role for each in opening]
    assert rendered_ids(built, example)[: len(prompt) + len(sampled)] == [*prompt, *sampled]


@pytest.mark.parametrize("opening", [OPENINGS[0], [*OPENINGS[0], Said("assistant", "left"), Said("user", "Look: 3")]])
def test_every_answer_of_a_play_is_an_example(built, opening):
    space = " " if built.shape.name == "mistral" else ""  # its template writes it, the others would trim it
    turns = [(answered(built.ours, f"{space}{text}"), "A wall.") for text in ("left", "1 2")]
    kept = played(built.ours, "keep", opening, turns)
    for number, ((_, prompt), (sampled, _)) in enumerate(zip(kept, turns, strict=False)):
        if number and built.shape.name == "qwen3":  # it forgets the empty thought of an answer, and the play kept it
            with pytest.raises(UnreadableError, match="not given back"):
                write_example(built.ours, prompt, sampled)
            continue
        example = write_example(built.ours, prompt, sampled)
        assert example.exact
        assert len(example.prompt) == len(opening) + 2 * number


@given(contents=st.lists(ORDINARY, min_size=5, max_size=5))
def test_a_later_answer_has_the_whole_conversation_before_it(built, contents):
    """With one exchange shown as an example, and one played. Texts that a template cannot give back are refused."""
    rules, asked, shown, seen, last = contents
    opening = [Said("user", f"x{rules}"), Said("assistant", shown), Said("user", asked)]
    first, second = answered(built.ours, "left"), answered(built.ours, f"y{last}")
    (_, one), (_, two), _ = played(built.ours, "keep", opening, [(first, seen), (second, "")])
    for prompt, sampled in (one, first), (two, second):
        try:
            example = write_example(built.ours, prompt, sampled)
        except UnreadableError:
            continue
        again = rendered_ids(built, example)[: len(prompt) + len(sampled)]
        assert built.ours.divided(again) == built.ours.divided([*prompt, *sampled])
        assert (again == [*prompt, *sampled]) == example.exact


@pytest.mark.parametrize("thinking", [True, False])
def test_a_play_with_stripped_thoughts_has_every_answer_with_its_own_thought(tmp_path, thinking):
    tokenizer, _ = load(tmp_path, thinking)
    thought = "<think>\nThe left one.\n</think>\n\n" if thinking else ""
    turns = [([*tokenizer.encode(f"{thought}\\boxed{{left}}<|im_end|>")], seen) for seen in ("A wall.", "A door.")]
    prompts = played(tokenizer, "strip", OPENINGS[1], turns)
    for number, ((_, prompt), (sampled, _)) in enumerate(zip(prompts, turns, strict=False)):
        example = write_example(tokenizer, prompt, sampled)
        assert example.exact
        assert example.completion.content == f"{thought}\\boxed{{left}}"
        assert [each.role for each in example.prompt] == ["system", "user", *["assistant", "user"] * number]
        assert example.prompt[-1].content == ("Look: 1 2", "A wall.")[number]
        assert all("think" not in each.content for each in example.prompt)


@given(content=HOSTILE)
def test_text_that_a_tool_would_take_for_control_tokens_is_refused(built, content):
    """Here it was text. The example would teach the model to write the tokens, or end a message within it."""
    prompt = built.ours.prompt_ids([Said("user", content)])
    sampled = answered(built.ours, "left")
    if any(mark in content for mark in (*built.shape.control, *built.shape.marks)):
        with pytest.raises(UnreadableError, match="not given back"):
            write_example(built.ours, prompt, sampled)


def test_an_answer_that_was_cut_off_is_refused(built):
    prompt = built.ours.prompt_ids(OPENINGS[0])
    for sampled in built.ours.encode("left"), []:
        with pytest.raises(UnreadableError, match="cut off before"):
            write_example(built.ours, prompt, sampled)


def test_another_spelling_of_a_word_in_tokens_is_seen(built):
    """A model at temperature 1 sometimes spells a word letter by letter."""
    prompt, sampled = built.ours.prompt_ids(OPENINGS[0]), answered(built.ours, "left")
    spelled = [id for letter in "left" for id in built.ours.encode(letter)]
    if spelled == sampled[:-1] or built.shape.name in ("mistral", "gemma", "nano"):
        pytest.skip("this vocabulary has one spelling, or puts a space before each")
    assert not write_example(built.ours, prompt, [*spelled, sampled[-1]]).exact
    broken = next(id for id in built.ours.encode("é🙂"))
    with pytest.raises(UnreadableError):
        write_example(built.ours, prompt, [broken, sampled[-1]])


@pytest.mark.parametrize("ids", [[], [0], [5, 6, 7]])
def test_tokens_of_no_conversation_are_refused(built, ids):
    with pytest.raises(UnreadableError):
        write_example(built.ours, ids, answered(built.ours, "left"))


def test_a_prompt_that_opens_the_thought_has_an_answer_without_its_beginning(tmp_path):
    tokenizer, _ = load(tmp_path, template=OPENED)
    prompt = tokenizer.prompt_ids(OPENINGS[0])
    sampled = tokenizer.encode("The left one.\n</think>\n\n\\boxed{left}<|im_end|>")
    example = write_example(tokenizer, prompt, sampled)
    assert example.exact
    assert example.completion.content == "The left one.\n</think>\n\n\\boxed{left}"
