"""The service reports a run: its status, its rows of metrics, its stalls."""

import math
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
import trio

from replay.ledger.records import PlayRecord
from replay.service import process
from replay.service.peers import Peers
from replay.store import open_store
from spade import protocol
from spade.errors import RefusedError
from tests.peers import changed
from tests.replay.feeding import leased, play, publish
from tests.replay.replay_world import ended, environment, rejected
from tests.replay.service.running import SETTINGS, ByHand, joined, looping, rows, serving, waits_of


async def test_the_status_and_the_files_left_in_the_run_directory(tmp_path):
    async with serving(tmp_path), joined(tmp_path) as replay:
        async with joined(tmp_path, "supervisor", name="up") as supervisor:
            child = protocol.Process("agent-0", "agent", 4711, "ready", 2)
            await supervisor.report_processes("up", (child,))
            child = msgspec.structs.replace(child, supervisor="up")
            assert (await replay.status()).processes == (child,)
        await publish(replay)
        (first, second) = await replay.lease_designs(2, 5.0)
        await replay.reject_candidate(rejected(first, 1, attempt=1))
        await replay.reject_candidate(rejected(first, 1, attempt=2, last=True))
        await replay.submit_environment(environment(second, 1))
        await play(replay, 8)
        replay.client.gauges["episodes"] = 3.0
        while not (await replay.status()).processes[0].gauges:
            await replay.client.wait_pulse()
        await replay.client.wait_pulse()
        await replay.client.wait_pulse()  # a heartbeat since then has gone there and back
        await replay.take_batch(1, 5.0)
        await publish(replay, 1)
        status = await replay.status()
    assert status.run == tmp_path.name
    counts, recent = status.counts, status.recent
    assert (status.learner_step, status.policy_version, counts.plays, counts.environments) == (1, 2, 8, 1)
    assert (counts.rejected_candidates, counts.failed_jobs, recent.validity) == (2, 1, pytest.approx(1 / 3))
    assert (recent.win_rate_unhinted, recent.win_rate_hinted, recent.win_rate_error) == (0.5, 0.5, None)
    assert (recent.regret, recent.learnable_share, recent.reward_levels) == (0.0, 0.5, 2.0)
    assert (recent.response_tokens, counts.lag_mean, counts.wasted_share) == (1.0, 0.0, 0.0)
    assert status.step_metrics == protocol.StepMetrics(loss=0.5, step_s=2.0)
    assert status.waiting_for == "waiting for an engine, an env-runner to connect"
    silent = msgspec.structs.replace(child, state="silent")  # its supervisor is gone
    assert status.processes == (msgspec.structs.replace(silent, gauges={"episodes": 3.0}),)
    assert status.traffic.plays_per_s > 0
    left = msgspec.json.decode((tmp_path / "status.json").read_bytes(), type=protocol.Status)
    passing = {"elapsed_s": 0.0, "traffic": protocol.Traffic(), "waiting_for": "", "waits": ()}
    passing["processes"] = (silent,)  # nobody is connected any more who could say something of itself
    assert msgspec.structs.replace(left, **passing) == msgspec.structs.replace(status, **passing)
    start, step, stop = rows(tmp_path)
    assert [row.get("event", row["kind"]) for row in (start, step, stop)] == ["start", "step", "stop"]
    assert (step["learner_step"], step["loss"], step["regret"]) == (1, 0.5, 0.0)
    assert step["process_gauges"]["agent-0"] == {"episodes": 3.0}


