"""The command `spade`, also as `python -m spade`. While it imports its modules, Ctrl-C ends it immediately."""

import os
import signal
from typing import NoReturn

from spade.processes.ending import INTERRUPTED


def main() -> None:
    """Import the command line and run it."""
    is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_default:
        signal.signal(signal.SIGINT, _leave)
    from spade.app.cli import main as run

    if is_default:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


def _leave(*_: object) -> NoReturn:
    """Exit at once, since nothing needs a clean-up yet. An exception would pass through half-imported modules."""
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
