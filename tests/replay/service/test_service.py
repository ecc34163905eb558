"""The service over real sockets and a real store."""

import math
import os
import resource
import signal
import subprocess
import sys
from contextlib import asynccontextmanager, closing
from pathlib import Path
from types import SimpleNamespace

import lmdb
import msgspec
import pytest
import trio

from replay.inspect import environments
from replay.inspect.contents import read_contents
from replay.inspect.verify import problems
from replay.ledger.records import BatchRecord, Play
from replay.service import process
from replay.service.peers import SUPERVISORS, Peers
from replay.service.service import Service
from replay.store import open_reader, open_store
from replay.store.load import open_run
from replay.store.past_batches import dropped
from spade import protocol
from spade.errors import RefusedError, RunError
from spade.process import Launch
from spade.transport import Incoming
from tests import peers
from tests.peers import changed, pid_of, supervised
from tests.replay.everyone import everyone
from tests.replay.feeding import design, leased, play, publish, train
from tests.replay.replay_world import config, ended, environment, rejected, trajectory, weights

# Two slots; windows of one chunk of 4 plays; batches of 4.
SETTINGS = config(
    "design.active_environments=2", "design.round_jobs=2", "design.active_skills=1", "play.window_chunks=1",
    "play.group_size=4", "learner.batch_sequences=4", "bus.heartbeat_s=0.1", "bus.silence_s=0.5",
    "bus.call_deadline_s=120", "replay.durability=sync", "design.attempts=1000",
)  # fmt: skip
# A service of its own process that has to wait for a busy machine is not gone.
APART = changed(SETTINGS, bus={"silence_s": 30.0})


def address(run):
    return f"ipc://{run}/replay"


@asynccontextmanager
async def serving(run, settings=SETTINGS):
    """The service in this process."""
    launch = Launch("replay", "replay", "", str(run), address(run), bind=address(run))
    ready = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(process.run, launch, settings, ready.set)
        await ready.wait()
        yield
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def joined(run, role=None, name="", serves=None, settings=SETTINGS):
    """A peer of a role, or of all that a test asks in."""
    at = address(run), settings
    async with everyone(*at) if role is None else peers.joined(*at, role, name, serves) as replay:
        yield replay


@asynccontextmanager
async def looping(run, settings=SETTINGS):
    """The service in this process, a peer, the first weights and an environment."""
    async with serving(run, settings), joined(run, settings=settings) as replay:
        await publish(replay)
        await design(replay)
        yield replay


@asynccontextmanager
async def apart(run, settings):
    """The service in a process of its own, and a peer; yields them as (supervisor, peer)."""
    async with supervised(run, settings, "replay") as supervisor, joined(run, settings=settings) as replay:
        yield supervisor, replay


async def test_one_step_of_the_loop(tmp_path):
    async with serving(tmp_path), joined(tmp_path) as replay:
        assert (await publish(replay)) == protocol.Weights(1, 0, "digest-0", "/weights/0")
        await design(replay)
        ids = await play(replay, 8)
        batch = await replay.take_batch(1, 5.0)
        assert isinstance(batch, protocol.Batch)
        (group,) = batch.groups
        assert (group.id, group.rewards, batch.version) == ("e000000-0", (0.0, 1.0, 0.0, 1.0), 1)
        assert group.trajectories == (trajectory(1),) * 4
        assert sorted(ids) == [f"e000000-0{arm}{i:03d}" for arm in "hu" for i in range(4)]
        assert (await publish(replay, 1)).version == 2
        await replay.checkpointed(1)


async def test_a_request_for_work_waits_until_there_is_some(tmp_path):
    async with serving(tmp_path), joined(tmp_path) as replay, joined(tmp_path) as other:
        assert await replay.lease_plays(1, 0.0) == ()
        leased = []

        async def wait_for_plays():
            leased.extend(await replay.lease_plays(3, 60.0))

        async def wait_for_batch():
            answer = await replay.take_batch(1, 0.2)
            assert isinstance(answer, protocol.NotYet)
            assert answer.reason

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait_for_plays)
            nursery.start_soon(wait_for_batch)
            await publish(other)
            await design(other)
        assert [lease.id[:9] for lease in leased] == ["e000000-0"] * 3


