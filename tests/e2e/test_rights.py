"""Real services under keys: what the key of a host that is an agent alone opens, and what it does not."""

import os
import socket
from pathlib import Path

import pytest
import trio
import zmq

from learner.broadcast import broadcast
from spade.codec import decode_response, encode
from spade.config import Config
from spade.errors import BusError, RefusedError
from spade.protocol import AnyRequest, Done, LeasePlays, Plays, Ready, Refused, Role, SubmitPlays
from spade.transport import Client, keys
from tests.fuzz.frames import REQUESTS, SESSION
from tests.fuzz.targets import SETTINGS
from tests.peers import changed, connected, hello, orders, supervised
from tests.replay import feeding
from tests.replay.everyone import everyone
from tests.replay.replay_world import ended

AGENTS = (
    "Generate", "OpenEpisode", "StepEpisode", "CloseEpisode", "LeasePlays", "SubmitPlays", "ReleasePlay",
)  # fmt: skip


def free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{probe.getsockname()[1]}"


async def refusals(client: Client) -> dict[str, str]:
    """Everything that can be asked, and the refusals of what the peer has no right to."""
    found = {}
    for request in REQUESTS:
        if not isinstance(request, SESSION):
            try:
                await client.call(request)
            except RefusedError as error:
                if "which may not send" in str(error):
                    found[type(request).__name__] = str(error)
    return found


async def enter(address: str, role: Role, settings: Config) -> None:
    async with connected(address, settings, role, f"{role}-0@narrow"):
        raise AssertionError("must not get in")


async def test_the_key_of_an_agent_opens_an_agents_requests_alone(tmp_path: Path) -> None:
    keys.create(tmp_path / "keys", ["narrow"], ["agent"])
    here = changed(SETTINGS, bus={"keys": str(tmp_path / "keys")})
    far = changed(SETTINGS, bus={"keys": str(tmp_path / "keys/hosts/narrow")})
    replay, runner = free_address(), free_address()
    async with (
        supervised(tmp_path, here, "replay", replay=replay) as supervisor,
        broadcast("tcp://127.0.0.1:*", tmp_path / "weights", here) as learner,
    ):
        await supervisor.add(orders(tmp_path, here, "env-runner", replay, runner))
        async with everyone(replay, here) as owner:
            await feeding.publish(owner)
            for address in (replay, runner, learner):
                async with connected(address, far, "agent", "agent-0@narrow") as client:
                    refused = await refusals(client)
                    assert refused.keys().isdisjoint(AGENTS)
                    assert len(refused) == len(REQUESTS) - len(SESSION) - len(AGENTS)
                    assert refused["Publish"].endswith("agent-0@narrow is an agent, which may not send Publish")
                for role in ("learner", "observer", "engine", "designer", "evaluator", "replay"):
                    with pytest.raises(BusError, match=r"key of narrow .* agent or supervisor"):
                        await enter(address, role, far)
            status = await owner.status()
            assert (status.policy_version, status.learner_step, status.wanted) == (1, 0, {})
            assert status.traffic.dropped_messages == len(refused)
            async with connected(replay, far, "agent", "agent-0@narrow") as client:
                assert isinstance(await client.call(LeasePlays(1, 0.0)), Plays)
        assert [process.restarts for process in supervisor.processes()] == [0, 0]


async def test_requests_that_any_peer_sends_again_take_effect_once(tmp_path: Path) -> None:
    """A peer that has another's frames, bytes and numbers alike, can do no more with them than with its own."""
    address = f"ipc://{tmp_path}/replay"
    async with supervised(tmp_path, SETTINGS, "replay"), everyone(address, SETTINGS) as owner:
        await feeding.publish(owner)
        await feeding.design(owner)
        with zmq.Context() as context, context.socket(zmq.DEALER) as first, context.socket(zmq.DEALER) as second:
            for peer, name in ((first, "agent-1"), (second, "agent-2")):
                peer.connect(address)
                assert isinstance(await ask(peer, 1, hello(SETTINGS, "agent", name)), Ready)
            leased = await ask(first, 2, LeasePlays(1, 5.0))
            assert await ask(first, 2, LeasePlays(1, 5.0)) == leased, "sent again it is given what it has"
            others = await ask(second, 2, LeasePlays(1, 5.0))
            assert {play.id for play in leased.plays}.isdisjoint(play.id for play in others.plays)
            (play,) = leased.plays
            submit = SubmitPlays((ended(play, 1.0, 1),))
            stolen = Refused(f"play {play.id}: its lease 1 is not held by agent-2/0.0-{os.getpid()}")
            assert await ask(second, 3, submit) == stolen
            for peer, number in ((first, 3), (first, 3), (second, 3), (second, 4)):
                assert await ask(peer, number, submit) == Done()
            assert (await owner.status()).counts.plays == 1
            assert (await owner.status()).counts.late_plays == 3


async def ask(peer: zmq.Socket[bytes], number: int, message: AnyRequest) -> object:
    peer.send_multipart([number.to_bytes(8, "big"), encode(message)])
    assert await trio.to_thread.run_sync(peer.poll, 60_000), "no answer"
    return decode_response(peer.recv_multipart()[1])
