"""`spade stop`: drain and stop a run."""

from spade.app.commands.options import Keys, LiveRun
from spade.app.printing import say


def stop(run: LiveRun, keys: Keys = None) -> None:
    """Drain a run and stop it, on all hosts.

    Works on any host that sees the run directory or reaches the run's replay service.
    """
    import trio

    from spade.app.screen.reach import reach
    from spade.app.supervisor import stopping

    at = reach(run, keys)
    trio.run(stopping.stop, at)
    say(f"{at.name}: stopped")
