import pytest

from spade.cluster.lives import check_reachable, make_reachable
from spade.cluster.needs import check, check_machines, compute_needs
from spade.config import Bus, load
from spade.errors import ConfigError


def test_a_process_asks_for_a_cpu_unless_the_config_says_more():
    config = load("nano", ("place.cpus={learner=8}", "place.memory={learner=68719476736}", "learner.device=cpu"))
    assert str(compute_needs(config, "agent")) == "1 CPU"
    assert str(compute_needs(config, "learner")) == "8 CPUs, 64 GiB of memory"
    custom = load("nano", ("place.cpus={agent=0}", "place.resources={agent={big=0.5}}"))
    assert str(compute_needs(custom, "agent")) == "0.5 big"


def test_gpus_follow_from_how_a_model_is_split():
    split = ("engine.kind=vllm", "engine.tensor_parallel=2", "engine.device=cuda")
    assert compute_needs(load("nano", split), "engine").gpus == 2
    assert compute_needs(load("nano", (*split, "place.gpus={engine=4}")), "engine").gpus == 4
    ranks = ("learner.backend=deepspeed", "learner.processes=4", "learner.device=cuda")
    assert compute_needs(load("nano", ranks), "learner").gpus == 1
    assert [compute_needs(load(), role).gpus for role in ("learner", "engine", "env-runner", "agent", "designer")] == [
        0
    ] * 5


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (["engine.gpus=[0]"], r"^engine\.gpus: .* --set engine\.gpus=\[\] .* --set place\.gpus=\{engine=1\}"),
        (["learner.gpus=[0]"], r"^learner\.gpus: .* --set learner\.gpus=\[\]"),
        (
            ["engine.kind=vllm", "engine.tensor_parallel=2", "place.gpus={engine=1}"],
            r"^place\.gpus: engine = 1 are too few for engine\.tensor_parallel = 2",
        ),
        (["place.gpus={learner=4}"], r"^place\.gpus: each process of the learner takes one GPU"),
    ],
)
def test_settings_that_a_cluster_cannot_keep_are_refused(settings, told):
    config = load("nano", tuple(settings))
    with pytest.raises(ConfigError, match=told):
        check(config, ("engine", "learner"))
    check(config, ("agent",))  # this command places none of the roles in question


def test_more_gpus_than_any_machine_has_are_refused_where_some_have_any():
    config = load("nano", ("place.gpus={engine=4}",))
    with pytest.raises(ConfigError, match=r"engine: .*asks for 4 GPUs .* the largest .* has 2"):
        check_machines(config, ("engine",), [0, 2, 2])
    check_machines(config, ("engine",), [0, 4])
    split = load("nano", ("engine.kind=vllm", "engine.tensor_parallel=16", "engine.device=cuda"))
    with pytest.raises(ConfigError, match=r"engine: asks for 16 GPUs .* has 8; .*model is not split"):
        check_machines(split, ("engine",), [8, 8])
    check_machines(config, ("engine",), [0, 0])  # they may be bought


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("place.cpus={replay=1}", "place.cpus: must be a table with any of"),
        ("place.cpus={agent=-1}", "place.cpus: must be a table with any of"),
        (r'place.resources={agent={"b\u202eg"=1}}', "cannot be printed"),
    ],
)
def test_a_place_of_another_role_or_measure_is_refused(word, told):
    with pytest.raises(ConfigError, match=told):
        load("nano", (word,))


def test_a_run_gets_keys_and_an_address_that_other_machines_reach(tmp_path):
    bus = make_reachable(load(), "127.0.0.1", tmp_path).bus
    assert bus.keys == str(tmp_path / "keys")
    assert (tmp_path / "keys/allowed/local.key").exists()
    assert bus.bind.startswith("tcp://127.0.0.1:")
    elsewhere = load("nano", (f"bus.keys={bus.keys}", "bus.bind=tcp://192.0.2.1:5555"))
    again = make_reachable(elsewhere, "127.0.0.1", tmp_path).bus
    assert again.keys == bus.keys
    assert again.bind.startswith("tcp://127.0.0.1:")  # 192.0.2.1 was another machine


def test_processes_that_are_placed_cannot_join_a_run_that_listens_on_one_machine():
    for address in ("ipc:///run/bus/replay.sock", "tcp://127.0.0.1:5555"):
        with pytest.raises(ConfigError, match=r"machines .* cannot reach"):
            check_reachable(address, Bus(keys="keys"))
    check_reachable("tcp://192.0.2.1:5555", Bus(keys="keys"))
