"""The command `spade`, also as `python -m spade`. While it imports its modules, Ctrl-C ends it immediately."""

import os
import signal
from typing import NoReturn

from spade.processes.ending import INTERRUPTED


def main() -> None:
    """Import the command line and run it."""
    heeds = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if heeds:
        signal.signal(signal.SIGINT, _leave)
    from spade.app.cli import main as run

    if heeds:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


def _leave(*_: object) -> NoReturn:
    """End the process. An exception would pass through half-imported modules. There is nothing to clean up yet."""
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