async def test_a_step_is_answered_again_with_its_batch_also_after_it_retired(tmp_path):
    async with looping(tmp_path) as replay:
        await play(replay, 8)
        first = await replay.take_batch(1, 5.0)
        assert await replay.take_batch(1, 5.0) == first
        await publish(replay, 1)
        await replay.checkpointed(1)
        assert await replay.take_batch(1, 5.0) == first
        with pytest.raises(RefusedError, match="the next is 2"):
            await replay.take_batch(3, 5.0)


async def test_weights_and_services_are_announced(tmp_path):
    async with serving(tmp_path), joined(tmp_path) as replay:
        async with joined(tmp_path, "engine", serves="ipc:///engine") as engine:
            announced = await publish(replay)
            assert await engine.client.pushes.receive() == announced
            pulse = await replay.client.wait_pulse()
            while pulse.weights is None:
                pulse = await replay.client.wait_pulse()
            assert pulse.weights == announced
            assert pulse.peers == (protocol.Peer("engine", "engine-0", "ipc:///engine"),)
        async with joined(tmp_path, "env-runner", serves="ipc:///runner") as late:
            assert late.client.pulse.weights == announced
        while replay.client.pulse.peers:
            await replay.client.wait_pulse()


async def test_leases_of_a_peer_that_left_are_leased_again(tmp_path):
    async with looping(tmp_path) as replay:
        async with joined(tmp_path, "agent", name="agent-7") as leaving:
            assert len(await leaving.lease_plays(8, 5.0)) == 8
            assert await replay.lease_plays(8, 0.0) == ()
        assert len(await replay.lease_plays(8, 60.0)) == 8
        assert (await replay.status()).expired_leases == 8


async def test_a_request_that_cannot_be_served_is_refused_and_hurts_nobody(tmp_path):
    async with looping(tmp_path) as replay:
        (lease,) = await replay.lease_plays(1, 5.0)
        for request in (
            protocol.Generate(b"", 1, 1.0, 0),
            protocol.SubmitPlays((msgspec.structs.replace(ended(lease, 1.0, 1), episode_return=7.0),)),
            weights(5),
        ):
            with pytest.raises(RefusedError):
                await replay.send(request)
        assert (await replay.status()).plays == 0


async def test_a_program_is_had_by_its_digest_also_after_a_restart(tmp_path):
    async with looping(tmp_path) as replay:
        (lease,) = await replay.lease_plays(1, 5.0)
    async with serving(tmp_path), joined(tmp_path, "env-runner") as runner:
        assert await runner.program(lease.program) == "class LampEnv: ..."


async def test_a_restart_goes_on_where_it_was(tmp_path):
    async with looping(tmp_path) as replay:
        await play(replay, 8)
        batch = await replay.take_batch(1, 5.0)
        await publish(replay, 1)
        before = await replay.status()
    async with serving(tmp_path), joined(tmp_path) as replay:
        after = await replay.status()
        assert await replay.take_batch(1, 5.0) == batch
    unchanged = [
        "learner_step", "policy_version", "plays", "environments", "active_environments", "memory", "win_rate_unhinted",
        "regret", "learnable_share", "validity", "regret_history", "step_metrics", "newest_environment",
    ]  # fmt: skip
    assert [getattr(after, name) for name in unchanged] == [getattr(before, name) for name in unchanged]
    assert after.elapsed_s >= before.elapsed_s > 0


async def test_another_meaning_and_a_second_service_are_refused(tmp_path):
    other = config("run.seed=5", "bus.heartbeat_s=0.1", "bus.silence_s=0.5")
    async with serving(tmp_path):
        with pytest.raises(RunError, match="another replay service has this store"):
            await process.run(Launch("replay", "replay", "", str(tmp_path), address(tmp_path)), SETTINGS, lambda: None)
    with pytest.raises(RunError, match=r"run\.seed \(unset -> 5\)"):
        await process.run(Launch("replay", "replay", "", str(tmp_path), address(tmp_path)), other, lambda: None)


