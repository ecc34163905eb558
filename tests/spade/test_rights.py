"""Rights on real sockets: every role asks for everything, and a key lets its holder be what it names alone."""

import itertools
import os
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import get_args

import msgspec
import pytest
import trio
import zmq

from spade.codec import decode_response, encode
from spade.config import Bus
from spade.errors import BusError, ConfigError, RefusedError
from spade.protocol import (
    PROTOCOL_VERSION,
    AnyRequest,
    Done,
    Goodbye,
    Heartbeat,
    Hello,
    Publish,
    Ready,
    Refused,
    Rehello,
    Role,
)
from spade.transport import Client, Server, connect, keys, rights, serve
from tests.fuzz.frames import REQUESTS

BUS = Bus(heartbeat_s=0.05, silence_s=60.0, call_deadline_s=30.0)
DIGEST = "d" * 32
LOOPBACK = "tcp://127.0.0.1:*"
ROLES: tuple[Role, ...] = get_args(Role)
# By hand, so that a line that slips into the table is found.
EXPECTED = {
    "Generate": {"designer", "agent", "evaluator", "gateway"}, "GiveUp": {"gateway"},
    "Serving": {"engine"}, "HoldWeights": {"engine"}, "GetWeights": {"engine"},
    "OpenEpisode": {"agent", "evaluator"}, "StepEpisode": {"agent", "evaluator"},
    "CloseEpisode": {"agent", "evaluator"}, "KeepProgram": {"evaluator"}, "GetProgram": {"env-runner"},
    "Validate": {"designer", "curator", "evaluator"}, "LeaseDesigns": {"designer", "curator"},
    "RejectCandidate": {"designer", "curator"}, "SubmitEnvironment": {"designer", "curator"},
    "ReleaseDesign": {"designer", "curator"}, "CompareProgram": {"designer"},
    "LeasePlays": {"agent"}, "SubmitPlays": {"agent"}, "ReleasePlay": {"agent"},
    "LeaseAudit": {"env-runner"}, "Audited": {"env-runner"},
    "TakeBatch": {"learner"}, "Publish": {"learner"}, "RetireWeights": {"learner"},
    "Checkpointed": {"learner"}, "AwaitCommand": {"learner"},
    "Evaluated": {"evaluator"}, "GetNewestPrograms": {"evaluator"}, "MeasuredDiversity": {"evaluator"},
    "Enroll": {"supervisor"}, "ReportProcesses": {"supervisor"},
    "Orders": {"observer"}, "StopRun": {"observer"}, "GetStatus": {"observer", "supervisor"},
}  # fmt: skip
WORK = [request for request in REQUESTS if not isinstance(request, Hello | Heartbeat | Goodbye)]


def hello(role: Role, name: str = "") -> Hello:
    return Hello(PROTOCOL_VERSION, DIGEST, role, name or f"{role}-0", os.getpid())


def under(folder: Path) -> Bus:
    return msgspec.structs.replace(BUS, keys=str(folder))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    keys.create(tmp_path / "keys", ["far"], ["agent", "designer"])
    return tmp_path / "keys"


async def serve_all(server: Server, seen: list[AnyRequest]) -> None:
    while True:
        incoming = await server.receive()
        seen.append(incoming.message)
        await server.reply(incoming, Done())


async def ask(client: Client, request: AnyRequest) -> str:
    """The refusal, "" where it was served."""
    try:
        await client.call(request)
    except RefusedError as error:
        return str(error)
    except BusError:  # it was served, with Done, which is not the reply of each
        pass
    return ""


