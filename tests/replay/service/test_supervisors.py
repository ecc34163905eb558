"""Supervisors report to the service, which passes orders on to them."""

from types import SimpleNamespace

import pytest

from replay.service.peers import SUPERVISORS, Peers
from spade import protocol
from spade.errors import RefusedError
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
            with pytest.raises(RefusedError, match="is over 262144; have more supervisors"):
                await supervisor.report_processes("s100", (long,))
        names = [process.name for process in (await replay.status()).processes]
        assert names == [f"agent-{index}" for index in range(36, 100)]


async def test_orders_go_with_the_supervisor_they_are_for():
    watch, first = Peers(SETTINGS, 0.0), protocol.ReportProcesses("s0", (), {"agent": 1})
    watch.begin(SimpleNamespace(peers={b"s0": protocol.Hello(protocol.PROTOCOL_VERSION, "", "supervisor", "s0", 1)}))
    watch.report(first)
    assert watch.order(protocol.Orders("s0", {"agent": 2})) == ""
    for index in range(1, SUPERVISORS + 1):
        watch.report(protocol.ReportProcesses(f"s{index}", ()))
    assert watch.report(first) == protocol.Orders("s0")
