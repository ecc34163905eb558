import ast
import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors import corpus
from actors.environments.admission import validate
from actors.play.domains import load_profile
from actors.text import worlds
from actors.text.prompts import FullProfile, draw_challenge
from actors.text.rules import SKILLS
from spade import config
from spade.config import Design, Play
from spade.protocol import MemorySeed
from tests.actors.odd_programs import LIMITS

DOCUMENT = corpus.load("builtin")[0]
DRAWS = range(2_000)
PROGRAM = "import random\n\n\nclass TideEnv:\n    def step(self, action):\n        return 'x', 0.0, False, False, {}\n"
SEED = MemorySeed("e1", "class GoodEnv:\n    pass  # good\n", 0.31, 0.5)
BAD = MemorySeed("e2", "class BadEnv:\n    pass  # bad\n", 0.0, 0.97, "too easy: 97% of the plays without a hint won")

PLAY = Play()
FORMS = {"course": (Design(), worlds.COURSE), "answer": (Design(single_turn_share=1.0), worlds.ANSWER)}

profile = FullProfile(Design(), PLAY)


def request(settings=FORMS["course"][0], seeds=(), avoid=None, skill="causal inference", draw=0) -> str:
    messages = FullProfile(settings, PLAY).design(skill, DOCUMENT, seeds, avoid, draw)
    assert [message.role for message in messages] == ["system", "user"]
    return messages[1].content


def test_every_skill_of_the_config_can_be_asked_for():
    assert set(SKILLS) == set(config.SKILLS)
    asked = {request(skill=skill) for skill in config.SKILLS}
    assert len(asked) == len(config.SKILLS)


@pytest.mark.parametrize(("settings", "world"), FORMS.values(), ids=FORMS)
def test_a_request_holds_the_document_and_all_examples_whole_and_no_empty_slot(settings, world):
    text = request(settings, (SEED,), BAD)
    assert DOCUMENT.text in text
    assert SEED.source.strip() in text
    assert "50%" in text
    assert "0.31" in text
    assert BAD.source.strip() in text
    assert "taught nothing: it was too easy: 97% of the plays without a hint won." in text
    assert world.strip() in text
    assert not re.findall(r"\{(?:max_turns|steps?)\}", text.replace(world.strip(), ""))


def test_a_seed_of_the_run_is_praised_without_figures():
    text = request(seeds=(MemorySeed("SEED:p0", "class SeedEnv: ...", None, None),))
    assert "This environment is sound and worth varying. Learn from what makes it so" in text
    assert "class SeedEnv: ..." in text


def test_without_a_corpus_a_request_has_no_document_and_is_else_the_same():
    messages = profile.design("causal inference", None, (SEED,), BAD)
    whole = request(seeds=(SEED,), avoid=BAD)
    start, end = whole.index("Here is a text about"), whole.index("and the player has not read it.")
    section = whole[start : end + len("and the player has not read it.\n\n")]
    assert DOCUMENT.text in section
    assert messages[1].content == whole.replace(section, "")


def test_an_example_that_was_never_played_with_a_hint_says_nothing_of_one():
    text = request(seeds=(msgspec.structs.replace(SEED, regret=None),))
    assert "players won 50% of the time. Learn from what makes it so" in text
    assert "hint" not in text


def test_without_memory_a_request_has_no_example_of_it():
    text = request()
    assert "earlier environment" not in text
    assert "earlier environment" in request(seeds=(SEED,))
    assert "earlier environment" in request(avoid=BAD)


def test_single_turn_programs_are_asked_for_by_a_setting_and_not_by_default():
    def asked(settings):
        return [draw_challenge(settings, draw) for draw in DRAWS]

    assert not any(challenge.single_turn for challenge in asked(Design()))
    assert all(challenge.single_turn for challenge in asked(Design(single_turn_share=1.0)))
    quarter = sum(challenge.single_turn for challenge in asked(Design(single_turn_share=0.25)))
    assert 0.2 * len(DRAWS) < quarter < 0.3 * len(DRAWS)
    assert {(challenge.difficulty, challenge.steps) for challenge in asked(Design())} == set(Design().difficulties)
    deep = Design(difficulties=(("abysmal", 17),))
    assert {(challenge.difficulty, challenge.steps) for challenge in asked(deep)} == {("abysmal", 17)}
    assert "It shall be abysmal" in request(deep)
    assert "at least 17 well-chosen actions" in request(deep)
    assert "well-chosen" not in request(FORMS["answer"][0])
    assert "less than once in a hundred" not in request()


