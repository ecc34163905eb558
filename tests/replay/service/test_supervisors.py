"""Supervisors report to the service, which passes orders on to them."""

from types import SimpleNamespace

import pytest

from replay.service.peers import PARTINGS, SUPERVISORS, Peers
from spade import protocol
from spade.errors import RefusedError
from tests.peers import changed
from tests.replay.service.running import SETTINGS, joined, serving


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
            with pytest.raises(RefusedError, match="is over 262144; start more supervisors"):
                await supervisor.report_processes("s100", (long,))
        names = [process.name for process in (await replay.status()).processes]
        assert names == [f"agent-{index}" for index in range(36, 100)]


def test_services_are_listed_again_only_when_a_peer_came_or_went():
    """Each heartbeat asks for them: with thousands of agents a walk over all peers took all of the service's time."""
    walks, found = [], {b"e": protocol.Hello(protocol.PROTOCOL_VERSION, "", "engine", "engine-0", 1, "ipc://engine")}
    server = SimpleNamespace(peers=SimpleNamespace(values=lambda: walks.append(1) or found.values()), changes=1)
    watch = Peers(SETTINGS, 0.0)
    watch.begin(server)
    assert [[peer.name for peer in watch.services()] for _ in range(3)] == [["engine-0"]] * 3
    assert len(walks) == 1
    found.clear()
    server.changes += 1
    assert watch.services() == ()


async def test_orders_go_with_the_supervisor_they_are_for():
    watch, first = Peers(SETTINGS, 0.0), protocol.ReportProcesses("s0", (), {"agent": 1})
    watch.begin(SimpleNamespace(peers={b"s0": protocol.Hello(protocol.PROTOCOL_VERSION, "", "supervisor", "s0", 1)}))
    watch.report(first, 0.0)
    assert watch.order(protocol.Orders("s0", {"agent": 2})) == ""
    for index in range(1, SUPERVISORS + 1):
        watch.report(protocol.ReportProcesses(f"s{index}", ()), 0.0)
    assert watch.report(first, 0.0) == protocol.Orders("s0")


@pytest.mark.parametrize(("source", "needless"), [("model", "curator"), ("pool", "designer")])
def test_nobody_is_ordered_for_whom_the_run_has_no_work(source, needless):
    watch = Peers(changed(SETTINGS, design={"source": source}), 0.0)
    watch.begin(SimpleNamespace(peers={b"s0": greeting("s0", "supervisor")}))
    watch.report(protocol.ReportProcesses("s0", (), {}), 0.0)
    refused = f"this run has no work for a {needless} (design.source)"
    assert watch.order(protocol.Orders("s0", {needless: 1})) == refused
    assert watch.order(protocol.Orders("s0", {needless: 0, "agent": 1})) == ""


def greeting(name, role):
    return protocol.Hello(protocol.PROTOCOL_VERSION, "", role, name, 1)


async def test_a_stop_reaches_every_supervisor_and_that_of_the_service_when_the_others_processes_are_gone(tmp_path):
    home = (protocol.Process("replay", "replay", 1, "ready", 0), protocol.Process("learner", "learner", 2, "ready", 0))
    async with serving(tmp_path), joined(tmp_path) as person:
        with pytest.raises(RefusedError, match="no supervisor is connected"):
            await person.stop()
        async with (
            joined(tmp_path, "supervisor", name="up") as up,
            joined(tmp_path, "learner", name="learner"),
            joined(tmp_path, "evaluator", name="nobody's"),
        ):
            async with joined(tmp_path, "agent", name="agent-0@far"):
                async with joined(tmp_path, "supervisor", name="far") as far:
                    its = (protocol.Process("agent-0@far", "agent", 3, "ready", 0),)
                    assert not (await far.report_processes("far", its, {})).stop
                    await person.stop()
                    assert not (await up.report_processes("up", home)).stop
                    assert (await far.report_processes("far", its, {})).stop
                assert not (await up.report_processes("up", home)).stop  # its agent drains
            while not (await up.report_processes("up", home)).stop:
                await up.client.wait_pulse()


def test_the_services_supervisor_leaves_although_a_process_does_not():
    watch, report = Peers(SETTINGS, 0.0), protocol.ReportProcesses(
        "up", (protocol.Process("replay", "replay", 1, "ready", 0),)
    )  # fmt: skip
    peers = {b"up": greeting("up", "supervisor"), b"agent": greeting("agent-0@far", "agent")}
    watch.begin(SimpleNamespace(peers=peers))
    watch.report(protocol.ReportProcesses("far", (protocol.Process("agent-0@far", "agent", 1, "ready", 0),)), 0.0)
    assert watch.stop(1.0) == ""
    limit = 1.0 + PARTINGS * SETTINGS.supervise.drain_s
    assert [watch.report(report, at).stop for at in (1.0, limit - 0.1, limit)] == [False, False, True]
    del peers[b"agent"]
    assert watch.report(report, 1.0).stop


def test_a_stop_is_told_again_although_the_supervisors_have_left():
    watch, peers = Peers(SETTINGS, 0.0), {b"up": greeting("up", "supervisor")}
    watch.begin(SimpleNamespace(peers=peers))
    assert watch.stop(1.0) == ""
    peers.clear()  # it drains, and no longer reports
    assert watch.stop(3.0) == ""
