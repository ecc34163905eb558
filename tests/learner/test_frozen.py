"""A learner's process that was stopped and replaced, and then goes on: it ends with the reason and touches nothing."""

import os
import signal

import pytest
import trio

from spade import config
from spade.app.supervisor.launches import MODULES
from spade.errors import RunError
from spade.processes.supervise import supervise
from tests.learner.fed_learner import SMALL, Feeder
from tests.learner.test_claim import seen
from tests.peers import orders, pid_of, supervised
from tests.replay.everyone import everyone

pytestmark = pytest.mark.slow


def touched(run):
    return {name: seen(run / name) for name in ("checkpoints", "weights")}


async def test_a_stopped_learner_that_was_replaced_ends_when_it_goes_on(tmp_path, tiny_checkpoint):
    # However long it is stopped, no call of its own runs into a deadline first.
    settings = config.load("nano", (*SMALL, "bus.call_deadline_s=3600", f"model.path={tiny_checkpoint}"))
    launch = orders(tmp_path, settings, "learner")

    async with supervised(tmp_path, settings, "replay"), trio.open_nursery() as nursery:
        replay = await nursery.start(connected, f"ipc://{tmp_path}/replay", settings)
        feeder = Feeder(replay)
        over = r"^learner: life 1\.1 of learner is over: life 2\.1 has taken its place$"
        with pytest.raises(RunError, match=over):  # noqa: PT012
            async with supervise(settings.supervise, tmp_path / "logs", MODULES) as first:
                first.number = 1
                await first.add(launch)
                await feeder.until(0)
                nursery.start_soon(feeder.play)
                await feeder.design(3)
                await feeder.until(1)
                os.kill(pid_of(first, "learner"), signal.SIGSTOP)
                async with supervise(settings.supervise, tmp_path / "logs", MODULES) as second:
                    second.number = 2
                    await second.add(launch)
                    await feeder.design(3)
                    await feeder.until(2)
                before = touched(tmp_path)  # the second has saved what it learnt, and has left
                os.kill(pid_of(first, "learner"), signal.SIGCONT)
                await trio.sleep_forever()
        assert touched(tmp_path) == before
        assert list((tmp_path / "checkpoints").glob("step-*")) == [tmp_path / "checkpoints" / "step-2"]
        assert feeder.client.pulse.weights.step == 2
        nursery.cancel_scope.cancel()


async def connected(address, settings, task_status):
    async with everyone(address, settings) as replay:
        task_status.started(replay)
        await trio.sleep_forever()