def test_a_job_asks_for_the_same_whatever_its_document():
    asked = [
        profile.design("optimization", document, (), None, draw=5)[1].content.partition("\n")[0]
        for document in corpus.load("builtin")[:20]
    ]
    assert len(set(asked)) == 1
    assert len({request(draw=draw) for draw in range(20)}) == len(Design().difficulties)


def test_either_role_is_told_how_many_turns_there_are_and_that_running_out_of_them_truncates():
    short = FullProfile(Design(max_turns=11), Play(max_turns=13))
    text = short.design("optimization", DOCUMENT, (), None)[1].content
    assert "`max_turns` will be the default you give it, or 13 if that is less" in text
    assert "max_turns: int = 11" in text  # the paper's interface has fewer turns than its plays
    assert re.search(r"uses up `max_turns` without an end, `truncated` is True and\s+`terminated` False", text)
    assert "after turn 13 at the latest" in short.play("x", None)[0].content


@pytest.mark.parametrize("hint", [None, "Mind the gap."])
@pytest.mark.parametrize(("turns", "single_turn"), [(25, True), (1, False), (1, True)])
def test_a_player_with_one_answer_is_told_so_and_of_no_turns(turns, single_turn, hint):
    asked = FullProfile(Design(), Play(max_turns=turns)).play("2 + 2?", hint, single_turn)
    of_turns = FullProfile(Design(), Play(max_turns=25)).play("2 + 2?", hint)
    assert asked[1:] == of_turns[1:]
    assert "A wrong answer ends the play" in asked[0].content
    assert "\\boxed{answer}" in asked[0].content
    assert not re.search("25|turn|game|move", asked[0].content)
    assert "after turn 25 at the latest" in of_turns[0].content


@pytest.mark.parametrize("settings", [settings for settings, _ in FORMS.values()], ids=FORMS)
def test_a_solution_may_be_listed_described_or_left_out_and_two_courses_are_traced(settings):
    text = request(settings)
    assert "def solution(self) -> list[str] | str:" in text
    assert text.count("May be left out.") == 2
    assert "one that wins and one that loses" in text.splitlines()[-1]


@pytest.mark.parametrize("settings", [settings for settings, _ in FORMS.values()], ids=FORMS)
def test_the_interface_that_is_asked_for_is_python_and_whole(settings):
    interface, _ = re.findall(r"```python\n(.*?)```", request(settings), re.DOTALL)
    (environment,) = [node for node in ast.parse(interface).body if isinstance(node, ast.ClassDef)]
    methods = {node.name for node in environment.body if isinstance(node, ast.FunctionDef)}
    assert methods == {"__init__", "reset", "step", "solution", "close"}


@pytest.mark.parametrize("world", [world for _, world in FORMS.values()], ids=FORMS)
async def test_a_worked_example_is_admitted(sandbox, world):
    verdict = await validate(sandbox, world, 1, LIMITS, PLAY)
    assert verdict.passed, verdict.stages
    assert verdict.seed_sensitive
    assert verdict.single_turn == (world == worlds.ANSWER)
    assert {stage.name: stage.reason for stage in verdict.stages}["solution"] == ""


def escaped_expressions(source: str) -> list[str]:
    """Expressions of f-strings that hold a backslash, which Python reads from 3.12 on alone."""
    texts = re.findall(r'\bf"((?:[^"\\]|\\.)*)"', source)
    return [expression for text in texts for expression in re.findall(r"\{([^{}]*)\}", text) if "\\" in expression]


@pytest.mark.parametrize("world", [world for _, world in FORMS.values()], ids=FORMS)
def test_no_f_string_of_a_worked_example_holds_a_backslash_in_an_expression(world):
    assert escaped_expressions(r"""f"{'\n'.join(lines)}, {number}\n" """) == [r"'\n'.join(lines)"]
    assert "{self.turn}" in world or "{first}" in world
    assert escaped_expressions(world) == []