def rows(run):
    return [msgspec.json.decode(line) for line in (run / "metrics.jsonl").read_bytes().splitlines()]


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
    assert (status.learner_step, status.policy_version, status.plays, status.environments) == (1, 2, 8, 1)
    assert (status.rejected_candidates, status.failed_jobs, status.validity) == (2, 1, pytest.approx(1 / 3))
    assert (status.win_rate_unhinted, status.win_rate_hinted, status.win_rate_error) == (0.5, 0.5, None)
    assert (status.regret, status.learnable_share, status.reward_levels) == (0.0, 0.5, 2.0)
    assert (status.response_tokens, status.lag_mean, status.wasted_share) == (1.0, 0.0, 0.0)
    assert status.step_metrics == protocol.StepMetrics(loss=0.5, step_s=2.0)
    assert status.waiting_for == "waiting for an engine, an env-runner to connect"
    silent = msgspec.structs.replace(child, state="silent")  # its supervisor is gone
    assert status.processes == (msgspec.structs.replace(silent, gauges={"episodes": 3.0}),)
    assert status.plays_per_s > 0
    left = msgspec.json.decode((tmp_path / "status.json").read_bytes(), type=protocol.Status)
    passing = {"elapsed_s": 0.0, "plays_per_s": 0.0, "sampled_tokens_per_s": 0.0, "waiting_for": ""}
    passing["waits"] = ()
    passing["processes"] = (silent,)  # nobody is connected any more who could say something of itself
    assert msgspec.structs.replace(left, **passing) == msgspec.structs.replace(status, **passing)
    start, step, stop = rows(tmp_path)
    assert [row.get("event", row["kind"]) for row in (start, step, stop)] == ["start", "step", "stop"]
    assert (step["learner_step"], step["loss"], step["regret"]) == (1, 0.5, 0.0)
    assert step["process_gauges"]["agent-0"] == {"episodes": 3.0}


async def test_orders_reach_their_supervisor_with_its_next_report(tmp_path):
    async with serving(tmp_path), joined(tmp_path) as person:
        with pytest.raises(RefusedError, match="no supervisor 'up' keeps actors; there are none"):
            await person.order(protocol.Orders("up", {"agent": 2}))
        async with (
            joined(tmp_path, "supervisor", name="up") as up,
            joined(tmp_path, "supervisor", name="alone") as alone,
        ):
            assert await up.report_processes("up", (), {"agent": 1}) == protocol.Orders("up")
            await alone.report_processes("alone", ())
            assert (await person.status()).wanted == {"up": {"agent": 1}}
            for orders in (
                protocol.Orders("up", {"agent": 2, "designer": 1}),
                protocol.Orders("up", {"agent": 3}, ("agent-0",)),
            ):
                await person.order(orders)
            with pytest.raises(RefusedError, match="no supervisor 'alone' keeps actors; there are up"):
                await person.order(protocol.Orders("alone", {"agent": 2}))
            with pytest.raises(RefusedError, match="a supervisor keeps 0 to 256 actors of a role"):
                await person.order(protocol.Orders("up", {"agent": 257}))
            heard = await up.report_processes("up", (), {"agent": 1})
            assert heard == protocol.Orders("up", {"agent": 3, "designer": 1}, ("agent-0",))
            assert await up.report_processes("up", (), {"agent": 3}) == protocol.Orders("up")
        while "up" in (await person.status()).wanted:
            await person.client.wait_pulse()


def waits_of(status, who):
    return [wait for wait in status.waits if wait.who == who]


