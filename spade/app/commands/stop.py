"""`spade stop`."""

import signal
import time

from spade.app.commands.options import RunArgument
from spade.app.printing import say
from spade.errors import RunError


def stop(run: RunArgument) -> None:
    """Drain a run and stop it."""
    from spade.app.rundir import RunDir

    found = RunDir(run).require()
    holders = found.holders()
    if not holders:
        raise RunError(f"{found.path}: nothing is up")
    # Learner and actors may be held apart from the replay service; each drains its own children.
    patience = time.monotonic() + 6 * found.config().supervise.drain_s
    for pid in holders:
        found.tell(pid, signal.SIGTERM)
    while left := found.holders():
        if time.monotonic() > patience:
            pids = ", ".join(map(str, left))
            raise RunError(f"{found.path}: still draining (pid {pids}); its logs are in {found.logs}")
        time.sleep(0.05)
    say(f"{found.path}: stopped")