async def test_a_stall_is_logged_once_and_shown_until_it_is_over(tmp_path, caplog):
    settings = changed(SETTINGS, replay={"stall_s": 1.0})

    async def stalled(after):
        """The learner's wait, once it and a stall that began after the moment are some ticks old."""
        while True:
            status = await agent.status()
            (wait,) = waits_of(status, "learner")
            if min(status.traffic.stalled_s, wait.for_s) > 2.0 and status.elapsed_s - status.traffic.stalled_s > after:
                return wait
            await agent.client.wait_pulse()

    async with (
        looping(tmp_path, settings) as agent,
        joined(tmp_path, "learner", "learner", settings=settings) as learner,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(learner.take_batch, 1, 200.0)
        while not waits_of(await agent.status(), "learner"):
            await agent.client.wait_pulse()
        waiting = (await agent.status()).elapsed_s
        await play(agent, 1)
        caplog.clear()  # a slow machine may have stalled before
        wait = await stalled(waiting)
        assert (wait.holder, wait.what, wait.why) == ("replay", "TakeBatch", "0 of 4 sequences")
        told = [record.message for record in caplog.records]
        assert sum("no learner step and no play" in line for line in told) == 1
        assert any("learner waits" in line and "TakeBatch: 0 of 4 sequences" in line for line in told)
        await play(agent, 1)
        while (await agent.status()).traffic.stalled_s:
            await agent.client.wait_pulse()
        nursery.cancel_scope.cancel()


async def test_asking_again_for_work_is_one_wait(tmp_path):
    async with serving(tmp_path), joined(tmp_path) as replay, joined(tmp_path, "agent", "agent-1") as asking:
        asked = []
        for _ in range(3):
            asked.append(trio.current_time())
            assert await asking.lease_plays(1, 0.4) == ()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(asking.lease_plays, 1, 200.0)
            # Longer than the third and the fourth asking together can have lasted.
            while not any(
                wait.for_s > trio.current_time() - asked[2] for wait in waits_of(await replay.status(), "agent-1")
            ):
                await replay.client.wait_pulse()
            nursery.cancel_scope.cancel()


async def test_an_evaluation_is_a_row_and_stays(tmp_path):
    told = protocol.Evaluation(step=0, oldest=1, newest=1, plays=8, voids=1, win_rate=0.5, error=0.19, seconds=9.0)
    async with serving(tmp_path), joined(tmp_path) as replay:
        with pytest.raises(RefusedError, match="versions 1 to 1 were never published"):
            await replay.evaluated(told)
        await publish(replay)
        with pytest.raises(RefusedError, match="nothing was published"):
            await replay.evaluated(msgspec.structs.replace(told, step=1))
        await replay.evaluated(told)
        await replay.evaluated(told)
    async with serving(tmp_path), joined(tmp_path) as replay:
        assert (await replay.status()).histories.evaluations == (told,)
    (row,) = [row for row in rows(tmp_path) if row["kind"] == "evaluation"]
    assert row["elapsed_s"] >= 0
    assert {name: row[name] for name in protocol.Evaluation.__struct_fields__} == msgspec.structs.asdict(told)


async def test_the_use_of_tools_is_in_the_status_and_in_the_rows_of_steps_and_with_each_play(tmp_path):
    async with looping(tmp_path) as replay:
        for lease in await leased(replay, 8):
            counts = {"calls": 3, "refused": 1, "malformed": 1, "instructions": 4, "done": 2, "free": 1}
            whole = msgspec.structs.replace(ended(lease, float(int(lease.id[-3:]) % 2), 1), **counts)
            await replay.submit_plays((whole if lease.hint is None else ended(lease, 0.0, 1),))
        await replay.take_batch(1, 5.0)
        await publish(replay, 1)
        recent = (await replay.status()).recent
    figures = {
        "calls_per_turn": 2.0,
        "malformed_share": 0.25,
        "refused_share": 0.25,
        "done_share": 0.5,
        "free_share": 0.5,
    }
    (row,) = [row for row in rows(tmp_path) if row["kind"] == "step"]
    assert {name: getattr(recent, name) for name in figures} == figures == {name: row[name] for name in figures}
    with open_store(tmp_path / "store", "nosync") as store:
        tools = {play.id: play.tools for play in store.scan("plays", PlayRecord)}
    assert tools["e000000-0u000"] == protocol.ToolUse(3, 1, 1, 4, 2, 1)
    assert tools["e000000-0h000"] is None


async def test_settings_that_changed_are_an_event(tmp_path):
    async with serving(tmp_path):
        pass
    with (tmp_path / "metrics.jsonl").open("ab") as file:
        file.write(b'{"half a row')
    async with serving(tmp_path, changed(SETTINGS, actors={"agents": 3})):
        pass
    lines = (tmp_path / "metrics.jsonl").read_bytes().splitlines()
    assert lines.count(b'{"half a row') == 1
    resume = msgspec.json.decode(lines[3])
    assert (resume["event"], resume["changed"]) == ("resume", {"actors.agents": ["1", "3"]})


async def test_every_metric_is_documented():
    page = (Path(process.__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
    figures = (*protocol.Status().flat(), *protocol.StepMetrics.__struct_fields__)
    assert [name for name in figures if f"`{name}`" not in page] == []


async def test_a_heartbeat_without_numbers_leaves_a_status_that_can_be_read():
    watch = Peers(SETTINGS, 0.0)
    hello = protocol.Hello(protocol.PROTOCOL_VERSION, "digest", "agent", "agent-0", 1)
    beat = protocol.Heartbeat(
        {"good": 1.0, "bad": math.nan},
        (protocol.Wait("replay", "work", 1, math.inf), protocol.Wait("replay", "work", 2)),
    )
    watch.begin(SimpleNamespace(peers={b"1": hello}, heartbeats={b"1": beat}, dropped=0, strangers=0))
    status = protocol.Status(waits=watch.seen("run", 1.0).waits)
    assert watch.beats()["agent-0"].gauges == {"good": 1.0}
    assert msgspec.json.decode(msgspec.json.encode(status), type=protocol.Status) == status
    assert [wait.count for wait in status.waits] == [2]


async def test_only_plays_that_count_are_in_their_rate(tmp_path, mock_clock):
    with open_store(tmp_path / "store", "nosync") as store:
        by_hand = ByHand(tmp_path, store)
        await by_hand.ask(protocol.Publish(0, "digest-0", "/weights/0", protocol.StepMetrics()))
        (job,) = (await by_hand.ask(protocol.LeaseDesigns(1, 0.0))).jobs
        await by_hand.ask(environment(job, 1))
        first, second, third = (await by_hand.ask(protocol.LeasePlays(3, 0.0))).plays
        for plays in (
            (ended(first, 1.0, 1),),
            (ended(first, 1.0, 1), ended(second, 1.0, 9)),  # again, and sampled by weights that nobody published
            (ended(second, 7.0, 1), ended(third, 1.0, 1)),  # no return is 7
        ):
            await by_hand.ask(protocol.SubmitPlays(plays))
        status = await by_hand.ask(protocol.GetStatus())
    assert (status.counts.plays, status.counts.late_plays, status.counts.quarantined, status.elapsed_s) == (
        2,
        1,
        1,
        0.0,
    )
    assert status.traffic.plays_per_s == 2.0  # of the first second