async def test_a_stall_is_logged_once_and_shown_until_it_is_over(tmp_path, caplog):
    settings = changed(SETTINGS, replay={"stall_s": 1.0})

    async def stalled(after):
        """The learner's wait, once it and a stall that began after the moment are some ticks old."""
        while True:
            status = await agent.status()
            (wait,) = waits_of(status, "learner")
            if min(status.stalled_s, wait.for_s) > 2.0 and status.elapsed_s - status.stalled_s > after:
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
        while (await agent.status()).stalled_s:
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
        with pytest.raises(RefusedError, match="nothing was published after that step"):
            await replay.evaluated(msgspec.structs.replace(told, step=1))
        await replay.evaluated(told)
        await replay.evaluated(told)
    async with serving(tmp_path), joined(tmp_path) as replay:
        assert (await replay.status()).evaluations == (told,)
    (row,) = [row for row in rows(tmp_path) if row["kind"] == "evaluation"]
    assert row["elapsed_s"] >= 0
    assert {name: row[name] for name in protocol.Evaluation.__struct_fields__} == msgspec.structs.asdict(told)


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
    for kind in (protocol.Status, protocol.StepMetrics):
        missing = [name for name in kind.__struct_fields__ if f"`{name}`" not in page]
        assert not missing


async def test_environments_are_read_beside_the_service_and_without_it(tmp_path):
    code = (
        "import sys; from pathlib import Path; from replay.inspect.environments import *; store = Path(sys.argv[1])\n"
        "print([(e.id, e.state) for e in read_environments(store)], newest_weights(store).version)"
    )
    store = tmp_path / "store"
    async with serving(tmp_path), joined(tmp_path) as replay:
        await publish(replay)
        (first, second) = await replay.lease_designs(2, 5.0)
        await replay.reject_candidate(rejected(first, 1))
        told = msgspec.structs.replace(environment(second, 1), reads="box", repairs=("fences",))
        await replay.submit_environment(told)
        (lease,) = await replay.lease_plays(1, 5.0)
        assert lease.reads == "box"
        await replay.release_play(lease)
        beside = await trio.run_process([sys.executable, "-c", code, str(store)], capture_stdout=True)
        assert beside.stdout == b"[('e000001', 'active')] 1\n"
        await play(replay, 8)
    (listed,) = environments.read_environments(store)
    assert (listed.state, listed.win_rate_unhinted, listed.regret, listed.document) == ("closed", 0.5, 0.0, "tides")
    shown = environments.read_environment(store, "e000001")
    assert (shown.source, shown.hint, shown.reward) == ("class LampEnv: ...", "pull the second lever", listed.reward)
    assert (shown.first_observation, shown.reads, shown.repairs) == ("Three levers.", "box", ("fences",))
    assert environments.read_environment(store, "e7") is None
    (reject,) = environments.read_rejected(store)
    assert (reject.stage, reject.reason, reject.completion) == ("parse", "no class", "class")


async def test_kill_9_loses_nothing_acknowledged(tmp_path):
    """Killed in mid-traffic twice: what it acknowledged is there, nothing counts twice, the loop goes on by itself."""
    settings = changed(APART, replay={"durability": "nosync"})
    send, acknowledged = trio.open_memory_channel(1_000)
    plays, versions, trained = [], [], []

    async def agent(replay):
        while True:
            for number, lease in enumerate(await replay.lease_plays(4, 5.0)):
                await replay.submit_plays((ended(lease, float(number % 2), versions[-1]),))
                await send.send(lease.id)

    async def designer(replay):
        while True:
            for job in await replay.lease_designs(1, 5.0):
                await replay.submit_environment(environment(job, versions[-1]))

    async def learner(replay):
        step = 1
        while True:
            batch = await replay.take_batch(step, 5.0)
            if isinstance(batch, protocol.Batch):
                trained.append((step, [group.id for group in batch.groups]))
                versions.append((await publish(replay, step)).version)
                step += 1

    async with apart(tmp_path, settings) as (supervisor, replay):
        async with trio.open_nursery() as nursery:
            versions.append((await publish(replay)).version)
            for role in (agent, designer, learner):
                nursery.start_soon(role, replay)
            for _ in range(3):
                plays += [await acknowledged.receive() for _ in range(50)]
                os.kill(pid_of(supervisor, "replay"), signal.SIGKILL)
            plays += [await acknowledged.receive() for _ in range(50)]
            nursery.cancel_scope.cancel()
        async with joined(tmp_path, settings=settings) as replay:
            status = await replay.status()
    with open_reader(tmp_path / "store") as store:
        finished = {play.id for play in store.scan("plays", Play) if play.state == "finished"}
        recorded = [(batch.step, [group.id for group in batch.groups]) for batch in store.scan("batches", BatchRecord)]
    assert len(set(plays)) == len(plays) == 200
    assert set(plays) <= finished
    assert status.plays == len(finished)
    assert versions == list(range(1, len(versions) + 1))
    assert recorded[: len(trained)] == trained
    groups = [group for _, groups in recorded for group in groups]
    assert len(set(groups)) == len(groups)


