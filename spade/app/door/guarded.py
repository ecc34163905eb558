"""`python -m spade.app.door.guarded WORDS…` runs `spade WORDS…`, and ends it when the process that started it ends.

The starter holds the other end of this process's stdin, and writes to it to end the command. If the starter dies, stdin
closes. If a forked child of the starter still holds stdin open, this process notices that its parent has changed.
"""

import os
import select
import signal
import threading

from spade.app.cli import main

_LOOK_S = 1.0


def _follow_starter(starter: int) -> None:
    """Wait until the starter writes or ends. Then send SIGTERM to this process, so that a run drains."""
    while os.getppid() == starter and not select.select([0], [], [], _LOOK_S)[0]:
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=_follow_starter, args=(os.getppid(),), daemon=True).start()
    main()
