"""Gymnasium: its own check of what we export, episodes as in a run, and environments of its own as ours."""

import importlib
import random
import sys

import gymnasium
import pytest
import trio
from gymnasium.utils.env_checker import check_env
from msgspec.structs import replace

from actors.corpus import load as load_corpus
from actors.environments.offers import choose
from actors.nano.demonstrations import make_demonstration
from actors.nano.games import GAMES
from actors.sandbox import open_sandbox
from actors.text.actions import format_action
from spade.app.nano.simulation import SIMULATIONS
from spade.app.pools.packages import write_package
from spade.config import load
from spade.pools import PoolProgram, ProgramLineage, list_names, read_program

CONFIG = load("nano")
WORLDS, PLAYS = 50, 4
"""Worlds of nano, and episodes of each."""
DRAWS = """
class DrawsEnv:
    def reset(self, seed):
        self.turn = 0
        return f"é {random.random()} {np.random.random()}", {}

    def step(self, action):
        self.turn += 1
        return f"{action} {random.random()} {np.random.random()}", 0.5, self.turn == 5, False, {}
"""
OPTIONS = """
import decimal
class OptionsEnv:
    def reset(self, seed):
        told = self.tell()
        decimal.getcontext().prec = 5
        np.set_printoptions(precision=2)
        np.seterr(all="raise")
        self.turn = 0
        return told, {}

    def step(self, action):
        self.turn += 1
        return self.tell() + repr(action), 0.5, self.turn == 2, False, {}

    def tell(self):
        return f"{decimal.Decimal(1) / 3} {np.array([1 / 3])} {np.geterr()}"
"""
PAYS = """
class PaysEnv:
    def reset(self, seed):
        return "Say a number.", {}

    def step(self, action):
        return action, float(action), True, False, {}
"""
FAILS = """
class FailsEnv:
    def reset(self, seed):
        return "Actions: 0..9", {}

    def step(self, action):
        return action, 1 / 0, False, False, {}
"""


def make_programs():
    """Worlds of nano, a program that draws from the global generators and reads boxes, and one that fails."""
    documents = load_corpus("builtin")
    worlds = [
        make_demonstration(GAMES, SIMULATIONS["games"], 3, number, documents).environment for number in range(WORLDS)
    ]
    sources = {f"e{number}": (shown.source, shown.hint, "inside") for number, shown in enumerate(worlds)}
    sources |= {"draws": (DRAWS, "", "box"), "fails": (FAILS, "", "inside")}
    sources |= {"options": (OPTIONS, "", "inside"), "pays": (PAYS, "", "inside")}
    return {
        name: PoolProgram(name, source, hint, lineage=ProgramLineage("0f", name, reads=reads))
        for name, (source, hint, reads) in sources.items()
    }


