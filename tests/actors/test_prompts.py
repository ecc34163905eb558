import ast
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors import corpus
from actors.prompts import Document, load_profile
from actors.prompts.full import SKILLS, FullProfile, challenge, single_turn
from spade import config
from spade.errors import ConfigError
from spade.protocol import MemorySeed

DOCUMENTS = corpus.load("builtin")
ONE_TURN = next(document for document in DOCUMENTS if single_turn(document))
MANY_TURNS = next(document for document in DOCUMENTS if not single_turn(document))
PROGRAM = "import random\n\n\nclass TideEnv:\n    def step(self, action):\n        return 'x', 0.0, False, False, {}\n"
SEED = MemorySeed("e1", "class GoodEnv:\n    pass  # good\n", 0.31, 0.5)
BAD = MemorySeed("e2", "class BadEnv:\n    pass  # bad\n", 0.0, 0.97, "too easy: 97% of the plays without a hint won")

profile = FullProfile()


def request(document: Document = MANY_TURNS, seeds=(), avoid=None, skill="causal inference") -> str:
    messages = profile.design(skill, document, seeds, avoid)
    assert [message.role for message in messages] == ["system", "user"]
    return messages[1].content


def test_every_skill_of_the_config_can_be_asked_for():
    assert set(SKILLS) == set(config.SKILLS)
    asked = {request(skill=skill) for skill in config.SKILLS}
    assert len(asked) == len(config.SKILLS)


@pytest.mark.parametrize("document", [ONE_TURN, MANY_TURNS])
def test_a_request_holds_the_document_and_the_examples_whole(document):
    text = request(document, (SEED,), BAD)
    assert document.text in text
    assert SEED.source.strip() in text
    assert "50%" in text
    assert "0.31" in text
    assert BAD.source.strip() in text
    assert "taught nothing: it was too easy: 97% of the plays without a hint won." in text
    assert "{steps}" not in text


def test_documents_ask_for_either_form_and_every_difficulty():
    assert 0.1 < sum(map(single_turn, DOCUMENTS)) / len(DOCUMENTS) < 0.4
    assert {challenge(document)[0] for document in DOCUMENTS} == {"moderately difficult", "difficult", "very difficult"}
    steps = challenge(MANY_TURNS)[1]
    assert f"at least {steps} well-chosen actions" in request(MANY_TURNS)
    assert "well-chosen" not in request(ONE_TURN)
    assert "one in a hundred" not in request(MANY_TURNS)


def test_the_interface_that_is_asked_for_is_python_and_whole():
    (interface,) = re.findall(r"```python\n(.*?)```", request(), re.DOTALL)
    (environment,) = [node for node in ast.parse(interface).body if isinstance(node, ast.ClassDef)]
    methods = {node.name for node in environment.body if isinstance(node, ast.FunctionDef)}
    assert methods == {"__init__", "reset", "step", "solution", "close"}


@pytest.mark.parametrize(
    ("completion", "program"),
    [
        (f"I think.\n\n```python\n{PROGRAM}```", PROGRAM),
        (f"```py\n{PROGRAM}```\nDone.", PROGRAM),
        (f"```\n{PROGRAM}```", PROGRAM),
        (f"A draft:\n```python\nclass DraftEnv: pass\n```\nBetter:\n```python\n{PROGRAM}```", PROGRAM),
        (f"```python\n{PROGRAM}```\nIt is run like this:\n```python\nTideEnv().reset(1)\n```", PROGRAM),
        (f"<think>```python\nclass ThoughtEnv: pass\n```</think>```python\n{PROGRAM}```", PROGRAM),
        (f"```python\n{PROGRAM}", None),
        (f"<think>```python\n{PROGRAM}```", None),
        ("```python\nprint(1)\n```", None),
        ("no program", None),
    ],
)
def test_the_last_whole_block_with_a_class_is_the_program(completion, program):
    assert profile.program(completion) == program


@pytest.mark.parametrize(
    ("completion", "hint"),
    [
        ("Halve the range.", "Halve the range."),
        ("Hint: Halve the range.\n", "Halve the range."),
        ("**Hint:** Halve the range.", "Halve the range."),
        ("<think>What helps?</think>\n\nHalve the range.", "Halve the range."),
        ("<think>cut", ""),
        ("Hinting helps.", "Hinting helps."),
    ],
)
def test_the_hint_is_what_is_said(completion, hint):
    assert profile.hint_text(completion) == hint


def test_the_hinter_sees_the_program():
    assert PROGRAM.strip() in profile.hint(PROGRAM)[1].content


@pytest.mark.parametrize("name", ["full", "nano"])
@given(observation=st.text(max_size=40), hint=st.text(min_size=1, max_size=40))
def test_the_hint_is_the_only_difference_between_the_arms(name, observation, hint):
    players = load_profile(name)
    unhinted, hinted = players.play(observation, None), players.play(observation, hint)
    assert unhinted[:-1] == hinted[:-1]
    assert unhinted[-1].role == hinted[-1].role
    said, shown = unhinted[-1].content, hinted[-1].content
    assert shown in (f"{said}\n\nHint: {hint}", f"Hint: {hint}\n{said}")


def test_the_player_is_told_how_to_answer():
    assert "\\boxed{action}" in profile.play("x", None)[0].content
    assert profile.turn("next").role == "user"


def test_an_unknown_profile_is_refused():
    with pytest.raises(ConfigError, match=r"model\.profile"):
        load_profile("other")
