"""Keys on real sockets: who gets in, who does not and is told so, and what is on the wire."""

import os
import re
import shutil
import stat
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec
import pytest
import trio

from spade.config import Bus, load
from spade.errors import BusError, ConfigError, RunError
from spade.protocol import PROTOCOL_VERSION, CloseEpisode, Done, Hello, Observed, StepEpisode
from spade.transport import Client, Server, connect, keys, serve

BUS = Bus(heartbeat_s=0.05, silence_s=60.0, call_deadline_s=60.0)
DIGEST = "d" * 32
HELLO = Hello(PROTOCOL_VERSION, DIGEST, "agent", "agent-0@far", os.getpid())
LOOPBACK = "tcp://127.0.0.1:*"
# Of two ends only one has keys: whichever finds out first hangs up, mostly but not always after it has told the other.
ONE_SIDED = "only one end has keys; --set bus.keys=DIR|the handshake fails; do both ends have keys"


def under(folder: Path | str) -> Bus:
    return msgspec.structs.replace(BUS, keys=str(folder))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    keys.create(tmp_path / "keys", ["far"])
    return tmp_path / "keys"


async def serve_one(server: Server) -> None:
    incoming = await server.receive()
    await server.reply(incoming, Observed("well"))


async def get_in(address: str, bus: Bus) -> None:
    async with connect(address, HELLO, bus=bus):
        raise AssertionError("must not get in")


# ---------------------------------------------------------------- who gets in