@pytest.fixture(scope="module", params=["behind_walls", "bare_ones"])
def package(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("packages") / request.param.replace("_", "-")
    count = write_package(
        folder, iter(make_programs().values()), CONFIG, "a run", "gymnasium", request.param == "bare_ones"
    )
    sys.path.insert(0, str(folder))
    found = importlib.import_module(request.param)
    sys.path.remove(str(folder))
    assert [*found.IDS] == [f"spade/{request.param}-{name}-v0" for name in sorted(make_programs())]
    assert count == len(found.IDS)
    return found


def ids(package):
    """Ids by the names of their programs, without the programs that fail."""
    found = {id.removesuffix("-v0").rpartition("-")[2]: id for id in package.IDS}
    del found["fails"], found["pays"]
    return found


def test_gymnasiums_own_check_passes(package):
    for id in ids(package).values():
        env = gymnasium.make(id)
        check_env(env.unwrapped)
        env.close()


def test_an_episode_is_the_same_as_in_a_run(package):
    rng, programs, plays = random.Random(7), make_programs(), []
    for name, id in ids(package).items():
        env = gymnasium.make(id)
        assert env.unwrapped.hint == programs[name].hint
        assert env.unwrapped.lineage["environment"] == name
        for _ in range(PLAYS):
            seed, actions, over = rng.randrange(2**63), [], False
            answers = [(env.reset(seed=seed)[0], 0.0, False, False)]
            while not over:
                random.seed(rng.random())  # what others draw changes nothing
                actions.append(choose(answers[-1][0], rng, (), ()))
                answers.append(env.step(actions[-1])[:4])
                over = answers[-1][2] or answers[-1][3]
            plays.append((name, seed, actions, answers))
        env.close()

    async def compare():
        async with open_sandbox(CONFIG.sandbox) as sandbox:
            for name, seed, actions, answers in plays:
                program = programs[name]
                ours = [await sandbox.open(name, program.source, seed, CONFIG.play.max_turns)]
                for turn, action in enumerate(actions, 1):
                    ours.append(await sandbox.step(name, turn, format_action(action, program.lineage.reads)))
                assert [(each.observation, each.reward, each.terminated, each.truncated) for each in ours] == answers

    trio.run(compare)
    assert len(plays) >= 200
    assert any(len(actions) > 1 for _, _, actions, _ in plays)


@pytest.mark.parametrize(("action", "reward"), [("10", 10.0), ("-10.5", None), ("1e300", None), ("nan", None)])
def test_a_reward_that_a_run_refuses_is_refused(package, action, reward):
    env = gymnasium.make(f"spade/{package.__name__}-pays-v0").unwrapped
    env.reset(seed=1)
    if reward is None:
        with pytest.raises(RuntimeError, match=r"\(reward\): "):
            env.step(action)
    else:
        assert env.step(action)[1] == reward
    env.close()


def test_half_a_character_is_an_action_like_others(package):
    env = gymnasium.make(f"spade/{package.__name__}-options-v0").unwrapped
    env.reset(seed=1)
    assert env.step("\ud800")[0].endswith(repr("\\ud800"))
    env.close()


def test_a_program_that_fails_raises_and_its_episode_is_over(package):
    id = next(id for id in package.IDS if "-fails-" in id)
    env = gymnasium.make(id, disable_env_checker=True)
    env.reset(seed=1)
    with pytest.raises(RuntimeError, match=r"the program failed \(exception\): ZeroDivisionError"):
        env.step("1")
    with pytest.raises(RuntimeError, match="the episode is over"):
        env.step("1")
    env.close()


@pytest.mark.parametrize("options", [(), ("--bare",)])
def test_the_installed_package_of_a_run_registers_its_environments(options, run, run_spade, install, installed):
    folder = installed / "sources" / f"of-a-run{len(options)}"
    code, told = run_spade("env", "export", run, folder, "--format", "gymnasium", *options, cwd=installed)
    assert code == 0, told
    install(folder, installed)
    package = importlib.import_module(folder.name.replace("-", "_"))
    assert f"{folder}: {len(package.IDS)} environments of {run}" in told
    for id in package.IDS:
        check_env(gymnasium.make(id).unwrapped)


def test_environments_of_gymnasium_are_imported_and_won(run_spade, tmp_path):
    out = tmp_path / "pool"
    code, told = run_spade("pool", "import", "gymnasium:FrozenLake-v1,CliffWalking-v1", "-o", out, cwd=tmp_path)
    assert code == 0, told
    assert list_names(out) == ["CliffWalking-v1", "FrozenLake-v1"]
    source = read_program(out, "CliffWalking-v1").source
    world, actions = gymnasium.make("CliffWalking-v1", render_mode="ansi"), ["up", *["right"] * 11, "down"]
    world.reset(seed=1)
    for action in actions:
        _, _, won, _, _ = world.step(("up", "right", "down", "left").index(action))

    async def play():
        async with open_sandbox(replace(CONFIG.sandbox, libraries=("gymnasium",))) as sandbox:
            await sandbox.open("one", source, 1, 99)
            return [await sandbox.step("one", turn, action) for turn, action in enumerate(actions, 1)]

    last = trio.run(play)[-1]
    assert (last.reward, last.terminated, won) == (1, True, True)


def test_a_name_that_gymnasium_does_not_have_is_one_line(run_spade, tmp_path):
    code, told = run_spade("pool", "import", "gymnasium:FrozenLake-v9", "-o", tmp_path / "pool", cwd=tmp_path)
    assert (code, told.count("\n")) == (1, 1), told
    assert "gymnasium: unknown name 'FrozenLake-v9'; the nearest are FrozenLake" in told
    assert not list(tmp_path.iterdir())


def test_a_task_of_trio_is_told_to_use_a_thread(package):
    async def play():
        gymnasium.make(package.IDS[0]).reset(seed=1)

    if package.__name__ == "bare_ones":
        trio.run(play)  # nothing waits there
        return
    sys.modules[f"{package.__name__}.sandboxed"]._start_sandbox.cache_clear()
    with pytest.raises(RuntimeError, match="from trio, play it in a thread"):
        trio.run(play)
