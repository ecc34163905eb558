"""A server lets peers in or refuses them, and listens at some addresses and not at others."""

import socket

import pytest
import trio
import trio.testing

from spade.config import Bus
from spade.errors import BusError, RefusedError
from spade.protocol import PROTOCOL_VERSION, CloseEpisode, Hello, Refused
from spade.transport import Client, connect, serve
from tests.spade.transport.ends import BUS, DIGEST, hello, hold_client


@pytest.mark.parametrize(("stranger", "reason"), [
    (hello(digest="e" * 32), "another configuration .* start it with the run's config.toml"),
    (hello(protocol=PROTOCOL_VERSION + 1), f"speaks protocol {PROTOCOL_VERSION + 1}, this service"),
])  # fmt: skip
async def test_a_stranger_is_refused_with_the_reason(address: str, stranger: Hello, reason: str) -> None:
    async with serve(address, digest=DIGEST, bus=BUS) as server:
        with pytest.raises(RefusedError, match=reason):
            async with connect(address, stranger, bus=BUS):
                raise AssertionError("must not get in")
        assert not server.peers


async def test_the_service_has_the_last_word(address: str) -> None:
    async with serve(address, digest=DIGEST, bus=BUS, ready=lambda hello: Refused("draining")):
        with pytest.raises(RefusedError, match="draining"):
            async with connect(address, hello(), bus=BUS):
                raise AssertionError("must not get in")


async def test_a_server_that_comes_back_as_another_run_refuses_what_is_open(address: str) -> None:
    async with trio.open_nursery() as nursery:
        async with serve(address, digest=DIGEST, bus=BUS) as server:
            client = await nursery.start(hold_client, address)
            nursery.start_soon(expect_refusal, client)
            await server.receive()
        async with serve(address, digest="e" * 32, bus=BUS):
            with pytest.raises(RefusedError, match="another configuration"):
                await wait_for_ever(client)
            with pytest.raises(RefusedError, match="another configuration"):
                await client.call(CloseEpisode("later"))
        nursery.cancel_scope.cancel()


async def wait_for_ever(client: Client) -> None:
    while True:
        await client.wait_pulse()


async def expect_refusal(client: Client) -> None:
    with pytest.raises(RefusedError, match="another configuration"):
        await client.call(CloseEpisode("open"))


async def test_an_unreachable_service_is_an_error_at_the_deadline(address: str) -> None:
    with pytest.raises(BusError, match=r"no answer within 0\.2 s; is the service running\?"):
        async with connect(address, hello(), bus=Bus(call_deadline_s=0.2)):
            raise AssertionError("must not get in")


async def test_a_service_that_is_frozen_is_not_taken_for_one_with_other_keys() -> None:
    hasty = Bus(heartbeat_s=0.05, silence_s=0.1, call_deadline_s=1.0)
    with socket.create_server(("127.0.0.1", 0)) as frozen:  # the kernel takes the connection, and nobody answers
        reason = r"no answer within 1 s; it takes connections and says nothing; its process is stopped or overloaded"
        with pytest.raises(BusError, match=reason):
            async with connect(f"tcp://127.0.0.1:{frozen.getsockname()[1]}", hello(), bus=hasty):
                raise AssertionError("must not get in")


@pytest.mark.parametrize(("bind", "reason"), [
    ("nonsense", "is not an address; write ipc://PATH or tcp://HOST:PORT"),
    ("ipc:///no/such/folder/s", "cannot listen there: No such file"),
    (f"ipc:///tmp/{'x' * 200}", "cannot listen there: File name too long"),
])  # fmt: skip
async def test_addresses_that_cannot_be_served(bind: str, reason: str) -> None:
    with pytest.raises(BusError, match=reason):
        async with serve(bind, digest=DIGEST, bus=BUS):
            raise AssertionError("must not listen")


async def test_an_address_that_is_none() -> None:
    with pytest.raises(BusError, match="ipc://: cannot connect: Invalid argument"):
        async with connect("ipc://", hello(), bus=BUS):
            raise AssertionError("must not connect")


async def test_a_server_takes_its_socket_file_with_it_and_nobody_elses(tmp_path, address):
    """One that comes after takes the address over, also from one that has yet to leave."""
    file = tmp_path / "s"

    async def hold(task_status: trio.TaskStatus[trio.CancelScope]) -> None:
        with trio.CancelScope() as scope:
            async with serve(address, digest=DIGEST, bus=BUS):
                task_status.started(scope)
                await trio.sleep_forever()

    async with trio.open_nursery() as servers:
        first = await servers.start(hold)
        async with trio.open_nursery() as later:
            second = await later.start(hold)
            first.cancel()
            await trio.testing.wait_all_tasks_blocked()
            async with connect(address, hello(), bus=BUS):
                assert file.is_socket()
            second.cancel()
    assert not file.exists()