async def test_each_role_sends_the_requests_it_may_and_no_others(tmp_path: Path) -> None:
    """Every request of every role, without keys."""
    assert {type(request).__name__ for request in WORK} == EXPECTED.keys()
    for role in ROLES:
        seen: list[AnyRequest] = []
        async with (
            serve(f"ipc://{tmp_path}/{role}", digest=DIGEST, bus=BUS) as server,
            connect(server.address, hello(role), bus=BUS) as client,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(serve_all, server, seen)
            answers = [await ask(client, request) for request in WORK]
            nursery.cancel_scope.cancel()
        served = {type(request).__name__ for request in seen}
        assert served == {name for name, roles in EXPECTED.items() if role in roles}
        refused = [type(request).__name__ for request in WORK if type(request).__name__ not in served]
        assert server.dropped == len(refused)
        ends = [f"which may not send {name}" for name in refused]
        assert [answer for answer in answers if answer] == [
            f"{server.address}: {end.split()[-1]} refused: {role}-0 is {article(role)} {role}, {end}" for end in ends
        ]


def article(role: Role) -> str:
    return {
        "learner": "a",
        "replay": "a",
        "designer": "a",
        "curator": "a",
        "gateway": "a",
        "supervisor": "a",
        "tracker": "a",
    }.get(role, "an")


async def get_in(address: str, greeting: Hello, bus: Bus) -> str:
    """The refusal, "" where the peer is welcome."""
    try:
        async with connect(address, greeting, bus=bus):
            return ""
    except BusError as error:
        return str(error)


async def test_a_key_names_the_roles_its_holder_may_take(folder: Path) -> None:
    async with serve(LOOPBACK, digest=DIGEST, bus=under(folder)) as server:
        home = under(folder / "hosts/far")
        for role in ROLES:
            answer = await get_in(server.address, hello(role, f"{role}-0@far"), home)
            if role in ("agent", "designer", "supervisor"):  # the last comes with the others
                assert answer == ""
            else:
                assert f"{role}-0@far is {article(role)} {role}, and the key of far only lets its holder be" in answer
                assert answer.endswith(f"`spade keys new DIR far --roles {role}` makes another")
            assert await get_in(server.address, hello(role), under(folder)) == "", "of the run's own host"


@pytest.mark.parametrize("name", ["agent-0", "agent-0@near", "agent-0@far@near", "agent-0@", "far", "agent-0@FAR"])
async def test_a_name_is_bound_to_its_key(folder: Path, name: str) -> None:
    """So no host can take what another's peers have leased, or speak for them."""
    async with serve(LOOPBACK, digest=DIGEST, bus=under(folder)) as server:
        answer = await get_in(server.address, hello("agent", name), under(folder / "hosts/far"))
    assert answer.endswith(f"{name}: with the key of far, a process needs a name that ends in @far")


async def test_a_second_hello_widens_no_rights(folder: Path) -> None:
    """A peer that says hello again, as more than its key lets it be, is refused and stays what it was."""
    publish = next(request for request in WORK if isinstance(request, Publish))
    async with serve(LOOPBACK, digest=DIGEST, bus=under(folder)) as server:
        with zmq.Context() as context:
            peer = Raw(context, server.address, folder / "hosts/far", b"seat")
            for greeting, answer in (
                ("agent", Ready),
                ("designer", Ready),
                ("learner", Refused),
                ("observer", Refused),
            ):
                assert isinstance(await peer.ask(hello(greeting, "peer@far")), answer)
            assert await peer.ask(publish) == Refused("peer@far is a designer, which may not send Publish")
            peer.socket.close()


async def test_roles_are_read_at_every_handshake(folder: Path) -> None:
    async with serve(LOOPBACK, digest=DIGEST, bus=under(folder)) as server:
        path, home = folder / "allowed" / "far.key", under(folder / "hosts/far")
        greeting = hello("agent", "agent-0@far")
        text = path.read_text()
        for roles, reason in (("engine", "holder be engine;"), ("", "holder be nothing;"), ("agent", None)):
            path.write_text(text.replace("roles = agent,designer,supervisor", f"roles = {roles}"))
            answer = await get_in(server.address, greeting, home)
            assert (answer == "") if reason is None else (reason in answer)


def test_a_key_of_old_may_be_nothing(folder: Path) -> None:
    path = folder / "allowed" / "far.key"
    path.write_text("".join(line for line in path.read_text().splitlines(True) if "roles" not in line))
    assert {grant.name: set(grant.roles) for grant in keys.read_allowed(folder).values()} == {
        "far": set(), "local": set(ROLES)
    }  # fmt: skip


def test_a_role_that_is_none_is_named(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"^--roles: 'king' "):
        keys.create(folder, ["late"], ["agent", "king"])
    path = folder / "allowed" / "far.key"
    path.write_text(path.read_text().replace("roles = agent", "roles = king"))
    with pytest.raises(ConfigError, match=r"far\.key: roles: 'king' is not a role"):
        keys.read_allowed(folder)


def test_a_host_may_start_all_actors_and_nothing_that_leads_a_run(tmp_path: Path) -> None:
    keys.create(tmp_path / "keys", ["far"])
    granted = {grant.name: grant for grant in keys.read_allowed(tmp_path / "keys").values()}
    assert granted["far"].roles == {"designer", "curator", "agent", "env-runner", "engine", "endpoint", "supervisor"}
    assert keys.read_client_name(tmp_path / "keys/hosts/far") == "far"
    assert keys.read_client_name(tmp_path / "keys") == rights.LOCAL


async def test_one_host_cannot_take_all_places(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spade.transport.server._EACH", 2)
    home = under(folder / "hosts/far")
    async with serve(LOOPBACK, digest=DIGEST, bus=under(folder)) as server, AsyncExitStack() as stack:
        for number in range(2):
            greeting = hello("agent", f"agent-{number}@far")
            await stack.enter_async_context(connect(server.address, greeting, bus=home))
        answer = await get_in(server.address, hello("agent", "agent-2@far"), home)
        assert answer.endswith("2 peers with the key of far are connected already; start no more of them")
        for number in range(3):
            own = connect(server.address, hello("agent", f"agent-{number}"), bus=under(folder))
            await stack.enter_async_context(own)


async def test_peers_get_ids_that_cannot_be_foreseen(tmp_path: Path) -> None:
    """libzmq counts them up from `rand`; a peer that claims the next one ends the process."""
    code = (
        "import trio, sys\n"
        "from spade.config import Bus\n"
        "from spade.protocol import PROTOCOL_VERSION, Hello\n"
        "from spade.transport import connect, serve\n"
        "async def main():\n"
        "    hello = Hello(PROTOCOL_VERSION, '', 'agent', 'agent-0', 1)\n"
        "    async with serve('ipc://' + sys.argv[1], digest='', bus=Bus()) as server:\n"
        "        async with connect(server.address, hello, bus=Bus()):\n"
        "            print(next(iter(server.peers)).hex())\n"
        "trio.run(main)\n"
    )
    ids = [
        (await trio.run_process([sys.executable, "-c", code, f"{tmp_path}/{life}"], capture_stdout=True)).stdout
        for life in range(2)
    ]
    assert ids[0] != ids[1]


# ---------------------------------------------------------------- one peer in the place of another


class Raw:
    """A DEALER of our own, under a routing id that it chooses."""

    def __init__(self, context: zmq.Context, address: str, home: Path | None, identity: bytes) -> None:
        self.socket = context.socket(zmq.DEALER)
        self.socket.linger = 0
        self.socket.setsockopt(zmq.ROUTING_ID, identity)
        if home is not None:
            self.socket.curve_publickey, self.socket.curve_secretkey = keys.read_client_pair(home)
            self.socket.curve_serverkey = keys.read_server_public(home)
        self.socket.connect(address)
        self._numbers = itertools.count(1)

    async def ask(self, message: AnyRequest) -> object:
        self.socket.send_multipart([next(self._numbers).to_bytes(8, "big"), encode(message)])
        assert await trio.to_thread.run_sync(self.socket.poll, 10_000), "no answer"
        return decode_response(self.socket.recv_multipart()[1])


async def test_nobody_goes_on_as_a_peer_of_another_key(folder: Path) -> None:
    """A connection that takes the routing id of one that was lost does not take its session."""
    keys.create(folder, ["near"], ["agent"])
    publish = next(request for request in WORK if isinstance(request, Publish))
    async with serve(LOOPBACK, digest=DIGEST, bus=under(folder)) as server:
        with zmq.Context() as context:
            owner = Raw(context, server.address, folder, b"seat")
            assert isinstance(await owner.ask(hello("learner")), Ready)
            owner.socket.close()  # without a goodbye, as one that is lost
            thief = None
            with trio.fail_after(20):
                while server.peers:  # it is turned away until the server has noticed that the owner is gone
                    thief = Raw(context, server.address, folder / "hosts/near", b"seat")
                    thief.socket.send_multipart([bytes(7) + b"\1", encode(publish)])
                    if await trio.to_thread.run_sync(thief.socket.poll, 500):
                        break
                    thief.socket.close()
            assert isinstance(decode_response(thief.socket.recv_multipart()[1]), Rehello)
            assert not server.peers
            assert isinstance(await thief.ask(hello("learner")), Refused)
            assert isinstance(await thief.ask(hello("agent", "agent-0@near")), Ready)
            thief.socket.close()
    assert server.receive_nowait() is None
