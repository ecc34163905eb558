"""`python -m spade.app.door.guarded WORDS…` is the command `spade WORDS…`, which ends in order when its stdin closes.

The starter holds the other end of stdin. However the starter ends, the command does not outlive it.
"""

import os
import signal
import threading

from spade.app.cli import main


def _follow_starter() -> None:
    """Wait for the end of stdin, then send SIGTERM to this process. A run drains on this signal."""
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=_follow_starter, daemon=True).start()
    main()
