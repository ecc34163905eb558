"""The process of a tracker that `spade up` keeps up (`track.to`). It connects to no service of the run."""

import logging
from collections.abc import Callable
from pathlib import Path

from spade.app.rundir import RunDir
from spade.app.track.tracker import follow, tracker
from spade.config import Config
from spade.processes.entry import Launch, main

log = logging.getLogger(__name__)


async def run(launch: Launch, settings: Config, ready: Callable[[], None]) -> None:
    """Track the run until cancelled. Then track the rows that were written until then."""
    with tracker(RunDir(Path(launch.run)), settings.track.choices[launch.index]) as opened:
        log.info("%s", opened.shown)
        ready()
        await follow(opened, lambda: True)


if __name__ == "__main__":
    main(run)