def run(world: str, actions) -> list[tuple]:
    """A play of instance 3: what `step` returned each time."""
    names: dict = {}
    exec(world, names)
    (environment,) = [kind() for name, kind in names.items() if name.endswith("Env")]
    seen = [(*environment.reset(3), 0.0)]
    for action in actions(environment):
        seen.append(environment.step(action))
        if seen[-1][2] or seen[-1][3]:
            break
    return seen[1:]


@pytest.mark.parametrize(("world", "least"), [(worlds.COURSE, 5), (worlds.ANSWER, 1)], ids=FORMS)
def test_a_worked_example_pays_one_at_its_goal_alone(world, least):
    *before, (_, reward, terminated, truncated, _) = run(world, lambda environment: environment.solution())
    assert (reward, terminated, truncated, len(before) + 1) == (1.0, True, False, least)
    assert len({paid for _, paid, *_ in before}) == len(before)
    assert all(paid < 1.0 and observation.splitlines()[-1].startswith("Actions: ") for observation, paid, *_ in before)


def test_the_worked_course_is_truncated_without_turns_and_lost_by_mistakes():
    idle = run(worlds.COURSE, lambda _: ["nonsense"] * 99)
    assert (len(idle), idle[-1][1:4]) == (16, (0.0, False, True))
    lost = run(worlds.COURSE, lambda environment: environment.solution()[1:2] * 99)
    assert (len(lost), lost[-1][1:4]) == (5, (0.0, True, False))


@pytest.mark.parametrize(("completion", "program"), [
    (f"I think.\n\n```python\n{PROGRAM}```", PROGRAM),
    (f"```py\n{PROGRAM}```\nDone.", PROGRAM),
    (f"```\n{PROGRAM}```", PROGRAM),
    (f"A draft:\n```python\nclass DraftEnv: pass\n```\nBetter:\n```python\n{PROGRAM}```", PROGRAM),
    (f"```python\n{PROGRAM}```\nIt is run like this:\n```python\nTideEnv().reset(1)\n```", PROGRAM),
    (f"<think>```python\nclass ThoughtEnv: pass\n```</think>```python\n{PROGRAM}```", PROGRAM),
    (f"```python\n{PROGRAM}", PROGRAM),
    (f"<think>```python\n{PROGRAM}```", None),
    ("```python\nprint(1)\n```", None),
    ("no program", None),
])  # fmt: skip
def test_the_last_block_with_a_class_behind_the_thinking_is_the_program(completion, program):
    written = profile.program(completion)
    assert (written and written.source) == program


@pytest.mark.parametrize(("completion", "hint"), [
    ("Halve the range.", "Halve the range."),
    ("Hint: Halve the range.\n", "Halve the range."),
    ("**Hint:** Halve the range.", "Halve the range."),
    ("<think>What helps?</think>\n\nHalve the range.", "Halve the range."),
    ("<think>cut", ""),
    ("Hinting helps.", "Hinting helps."),
])  # fmt: skip
def test_the_hint_is_what_is_said(completion, hint):
    assert profile.hint_text(completion) == hint


def test_the_hinter_sees_the_program():
    assert PROGRAM.strip() in profile.hint(PROGRAM)[1].content


@pytest.mark.parametrize("name", ["games-4b", "nano"])
@given(observation=st.text(max_size=40), hint=st.text(min_size=1, max_size=40))
def test_the_hint_is_the_only_difference_between_the_arms(name, observation, hint):
    players = load_profile(config.load(name))
    unhinted, hinted = players.play(observation, None), players.play(observation, hint)
    assert unhinted[:-1] == hinted[:-1]
    assert unhinted[-1].role == hinted[-1].role
    said, shown = unhinted[-1].content, hinted[-1].content
    assert shown in (f"{said}\n\nHint: {hint}", f"Hint: {hint}\n{said}")


def test_the_player_is_told_how_to_answer():
    assert "\\boxed{action}" in profile.play("x", None)[0].content
