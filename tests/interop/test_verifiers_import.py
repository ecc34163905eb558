"""verifiers: tasksets that `spade pool import verifiers:ID` plays in our sandbox."""

import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import textarena
import trio

from actors.sandbox import open_sandbox
from spade.config import load
from spade.pools import list_names, read_program

SUMS = """
import verifiers.v1 as vf

__all__ = ["Sums"]


class SumData(vf.TaskData):
    answer: str


class Sum(vf.Task[SumData]):
    @vf.reward(weight=0.75)
    async def right(self, trace: vf.Trace) -> float:
        return float(vf.extract_boxed_answer(trace.last_reply) == self.data.answer)

    @vf.reward(weight=0.25)
    async def short(self, trace: vf.Trace) -> float:
        return float(len(trace.last_reply) < 20)


class Sums(vf.Taskset[Sum]):
    def load(self):
        for each in range(3):
            yield Sum(SumData(prompt=f"What is {each} + 2?", system_prompt="Use a box.", answer=str(each + 2)))
"""
BOXED = SUMS.replace("    @vf.reward(weight=0.75)", "    NEEDS_CONTAINER = True\n\n    @vf.reward(weight=0.75)", 1)
PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "{}"
version = "1"
dependencies = ["verifiers>=0.4"]
"""
WORDS = ("bread", "house", "river", "stone", "water")
PIP = (sys.executable, "-m", "pip", "--quiet")


@pytest.fixture(scope="module", autouse=True)
def installed(tmp_path_factory):
    """Three tasksets, and word lists for the games. One taskset ends every process that imports it.

    They are in the environment itself, since the sandbox sees no other folder.
    """
    lists = Path(sys.prefix, "nltk_data/corpora/words")
    lists.mkdir(parents=True, exist_ok=True)
    for name in ("en", "en-basic"):
        (lists / name).write_text("\n".join(WORDS))
    names = {"spade-sums": SUMS, "spade-boxed-sums": BOXED, "spade-exits": "raise SystemExit(0)"}
    for name, source in names.items():
        folder = tmp_path_factory.mktemp("tasksets") / name
        module = folder / name.replace("-", "_")
        module.mkdir(parents=True)
        (module / "__init__.py").write_text(source)
        (folder / "pyproject.toml").write_text(PROJECT.format(name))
        subprocess.run([*PIP, "install", "--no-deps", "--no-build-isolation", folder], check=True, timeout=120)
    yield
    subprocess.run([*PIP, "uninstall", "--yes", *names], check=True, timeout=120)
    shutil.rmtree(lists.parents[1])


def play(plays):
    """Play (program, seed, actions). Return the answers of each."""
    limits = load("nano", ('sandbox.libraries=["verifiers"]', "sandbox.load_s=60", "sandbox.step_s=60")).sandbox

    async def play_all():
        found = []
        async with open_sandbox(limits) as sandbox:
            for program, seed, actions in plays:
                answers = [await sandbox.open("one", program.source, seed, 20)]
                answers += [await sandbox.step("one", turn, action) for turn, action in enumerate(actions, 1)]
                found.append(answers)
        return found

    return trio.run(play_all)


def test_tasksets_of_one_turn_and_of_several_are_imported_and_played(run_spade, tmp_path):
    out = tmp_path / "pool"
    code, told = run_spade("pool", "import", "verifiers:spade-sums,textarena-Hangman-v0", "-o", out, cwd=tmp_path)
    assert code == 0, told
    assert list_names(out) == ["spade-sums", "textarena-Hangman-v0"]
    sums, hangman = (read_program(out, name) for name in list_names(out))
    random.seed(7)
    game = textarena.make("Hangman-v0")
    game.reset(num_players=1)
    first, target = game.get_observation()[1], game.state.game_state["target_word"]
    right, wrong, long, won, lost = play([
        (sums, 4, ["3"]), (sums, 4, ["4"]), (sums, 5, ["It is clear that it is \\boxed{4}"]),
        (hangman, 7, [f"[{target[0]}]", f"[{target}]"]), (hangman, 7, ["a word"]),
    ])  # fmt: skip
    assert right[0].observation == "Use a box.\n\nWhat is 1 + 2?"
    assert [(each[-1].reward, each[-1].terminated) for each in (right, wrong, long)] == [
        (1, True),
        (0, True),
        (0, True),
    ]
    assert [each[-1].observation.rpartition(" ")[2] for each in (right, wrong, long)] == ["1.", "0.25.", "0.75."]
    assert won[0].observation.endswith(first)
    assert target[0].upper() in won[1].observation
    assert [(each.reward, each.terminated) for each in won[1:]] == [(0, False), (1, True)]
    assert lost[-1].reward == 0


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ("spade-boxed-sums", "verifiers: spade-boxed-sums is left out: its tasks need a container"),
        ("spade-sum", "verifiers: unknown name 'spade-sum'; the nearest are spade-sums"),
        ("spade-exits", "verifiers: spade-exits is left out: it does not load (0)"),
        ("all", "verifiers: name the tasksets; those here are textarena-Wordle-v0"),
    ],
)
def test_a_taskset_that_cannot_be_played_is_one_line(run_spade, tmp_path, names, says):
    code, told = run_spade("pool", "import", f"verifiers:{names}", "-o", tmp_path / "pool", cwd=tmp_path)
    assert (code, told.count("\n")) == (1, 1), told
    assert says in told
    assert not list(tmp_path.iterdir())
