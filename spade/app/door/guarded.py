"""`python -m spade.app.door.guarded WORDS…` is the command `spade WORDS…`, which ends in order with its starter.

The starter holds the other end of stdin, and writes to it to end the command. However the starter ends, the command
does not outlive it: stdin closes or, if a forked child of the starter still holds it, this process has another parent.
"""

import os
import select
import signal
import threading

from spade.app.cli import main

_LOOK_S = 1.0


def _follow_starter(starter: int) -> None:
    """Wait for input from the starter or for its end. Then send SIGTERM to this process, on which a run drains."""
    while os.getppid() == starter and not select.select([0], [], [], _LOOK_S)[0]:
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=_follow_starter, args=(os.getppid(),), daemon=True).start()
    main()
