"""The GPUs that each process is shown: the sharing out, and the environment of processes."""

import msgspec
import pytest
import trio

from actors.engines import server
from learner import train
from spade import config
from spade.app.rundir import RunDir
from spade.app.supervisor import launches
from spade.app.supervisor.actors import Actors
from spade.errors import ConfigError
from spade.policy.model import require_gpus
from spade.processes.entry import Launch
from spade.processes.gpus import VISIBLE, choose_gpus, describe_placement, make_environment
from spade.processes.supervise import supervise

NONE_SUCH = 1_000
ROLES = dict.fromkeys(("engine", "learner", "agent"), "tests.spade.roles")
SETTINGS = config.Supervise()


def load(*overrides):
    return config.load("nano", ("engine.kind=vllm", "learner.backend=deepspeed", *overrides))


def test_engines_take_their_list_in_turn_and_the_learner_its_own():
    whole = load(
        "engine.gpus=[0, 1, 6, 3]", "engine.tensor_parallel=2", "actors.engines=2",
        "learner.gpus=[5, 4, 7]", "learner.processes=2",
    )  # fmt: skip
    assert [choose_gpus(whole, "engine", index) for index in range(3)] == [(0, 1), (6, 3), ()]
    assert [choose_gpus(whole, "learner", rank) for rank in range(2)] == [(5,), (4,)]
    assert choose_gpus(whole, "agent", 1) is None
    assert describe_placement(whole) == "engine-0 0, 1; engine-1 6, 3; learner 5; learner-1 4"


def test_without_lists_everyone_sees_what_its_supervisor_sees():
    plain = load()
    assert choose_gpus(plain, "engine", 7) is choose_gpus(plain, "learner") is None
    assert [choose_gpus(load("learner.processes=2"), "learner", rank) for rank in range(2)] == [(0,), (1,)]
    assert describe_placement(plain) == ""
    assert make_environment(None, {VISIBLE: "3", "HOME": "/"}) == {VISIBLE: "3", "HOME": "/"}


@pytest.mark.parametrize(("outer", "shown"), [
    ({}, "2,0"),
    ({VISIBLE: "4,5,6"}, "6,4"),
    ({VISIBLE: "GPU-aa, GPU-bb, GPU-cc"}, "GPU-cc,GPU-aa"),
    ({VISIBLE: "7"}, "7"),  # the process finds one of two, and says so
    ({VISIBLE: ""}, ""),
])  # fmt: skip
def test_indices_count_within_what_a_scheduler_gave(outer, shown):
    assert make_environment((2, 0), {"HOME": "/", **outer}) == {"HOME": "/", VISIBLE: shown}


@pytest.mark.parametrize(("overrides", "says"), [
    (("learner.gpus=[0]", "learner.device=cpu"), "learner.gpus: has no effect with learner.device = 'cpu'"),
    (("engine.gpus=[0]", "engine.device=cuda:1"), "engine.gpus: has no effect with engine.device = 'cuda:1'"),
    (("engine.gpus=[0, 1, 2]", "engine.tensor_parallel=2"), "3 is not a multiple of engine.tensor_parallel = 2"),
    (("engine.gpus=[0, 1]", "actors.engines=3"), "engine.gpus: 2 are too few for actors.engines = 3"),
    (("engine.gpus=[0, 0]", "engine.tensor_parallel=2"), r"engine.gpus: \[0, 0\] would give one model the same GPU"),
    (("learner.gpus=[3, 3]",), r"learner.gpus: \[3, 3\] would give one model the same GPU"),
    (("learner.gpus=[3]", "learner.processes=2"), "learner.gpus: 1 are too few for learner.processes = 2"),
    (("engine.gpus=[0, 1]", "learner.gpus=[1, 2]"), r"engine.gpus, learner.gpus: both name \[1\]"),
])  # fmt: skip
def test_lists_that_cannot_be_shared_out_are_refused(overrides, says):
    with pytest.raises(ConfigError, match=says):
        load(*overrides)


def test_engines_share_a_gpu_that_is_named_twice():
    shared = load("engine.gpus=[2, 2]", "actors.engines=2")
    assert [choose_gpus(shared, "engine", index) for index in range(2)] == [(2,), (2,)]


def test_gpus_are_no_part_of_what_hosts_must_agree_on():
    assert config.compute_digest(load("engine.gpus=[0]", "learner.gpus=[1]")) == config.compute_digest(load())


async def test_processes_are_shown_their_own_gpus_and_scaled_ones_the_next(tmp_path, monkeypatch):
    monkeypatch.setenv(VISIBLE, "8,9,10,11,12")
    settings = load("engine.gpus=[0, 1, 2]", "learner.gpus=[3, 4]", "learner.processes=2")
    run = RunDir(tmp_path / "run")
    run.create(settings)

    def telling(launch):
        return msgspec.structs.replace(launch, bind="shown")

    async with supervise(SETTINGS, run.logs, ROLES) as supervisor, trio.open_nursery() as nursery:
        actors = Actors(
            supervisor, lambda *one: telling(launches.make_actor_launch(run, settings, "", "", *one)), 10.0, nursery
        )
        actors.begin({"engine": 1, "agent": 1})
        for launch in (launches.make_learner_launch(run, settings), *launches.make_rank_launches(run, settings)):
            await supervisor.add(telling(launch))
        actors.scale({"engine": 3})
        while [one.state for one in supervisor.processes()] != ["ready"] * 6:  # noqa: ASYNC110
            await trio.sleep(0.02)
        nursery.cancel_scope.cancel()
    diary = (run.path / "diary").read_text().splitlines()
    assert {line for line in diary if " sees " in line} == {
        "engine-0 sees 8", "engine-1 sees 9", "engine-2 sees 10", "learner sees 11", "learner-1 sees 12",
        "agent-0 sees 8,9,10,11,12",
    }  # fmt: skip


def test_an_engine_without_a_gpu_left_says_so():
    with pytest.raises(ConfigError, match=r"engine\.gpus: .* taken"):
        require_gpus("engine.gpus", (0,), ())


GONE = r"{}.gpus: of \[1000\] torch sees 0 here[^\n]*$"


def orders(role, run):
    return Launch("one", role, str(run.config_path), str(run.path), "ipc:///nowhere", "ipc:///nowhere", 0, (NONE_SUCH,))


@pytest.mark.parametrize(("role", "process"), [("engine", server), ("learner", train)])
async def test_a_gpu_that_is_not_there_is_one_line_before_anything_else(tmp_path, role, process):
    with pytest.raises(ConfigError, match=f"^{GONE.format(role)}"):
        await process.run(orders(role, RunDir(tmp_path)), load(f"{role}.gpus=[0]"), lambda: None)
