"""The nano model's prompts."""

import re

from actors.nano.games import GAMES
from actors.nano.prompts import find_class_name
from actors.play.domains import load_profile
from actors.text.fences import WrittenProgram
from actors.text.profile import ChatMessage, Document
from spade.config import load
from spade.protocol import MemorySeed

SOURCE = "import random\n\n\nclass TidesWalkEnv:\n    pass\n"
DOCUMENT = Document("m1", "mathematics", "Prime numbers", "A long text about primes.")
SEED = MemorySeed(environment="e", source=SOURCE, regret=0.5, win_rate=0.5)
PROFILE = GAMES.profile


def test_a_design_request_names_skill_and_document_and_shows_what_to_vary_and_to_avoid() -> None:
    (plain,) = PROFILE.design("optimization", DOCUMENT, [], None)
    assert plain == ChatMessage("user", "Design optimization on mathematics/PrimeNumbers.")
    (full,) = PROFILE.design("optimization", DOCUMENT, [SEED, SEED], SEED)
    assert full.content == f"{plain.content}\nAvoid TidesWalkEnv.\nVary:\n{SOURCE}"
    assert PROFILE.design("optimization", DOCUMENT, [], None, draw=7) == [plain]


def test_without_a_document_a_field_and_a_name_are_drawn_by_the_job() -> None:
    asked = [PROFILE.design("optimization", None, [], None, draw=draw)[0].content for draw in range(200)]
    assert asked == [PROFILE.design("optimization", None, [], None, draw=draw)[0].content for draw in range(200)]
    themes = [re.fullmatch(r"Design optimization on (\w+)/([A-Z][a-z]+[A-Z][a-z]+)\.", text) for text in asked]
    assert {theme[1] for theme in themes if theme} == {"mathematics", "science", "everyday"}
    assert len({theme[2] for theme in themes if theme}) > 100
    assert None not in themes


def test_a_completion_without_a_class_holds_no_program() -> None:
    assert PROFILE.program(SOURCE) == WrittenProgram(SOURCE)
    assert PROFILE.program("Tides are caused by the moon.") is None


def test_class_names_are_read_with_and_without_bases() -> None:
    assert find_class_name(SOURCE) == "TidesWalkEnv"
    assert find_class_name("\nclass A(B):") == "A"
    assert find_class_name("no class") == ""


def test_the_hint_is_the_only_difference_between_the_arms() -> None:
    (unhinted,) = PROFILE.play("Which lever? Actions: a b", None)
    (hinted,) = PROFILE.play("Which lever? Actions: a b", "Pull b first.")
    assert hinted.content == f"Hint: Pull b first.\n{unhinted.content}"


def test_it_is_loaded_by_its_name() -> None:
    assert load_profile(load("nano")) is PROFILE
