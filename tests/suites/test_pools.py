"""Pools of libraries' environments: their programs, opened at their levels, and a run that plays some."""

import functools
import re

import pytest
import trio

from actors.environments.admission import admit_opened
from spade.app.supervisor.library_pools import OFFICIAL16, SETS, read_library_programs
from spade.app.supervisor.pools import read_config_programs
from spade.config import Play, load
from spade.errors import RunError
from spade.pools import set_level
from tests.suites.plays import play

SMALLEST = 0, 1, 3


@functools.cache  # a library takes its time to load
def sources(library, names):
    return {each.name: each.source for each in read_library_programs(library, names)}


@pytest.mark.parametrize(
    ("library", "names", "most", "line"),
    [
        ("rlve", "Sortin", 3, "rlve: unknown name 'Sortin'; the nearest are Sorting, "),
        ("rlve", "Sorting, PowerCycle", 0, "rlve: PowerCycle is left out: its scorer fails"),
        ("reasoning-gym", "chain_sums", 3, "reasoning-gym: unknown name 'chain_sums'; the nearest are chain_sum, "),
    ],
)
def test_a_name_that_is_not_played_is_refused_with_the_nearest(library, names, most, line):
    with pytest.raises(RunError) as caught:
        read_library_programs(library, names)
    said = str(caught.value)
    assert said.startswith(line)
    assert said.count(",") == max(most - 1, 0)


def test_a_library_without_names_is_all_of_it_but_what_is_excluded():
    everything = sources("rlve", "all")
    assert len(everything) == 395
    assert set(OFFICIAL16) < everything.keys()
    assert "PolyaModel" not in everything
    assert everything["Sorting"] == "class SortingEnv(RlveEnv):\n    problem = 'Sorting'\n    level = 0\n"
    without = {each.name for each in read_library_programs("reasoning-gym", "") if not each.levels}
    assert without == {"acre", "gsm_symbolic", "list_functions"}


@pytest.mark.parametrize(("library", "names"), SETS)
async def test_the_environments_of_a_set_open_at_every_level_of_theirs(sandbox, library, names):
    """RLVE's generators take long at high levels, so these are low."""
    async with trio.open_nursery() as nursery:
        verdicts = {}

        async def look(name, source, level):
            verdicts[name, level] = await admit_opened(sandbox, set_level(source, level), 7, sandbox.limits, Play())

        for name, source in sources(library, names).items():
            for level in SMALLEST:
                nursery.start_soon(look, name, source, level)
    assert {key: each.stages for key, each in verdicts.items() if not each.passed} == {}
    assert len(verdicts) == len(SMALLEST) * len(SETS[library, names])
    assert all(each.first_observation for each in verdicts.values())


async def test_a_level_of_the_smallest_data_sets_adds_to_their_parameters(sandbox):
    source = sources("reasoning-gym", "nano")["spell_backward"]
    words = []
    for level in (0, 4):
        for seed in range(12):
            first = (await play(sandbox, set_level(source, level), seed=seed))[0].observation
            words.append((level, len(first.split(": ")[-1].split()[0])))
    assert {length for level, length in words if level == 0} == {3}
    assert max(length for level, length in words if level == 4) > 4
    assert max(length for _, length in words) <= 7


async def test_every_small_question_of_arithmetic_has_the_answer_that_it_counts(sandbox):
    """With divisions it has not: reasoning-gym shows another divisor than the one it counts with."""
    source = sources("reasoning-gym", "nano")["basic_arithmetic"]
    for seed in range(24):
        first, *_ = await play(sandbox, source, seed=seed)
        said = re.fullmatch(r"Calculate (\d+) ([-+*]) (\d+)\.", first.observation)
        left, right = int(said[1]), int(said[3])
        answer = {"+": left + right, "-": left - right, "*": left * right}[said[2]]
        assert (await play(sandbox, source, str(answer), seed=seed))[-1].reward == 1


async def test_a_pool_that_pays_the_score_pays_a_part_for_a_part(sandbox):
    recipe = {each.name: each for each in read_config_programs(load("nano-fixed"))}
    scored = {each.name: each for each in read_config_programs(load("nano-fixed", ("pool.reward=score",)))}
    assert recipe.keys() == scored.keys()
    for level in (0, 2):
        paid = []
        for program in recipe["spell_backward"], scored["spell_backward"]:
            source = set_level(program.source, level)
            word = (await play(sandbox, source))[0].observation.split()[-1]
            nearly = word[:0:-1] + "?"
            paid += [(await play(sandbox, source, said))[-1].reward for said in (nearly, word[::-1])]
        assert paid == [0, 1, pytest.approx(1 - 1 / len(word)), 1]


async def test_a_program_that_makes_no_instance_is_not_admitted(sandbox):
    source = "class NoEnv(ReasoningGymEnv):\n    dataset = 'knight_swap'\n    level = 9\n"
    verdict = await admit_opened(sandbox, source, 1, sandbox.limits, Play())
    assert not verdict.passed
    assert [stage.name for stage in verdict.stages] == ["open"]
    assert "exception" in verdict.stages[0].reason
