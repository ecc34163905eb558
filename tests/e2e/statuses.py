"""The status of a run, a line of JSON for each line read: as `spade status --json` says it, started once.

`python -m tests.e2e.statuses RUN`. A run that cannot be asked has the status of one where nothing has happened.
"""

import sys
from pathlib import Path

import msgspec
import trio

from spade.app.rundir import RunDir
from spade.app.screen.observe import read_status
from spade.app.screen.reach import reach
from spade.codec import convert_to_named
from spade.errors import SpadeError
from spade.protocol import Status


def status(run: RunDir) -> Status:
    try:
        return trio.run(read_status, reach(run))
    except SpadeError:
        return Status()


if __name__ == "__main__":
    for _ in sys.stdin:
        print(msgspec.json.encode(convert_to_named(status(RunDir(Path(sys.argv[1]))).flat())).decode(), flush=True)