async def test_requests_that_wait_are_bounded(tmp_path):
    """A client keeps to its window; one that does not is told so, and serves nobody else worse."""
    few = changed(SETTINGS, bus={"window": 4})
    refusals = []

    async def wait(greedy):  # its own window is 256
        try:
            await greedy.lease_plays(1, 10.0)
        except RefusedError as error:
            refusals.append(str(error))

    async with (
        serving(tmp_path, few),
        joined(tmp_path, settings=few) as honest,
        joined(tmp_path) as greedy,
        trio.open_nursery() as nursery,
    ):
        for _ in range(12):
            nursery.start_soon(wait, greedy)
        while len(refusals) < 4:
            await honest.client.wait_pulse()
        await publish(honest)
        await design(honest)
    assert len(refusals) == 4
    assert all("wait already" in refusal for refusal in refusals)


async def test_killed_between_effect_and_commit_it_has_acknowledged_nothing_of_it(tmp_path):
    """SIGKILL while the commits of a hundred plays are held up: no answer had left; sent again, each is there once."""
    settings = changed(APART, play={"group_size": 50}, learner={"batch_sequences": 50})
    acknowledged = []

    async def submit(replay, lease):
        await replay.submit_plays((ended(lease, float(len(lease.id) % 2), 1),))
        acknowledged.append(lease.id)

    async with apart(tmp_path, settings) as (supervisor, replay):
        await publish(replay)
        await design(replay)
        leases = await leased(replay, 100)
        async with trio.open_nursery() as nursery:
            with closing(lmdb.open(str(tmp_path / "store"))) as environment, environment.begin(write=True):
                # While this transaction lasts the service cannot commit.
                for lease in leases:
                    nursery.start_soon(submit, replay, lease)
                for _ in range(3):  # heartbeats after the plays were answered: the service has them all
                    await replay.client.wait_pulse()
                os.kill(pid_of(supervisor, "replay"), signal.SIGKILL)
            assert acknowledged == []
            with open_reader(tmp_path / "store") as store:
                assert not [play for play in store.scan("plays", Play) if play.state == "finished"]
        status = await replay.status()
    assert (len(set(acknowledged)), status.plays, status.late_plays) == (100, 100, 0)


async def test_a_full_disk_stops_the_run_with_one_line_and_loses_nothing_acknowledged(tmp_path):
    acknowledged = []

    async def fill_up():
        async with apart(tmp_path, SETTINGS) as (supervisor, replay):
            await publish(replay)
            (job,) = await replay.lease_designs(1, 5.0)
            # From now on no file of the service may grow by more than a megabyte.
            most = (tmp_path / "store" / "data.mdb").stat().st_size + 1_000_000
            resource.prlimit(pid_of(supervisor, "replay"), resource.RLIMIT_FSIZE, (most, most))
            for attempt in range(1, 1_000):
                big = msgspec.structs.replace(rejected(job, 1, attempt), completion=os.urandom(20_000).hex())
                await replay.reject_candidate(big)
                acknowledged.append(attempt)

    with pytest.raises(RunError) as stopped:
        await fill_up()
    assert str(stopped.value).startswith(f"replay: {tmp_path / 'store'}: the store cannot be written")
    assert "\n" not in str(stopped.value)
    assert len(acknowledged) > 10
    assert "Traceback" not in (tmp_path / "logs" / "replay.log").read_text()
    async with serving(tmp_path), joined(tmp_path) as replay:  # there is space again
        assert (await replay.status()).rejected_candidates == len(acknowledged)
    assert [reject.attempt for reject in environments.read_rejected(tmp_path / "store")] == acknowledged


def test_the_client_of_replay_imports_no_store():
    code = "import sys, replay.client; print(sorted({'lmdb', 'torch', 'transformers'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


