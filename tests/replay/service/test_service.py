"""The service over real sockets and a real store."""

import subprocess
import sys

import msgspec
import pytest
import trio

from replay.inspect import environments
from replay.service import process
from spade import protocol
from spade.config import Limits
from spade.errors import RefusedError, RunError
from spade.processes.entry import Launch
from tests.replay.feeding import design, play, publish
from tests.replay.replay_world import config, ended, environment, rejected, trajectory, weights
from tests.replay.service.running import SETTINGS, address, joined, looping, rows, serving


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
        assert (await replay.status()).counts.expired_leases == 8


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
        assert (await replay.status()).counts.plays == 0


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
    was, is_now = before.flat(), after.flat()
    assert [is_now[name] for name in unchanged] == [was[name] for name in unchanged]
    assert after.elapsed_s >= before.elapsed_s > 0


async def test_another_meaning_and_a_second_service_are_refused(tmp_path):
    other = config("run.seed=5", "bus.heartbeat_s=0.1", "bus.silence_s=0.5")
    async with serving(tmp_path):
        with pytest.raises(RunError, match="another replay service"):
            await process.run(Launch("replay", "replay", "", str(tmp_path), address(tmp_path)), SETTINGS, lambda: None)
    with pytest.raises(RunError, match=r"run\.seed \(unset -> 5\)"):
        await process.run(Launch("replay", "replay", "", str(tmp_path), address(tmp_path)), other, lambda: None)


async def test_environments_are_read_beside_the_service_and_without_it(tmp_path):
    code = (
        "import sys; from pathlib import Path; from replay.inspect.environments import *; store = Path(sys.argv[1])\n"
        "print([(e.id, e.state) for e in read_environments(store)], find_newest_weights(store).version)"
    )
    store = tmp_path / "store"
    async with serving(tmp_path), joined(tmp_path) as replay:
        await publish(replay)
        (first, second) = await replay.lease_designs(2, 5.0)
        await replay.reject_candidate(rejected(first, 1))
        told = msgspec.structs.replace(environment(second, 1), reads="box", repairs=("fences",), single_turn=True)
        await replay.submit_environment(told)
        (lease,) = await replay.lease_plays(1, 5.0)
        assert (lease.reads, lease.single_turn) == ("box", True)
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


async def test_requests_that_wait_are_bounded(tmp_path, monkeypatch):
    """A client keeps to its window; one that does not is told so, and serves nobody else worse."""
    for module in "spade.transport.server", "replay.service.service":  # 8 wait, read or unread, and 4 are refused
        monkeypatch.setattr(f"{module}.WINDOW", 4)
    refusals = []

    async def wait(greedy):  # its own window is 256
        try:
            await greedy.lease_plays(1, 10.0)
        except RefusedError as error:
            refusals.append(str(error))

    async with (
        serving(tmp_path),
        joined(tmp_path) as honest,
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


def test_the_client_of_replay_imports_no_store():
    code = "import sys, replay.client; print(sorted({'lmdb', 'torch', 'transformers'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


async def test_the_limits_of_a_command_outlive_a_restart_of_its_service_and_end_with_the_command(tmp_path):
    orders = {"limits": Limits(seconds=0.2), "command": "one"}
    for _ in range(2):
        async with serving(tmp_path, **orders), joined(tmp_path) as peer:
            while not peer.client.pulse.finished:
                await peer.client.wait_pulse()
        assert "its last start was up for" in peer.client.pulse.finished
    starts = [row["elapsed_s"] for row in rows(tmp_path) if row["event"] == "finish"]
    assert starts[1] >= starts[0] >= 0.2
    async with serving(tmp_path, command="two"), joined(tmp_path) as peer:
        await peer.client.wait_pulse()
        assert not peer.client.pulse.finished
