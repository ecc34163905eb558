import pytest

from spade.app.commands.doctor import NONE_MET, check_requests
from spade.app.screen.observe import describe_unforeseen, explain
from spade.app.screen.verdict import judge_run
from spade.app.supervisor.orders import choose, parse
from spade.errors import ConfigError, RunError
from spade.protocol import Counts, Process, Status, Traffic, Wait


def test_counts_are_read():
    assert parse(["agents=8", "runners=0", "engines=1"]) == {"agent": 8, "env-runner": 0, "engine": 1}


@pytest.mark.parametrize("word", ["agents", "agents=", "agents=-1", "agents=2.5", "agents=257", "learners=2", "=2"])
def test_a_word_that_is_no_count_is_refused(word):
    with pytest.raises(ConfigError, match="ROLE=COUNT"):
        parse(["designers=1", word])


def test_the_supervisor_meant():
    one, two = Status(run="r", wanted={"here": {}}), Status(run="r", wanted={"here": {}, "there": {}})
    assert choose(one, None) == choose(two, "here") == "here"
    with pytest.raises(RunError, match="--on: here, there"):
        choose(two, None)
    with pytest.raises(RunError, match=r"'else' .* here"):
        choose(one, "else")
    with pytest.raises(RunError, match=r"^r: no supervisor"):
        choose(Status(run="r"), None)


def test_why_names_services_that_met_errors_in_requests():
    """As `spade status` and `spade doctor RUN` do."""
    well, ill = (
        Process(f"env-runner-{count:.0f}", "env-runner", 7, "ready", 0, gauges={"request_faults": count})
        for count in (0.0, 3.0)
    )
    line = "env-runner-3 met 3 unforeseen errors, each in one request; its log has their tracebacks"
    assert line in explain(Status(processes=(well, ill)))
    assert describe_unforeseen(Status(processes=(well, ill))) == [line]
    assert check_requests(Status(processes=(well,))) == ("requests", True, NONE_MET)
    assert check_requests(Status(processes=(well, ill))) == ("requests", False, line)


def test_why_shows_the_longest_wait_first_and_processes_in_trouble():
    engine = Process("engine-0", "engine", 7, "restarting", 2, "killed by SIGKILL")
    waits = (
        Wait("engine-0", "Generate", 40, 3.25, "agent-0"),
        Wait("replay", "TakeBatch", 1, 61.0, "learner", "8 of 96 sequences"),
    )
    status = Status(
        waiting_for="8 of 96 sequences for step 2", waits=waits, processes=(engine,), traffic=Traffic(stalled_s=60.4),
        counts=Counts(plays=8),
    )  # fmt: skip
    assert explain(status) == [
        "stalled: no learner step and no play for 60 s",
        "8 of 96 sequences for step 2",
        "engine-0 is restarting: killed by SIGKILL",
        "learner waits 61.0 s for replay, TakeBatch: 8 of 96 sequences",
        "agent-0 waits 3.2 s for engine-0 (restarting), Generate ×40",
        "in the end, they wait for replay, engine-0",
    ]


def test_a_run_that_only_begins_is_not_called_stalled():
    starting = Process("engine-0", "engine", 7, "starting", 0)
    status = Status(
        elapsed_s=67.0, waiting_for="an engine to connect", processes=(starting,), traffic=Traffic(stalled_s=61.0)
    )
    begins = ["just begun: nothing is played yet, after 01:07", "an engine to connect", "engine-0 is starting"]
    assert explain(status) == begins
    assert judge_run(status).text == begins[0]


def test_why_says_what_a_process_waits_for_that_has_no_place():
    agent = Process("agent-3", "agent", 0, "waiting", 0, "1 CPU")
    assert "agent-3 waits for 1 CPU" in explain(Status(processes=(agent,)))
