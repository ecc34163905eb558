"""`spade stop`: order the run to stop over its bus. Then signal the processes on this host that still hold the run."""

import signal

import trio

from spade.app.screen.reach import AGAIN_S, ANSWER_S, ReachedRun, connect_observer
from spade.errors import BusError, RunError
from spade.locks import Holder
from spade.protocol import StopRun
from spade.transport import Client

LOOK_S = 0.05
DRAINS = 12  # longest wait for all supervisors, in units of supervise.drain_s; the replay service drains last


async def stop(at: ReachedRun) -> None:
    """Drain a run and stop it.

    Raises RunError if nothing is up, or if the run is still up at the end. Raises BusError if `at` is an address that
    does not answer.
    """
    if at.run is not None and not at.holders():
        raise RunError(f"{at.name}: nothing is up")
    with trio.move_on_after(DRAINS * at.config.supervise.drain_s):
        trouble = await _order(at)
        if at.run is None and trouble is not None:
            raise trouble
        await _end(at, trouble)
        return
    left = ", ".join(sorted({str(holder) for holder in at.holders().values()}))
    raise RunError(f"{at.name}: still draining ({left or 'its service is up'}); its logs say more")


async def _order(at: ReachedRun) -> BusError | None:
    """Order all supervisors to stop, and wait until the replay service has stopped.

    Returns the error that prevented this, or None.
    """
    if at.run is not None and "replay" not in at.holders():
        return BusError("its replay service is down")
    try:
        async with connect_observer(at, ANSWER_S) as client:
            while at.goes_on(client):
                await client.call(StopRun(), deadline_s=ANSWER_S)
                with trio.move_on_after(AGAIN_S):
                    await _wait_until_left(at, client)
    except BusError as error:
        return error
    return None


async def _wait_until_left(at: ReachedRun, client: Client) -> None:
    while True:
        if not at.goes_on(client):
            return
        await trio.sleep(LOOK_S)


async def _end(at: ReachedRun, trouble: BusError | None) -> None:
    """Wait until nothing holds the run. Signal the holders on this host, because the order may not have reached them.

    `trouble` is the error of the order, or None. After an error, raises RunError for a holder on another host, which no
    signal reaches.
    """
    signalled: set[Holder] = set()
    while at.run is not None and (holders := set(at.holders().values())):
        for holder in holders:
            if not holder.near and trouble is not None:
                raise RunError(f"{at.run.held_by(holder)} ({trouble})")
            if holder not in signalled:
                at.run.tell(holder, signal.SIGTERM)
                signalled.add(holder)
        await trio.sleep(LOOK_S)