@pytest.mark.parametrize("home", ["", "hosts/far"])
async def test_listed_keys_get_in(folder: Path, home: str) -> None:
    async with (
        serve(LOOPBACK, digest=DIGEST, bus=under(folder)) as server,
        connect(server.address, HELLO, bus=under(folder / home)) as client,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(serve_one, server)
        assert await client.call(StepEpisode("e", 1, "go")) == Observed("well")
    assert server.strangers == server.dropped == 0


async def refused_within(server: Server, bus: Bus, reason: str) -> None:
    with trio.fail_after(BUS.call_deadline_s / 2), pytest.raises(BusError, match=reason):
        await get_in(server.address, bus)
    await strangers(server, 1)
    assert not server.peers


async def strangers(server: Server, count: int) -> None:
    """Wait until the server has heard of so many: each end hears of a failed handshake in its own time."""
    while server.strangers < count:  # noqa: ASYNC110 (it tells nobody of this)
        await trio.sleep(0.01)


async def test_a_peer_without_a_key_is_told_so(folder: Path) -> None:
    async with serve(LOOPBACK, digest=DIGEST, bus=under(folder)) as server:
        await refused_within(server, msgspec.structs.replace(BUS, call_deadline_s=10.0), ONE_SIDED)


async def test_a_service_without_keys_tells_a_peer_with_one(folder: Path) -> None:
    async with serve(LOOPBACK, digest=DIGEST, bus=BUS) as server:
        await refused_within(server, msgspec.structs.replace(under(folder), call_deadline_s=10.0), ONE_SIDED)


async def test_a_key_that_is_not_listed_is_refused_and_told_so(folder: Path) -> None:
    (folder / "allowed" / "far.key").unlink()
    async with serve(LOOPBACK, digest=DIGEST, bus=under(folder)) as server:
        await refused_within(server, under(folder / "hosts/far"), "our key is not on the service's allow-list")


async def test_keys_of_another_run_open_nothing(folder: Path, tmp_path: Path) -> None:
    keys.create(tmp_path / "other", [])
    hasty = msgspec.structs.replace(under(tmp_path / "other"), call_deadline_s=3.0)
    async with serve(LOOPBACK, digest=DIGEST, bus=under(folder)) as server:
        with pytest.raises(BusError, match=r"the handshake fails; .* server\.key"):
            await get_in(server.address, hasty)
        await strangers(server, 1)


async def test_the_allow_list_is_read_at_every_handshake(folder: Path) -> None:
    async with serve(LOOPBACK, digest=DIGEST, bus=under(folder)) as server:
        keys.create(folder, ["late"])
        late = msgspec.structs.replace(HELLO, name="agent-0@late")
        async with connect(server.address, late, bus=under(folder / "hosts/late")):
            pass
        (folder / "allowed" / "late.key").unlink()
        await refused_within(server, under(folder / "hosts/late"), "not on the service's allow-list")


async def test_a_broken_allow_list_lets_nobody_in(folder: Path) -> None:
    (folder / "allowed" / "far.key").write_text("nothing")
    async with serve(LOOPBACK, digest=DIGEST, bus=under(folder)) as server:
        await refused_within(server, under(folder), "not on the service's allow-list")


async def test_a_session_survives_the_restart_of_its_keyed_server(folder: Path) -> None:
    async def hold(address: str, task_status: trio.TaskStatus[Client]) -> None:
        async with connect(address, HELLO, bus=under(folder)) as client:
            task_status.started(client)
            await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        async with serve(LOOPBACK, digest=DIGEST, bus=under(folder)) as server:
            address = server.address
            client = await nursery.start(hold, address)
        async with serve(address, digest=DIGEST, bus=under(folder)) as server, trio.open_nursery() as services:
            services.start_soon(serve_one, server)
            assert await client.call(StepEpisode("e", 1, "go")) == Observed("well")
        nursery.cancel_scope.cancel()


async def test_nothing_is_left_of_a_gate(folder: Path) -> None:
    def tasks() -> int:
        return len(os.listdir("/proc/self/task"))

    await trio.to_thread.run_sync(lambda: None)  # trio keeps a worker of its own
    before, named = tasks(), set(threading.enumerate())  # idle ones of earlier tests may end meanwhile
    for _ in range(3):
        async with (
            serve(LOOPBACK, digest=DIGEST, bus=under(folder)) as server,
            connect(server.address, HELLO, bus=under(folder)),
        ):
            pass
    assert set(threading.enumerate()) <= named
    assert tasks() <= before + 2  # libzmq's shared context, where this test runs alone


async def test_noise_at_a_keyed_port_keeps_nobody_out(folder: Path) -> None:
    curve = b"\xff\0\0\0\0\0\0\0\x01\x7f\x03\0CURVE" + bytes(47)
    noise = [b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 200, curve[:30], curve + b"\x04\xc8\x05HELLO" + bytes(194)]
    async with serve(LOOPBACK, digest=DIGEST, bus=under(folder)) as server:
        port = int(server.address.rpartition(":")[2])
        for number in range(40):
            async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                with suppress(trio.BrokenResourceError):  # closed on us while we speak
                    await stream.send_all(noise[number % len(noise)])
                    await stream.receive_some(64)
        async with connect(server.address, HELLO, bus=under(folder)):
            assert len(server.peers) == 1
        await strangers(server, 10)
        assert server.dropped == 0


# ---------------------------------------------------------------- on the wire


async def heard_on_the_wire(bus: Bus) -> bytes:
    """All that a tap between client and server hears of one call."""
    heard = bytearray()
    async with serve(LOOPBACK, digest=DIGEST, bus=bus) as server, trio.open_nursery() as nursery:
        port = int(server.address.rpartition(":")[2])

        async def pass_on(source: trio.SocketStream, sink: trio.SocketStream) -> None:
            async for data in source:
                heard.extend(data)
                await sink.send_all(data)

        async def tap(near: trio.SocketStream) -> None:
            far = await trio.open_tcp_stream("127.0.0.1", port)
            async with far, trio.open_nursery() as ways:
                ways.start_soon(pass_on, near, far)
                ways.start_soon(pass_on, far, near)

        listeners = await nursery.start(partial(trio.serve_tcp, host="127.0.0.1"), tap, 0)
        tapped = f"tcp://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        async with connect(tapped, HELLO, bus=bus) as client:
            nursery.start_soon(serve_one, server)
            await client.call(StepEpisode("e", 1, "open sesame"))
        nursery.cancel_scope.cancel()
    return bytes(heard)


async def test_messages_under_keys_cannot_be_read(folder: Path) -> None:
    assert b"open sesame" in await heard_on_the_wire(BUS)
    assert b"open sesame" not in await heard_on_the_wire(under(folder))


async def test_the_largest_message_fits_under_keys(folder: Path) -> None:
    bus = msgspec.structs.replace(under(folder), max_message_bytes=4_096)
    async with (
        serve(LOOPBACK, digest=DIGEST, bus=bus) as server,
        connect(server.address, HELLO, bus=bus) as client,
        trio.open_nursery() as nursery,
    ):
        empty = len(msgspec.msgpack.encode(StepEpisode("e", 1, "")))
        largest = "x" * (4_096 - empty - 2)  # a longer text has a longer header
        nursery.start_soon(serve_one, server)
        assert await client.call(StepEpisode("e", 1, largest)) == Observed("well")


# ---------------------------------------------------------------- where keys are needed


@pytest.mark.parametrize("host", ["0.0.0.0", "10.0.0.1", "[::]", "127.0.0.1.example.org", "127.0.0.1:0;10.0.0.1"])
async def test_beyond_this_machine_nothing_is_said_without_keys(host: str) -> None:
    address = f"tcp://{host}:5555"
    with pytest.raises(ConfigError, match="needs keys: `spade keys new DIR`"):
        async with serve(address, digest=DIGEST, bus=BUS):
            raise AssertionError("must not listen")
    with pytest.raises(ConfigError, match="needs keys: `spade keys new DIR`"):
        await get_in(address, BUS)


@pytest.mark.parametrize(("bind", "reason"), [
    ("tcp://10.0.0.1:5555", "needs keys: `spade keys new DIR`, then --set bus.keys=DIR"),
    ("tcp://0.0.0.0:5555", "give an address of this host"),
    ("tcp://10.0.0.1", "write tcp://HOST:PORT"),
    ("tcp://10.0.0.1:*", "write tcp://HOST:PORT"),
    ("ipc:///tmp/s", "write tcp://HOST:PORT"),
])  # fmt: skip
def test_an_address_to_serve_at_is_checked_before_anything_starts(bind: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        load("nano", (f"bus.bind={bind}",))


def test_the_key_folder_is_the_same_from_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = load("nano", ("bus.keys=keys", "bus.bind=tcp://10.0.0.1:5555"))
    assert config.bus.keys == str(tmp_path / "keys")


# ---------------------------------------------------------------- files


def test_key_files_are_private(folder: Path) -> None:
    paths = [folder, *folder.rglob("*")]
    modes = {path.relative_to(folder.parent).as_posix(): stat.S_IMODE(path.stat().st_mode) for path in paths}
    files = [
        "keys/server.key", "keys/server.key_secret", "keys/client.key_secret", "keys/allowed/local.key",
        "keys/allowed/far.key", "keys/hosts/far/client.key_secret", "keys/hosts/far/server.key",
    ]  # fmt: skip
    folders = ["keys", "keys/allowed", "keys/hosts", "keys/hosts/far"]
    assert modes == dict.fromkeys(files, 0o600) | dict.fromkeys(folders, 0o700)


def test_hosts_are_added_later_and_never_twice(folder: Path) -> None:
    before = keys.read_allowed(folder)
    assert keys.create(folder, ["late"]) == [folder / "hosts" / "late"]
    assert sorted(grant.name for grant in keys.read_allowed(folder).values()) == ["far", "late", "local"]
    assert before.items() <= keys.read_allowed(folder).items()
    with pytest.raises(ConfigError, match="far has a key"):
        keys.create(folder, ["far"])
    with pytest.raises(ConfigError, match="valid host name"):
        keys.create(folder, ["../up"])


def test_keys_whose_making_failed_are_made_by_the_same_command(tmp_path: Path) -> None:
    """One of the files cannot be written at first, as on a disk that becomes full."""
    folder = tmp_path / "keys"
    (folder / "allowed" / "local.key" / "in the way").mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        keys.create(folder, ["far"])
    assert not list(folder.glob("*.key*"))
    shutil.rmtree(folder / "allowed")
    assert keys.create(folder, ["far"]) == [folder, folder / "hosts" / "far"]
    assert sorted(grant.name for grant in keys.read_allowed(folder).values()) == ["far", "local"]
    assert keys.read_client_name(folder) == "local"
    assert keys.read_client_name(folder / "hosts" / "far") == "far"
    assert keys.find_secret_faults(folder) == keys.find_writable_places(folder) == []
    assert not list(folder.rglob(".*"))


@pytest.mark.parametrize(("damage", "reason"), [
    (lambda path: path.unlink(), "is missing or is not a key"),
    (lambda path: path.write_text("nothing"), "is missing or is not a key"),
    (lambda path: (path.unlink(), os.mkfifo(path)), "is not a regular file"),
    (lambda path: path.chmod(0o640), "others may read this secret; `chmod 600"),
    (lambda path: path.write_text('public-key = "short"'), "a key has 40 characters"),
    (lambda path: path.write_text(f'public-key = "{"x" * 40}"'), "there is no secret key in it"),
])  # fmt: skip
async def test_files_that_are_no_keys_are_named(folder: Path, damage, reason: str) -> None:
    damage(folder / "server.key_secret")
    with pytest.raises(ConfigError, match=reason):
        async with serve(LOOPBACK, digest=DIGEST, bus=under(folder)):
            raise AssertionError("must not listen")
    damage(folder / "client.key_secret")
    with pytest.raises(ConfigError, match=reason):
        await get_in("tcp://127.0.0.1:5555", under(folder))
    found = keys.find_secret_faults(folder)
    assert len(found) == sum(name.endswith(".key_secret") for name in os.listdir(folder))
    assert all(re.search(reason, why) for why in found)


@pytest.mark.parametrize(
    "place", [".", "server.key", "allowed", "allowed/far.key", "hosts", "hosts/far", "hosts/far/server.key"]
)
async def test_keys_that_others_may_change_are_refused_by_services_and_named(folder: Path, place: str) -> None:
    (folder / place).chmod(0o777)
    with pytest.raises(ConfigError, match=r"change the keys here; `chmod go-w"):
        async with serve(LOOPBACK, digest=DIGEST, bus=under(folder)):
            raise AssertionError("must not listen")
    assert [why.partition(":")[0] for why in keys.find_writable_places(folder)] == [str(folder / place)]
    (folder / place).chmod(0o700)
    assert keys.find_writable_places(folder) == []


@pytest.mark.parametrize("place", ["hosts/loop", "allowed/loop.key"])
def test_a_place_that_cannot_be_looked_at_is_one_line(folder: Path, place: str) -> None:
    (folder / place).symlink_to(Path(place).name)
    with pytest.raises(RunError, match=f"{place}: Too many levels of symbolic links"):
        keys.read_server_pair(folder)


def test_a_file_in_place_of_a_key_folder_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "keys").touch()
    with pytest.raises(ConfigError, match=r"server\.key_secret is missing or is not a key"):
        keys.read_server_pair(tmp_path / "keys")


async def test_replies_of_a_keyed_service_count_its_own_peers_alone(folder: Path) -> None:
    """Two services of one process have a gate each."""
    async with (
        serve(LOOPBACK, digest=DIGEST, bus=under(folder)) as one,
        serve(LOOPBACK, digest=DIGEST, bus=under(folder)) as two,
        connect(one.address, HELLO, bus=under(folder)) as client,
        connect(two.address, HELLO, bus=under(folder)),
        trio.open_nursery() as nursery,
    ):

        async def done() -> None:
            await one.reply(await one.receive(), Done())

        nursery.start_soon(done)
        assert await client.call(CloseEpisode("e")) == Done()