async def test_supervisors_are_bounded_and_the_newest_are_kept(tmp_path):
    async with serving(tmp_path), joined(tmp_path) as replay:
        for index in range(100):
            async with joined(tmp_path, "supervisor", f"s{index}") as supervisor:
                await supervisor.report_processes(
                    f"s{index}", (protocol.Process(f"agent-{index}", "agent", 1, "ready", 0),)
                )
                with pytest.raises(RefusedError, match=f"s{index} may not report for 's0.'"):
                    await supervisor.report_processes("s0.", ())
        long = protocol.Process("x" * 300_000, "agent", 1, "ready", 0)
        async with joined(tmp_path, "supervisor", "s100") as supervisor:
            with pytest.raises(RefusedError, match="is over 262144; have more supervisors"):
                await supervisor.report_processes("s100", (long,))
        names = [process.name for process in (await replay.status()).processes]
        assert names == [f"agent-{index}" for index in range(36, 100)]


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


async def test_orders_go_with_the_supervisor_they_are_for():
    watch, first = Peers(SETTINGS, 0.0), protocol.ReportProcesses("s0", (), {"agent": 1})
    watch.begin(SimpleNamespace(peers={b"s0": protocol.Hello(protocol.PROTOCOL_VERSION, "", "supervisor", "s0", 1)}))
    watch.report(first)
    assert watch.order(protocol.Orders("s0", {"agent": 2})) == ""
    for index in range(1, SUPERVISORS + 1):
        watch.report(protocol.ReportProcesses(f"s{index}", ()))
    assert watch.report(first) == protocol.Orders("s0")


def retaining(size):
    """Settings under which all but the last batch may go once trajectories take more than `size` bytes."""
    learner = {"checkpoint_every": 1, "keep_checkpoints": 1}
    return changed(SETTINGS, learner=learner, replay={"retain_bytes": size})


async def retire(replay, steps):
    """Train so many steps, with a checkpoint of each."""
    await publish(replay)
    for step in range(1, steps + 1):
        await train(replay, step)
        await replay.checkpointed(step)


class ByHand:
    """A service that is given its rounds one by one, by one peer."""

    def __init__(self, run, store, settings=SETTINGS):
        self.hello = protocol.Hello(protocol.PROTOCOL_VERSION, "", "agent", "agent-0", 1)
        self.peers = {b"peer": self.hello}
        self.answers = []
        self._service = Service(settings, run, store, open_run(store, settings))

    async def reply(self, incoming, response):
        self.answers.append(response)

    async def ask(self, request):
        """The answer to a round of one request."""
        await self._service._round(self, [Incoming(b"peer", self.hello, 1, request)])
        return self.answers.pop()


async def test_a_batch_that_is_asked_for_as_retention_deletes_it_is_refused(tmp_path):
    async with serving(tmp_path, retaining(0)), joined(tmp_path, settings=retaining(0)) as replay:
        await retire(replay, 2)
    with open_store(tmp_path / "store", "nosync") as store:
        assert await ByHand(tmp_path, store, retaining(1)).ask(protocol.TakeBatch(1, 0.0)) == protocol.Refused(
            dropped(1)
        )


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
    assert (status.plays, status.late_plays, status.quarantined, status.elapsed_s) == (2, 1, 1, 0.0)
    assert status.plays_per_s == 2.0  # of the first second


async def test_a_batch_that_retention_deleted_is_refused_and_later_ones_are_not(tmp_path):
    settings = retaining(1)
    async with serving(tmp_path, settings), joined(tmp_path, settings=settings) as replay:
        await retire(replay, 3)
        for _ in range(3):  # a slice goes with each round
            await replay.status()
        for step in (1, 2):
            with pytest.raises(RefusedError, match=f"step {step} were deleted by retention"):
                await replay.take_batch(step, 5.0)
        assert isinstance(await replay.take_batch(3, 5.0), protocol.Batch)
    with open_reader(tmp_path / "store") as store:
        assert len(store.scan("trajectories", protocol.Trajectory)) < len(store.scan("plays", Play))
        assert problems(read_contents(store)) == []
