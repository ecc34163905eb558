from spade.protocol import Wait
from spade.waits import Waits, add_owner, find_root_causes


def test_waits_are_reported_while_they_last():
    now = 100.0
    waits = Waits(lambda: now)
    with waits.on("engine-0", "Generate"):
        now = 102.0
        with waits.on("engine-0", "Generate"), waits.on("replay", "LeasePlays", since=95.0):
            now = 103.0
            assert waits.report() == (Wait("engine-0", "Generate", 2, 3.0), Wait("replay", "LeasePlays", 1, 8.0))
        assert waits.report() == (Wait("engine-0", "Generate", 1, 3.0),)
    assert waits.report() == ()


def test_a_wait_that_fails_is_over():
    waits = Waits(lambda: 0.0)
    try:
        with waits.on("replay", "SubmitPlays"):
            raise RuntimeError
    except RuntimeError:
        assert waits.report() == ()


def test_waits_are_signed():
    wait = Wait("replay", "TakeBatch", 1, 2.0)
    assert add_owner([wait], "learner") == (Wait("replay", "TakeBatch", 1, 2.0, "learner"),)


def test_the_end_of_the_chain_is_who_waits_for_nobody():
    waits = (
        Wait("replay", "TakeBatch", 1, 60.0, "learner"),
        Wait("agent-0", "plays", 48, 58.0, "replay"),
        Wait("replay", "LeasePlays", 1, 57.0, "agent-0"),
        Wait("engine-0", "Generate", 47, 55.0, "agent-0"),
        Wait("engine-0", "Generate", 4, 56.0, "designer-0"),
        Wait("env-runner-0", "StepEpisode", 1, 0.1, "agent-0"),
    )
    assert [(wait.holder, wait.for_s) for wait in find_root_causes(waits)] == [
        ("engine-0", 56.0),
        ("env-runner-0", 0.1),
    ]
    assert find_root_causes(waits[1:3]) == []  # each waits for the other
