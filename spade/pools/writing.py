"""The run in the folder of a pool that writes its programs."""

from collections.abc import Sequence

from spade.config import Config, load

MADE = ".make"  # its directory
_DESIGNS_ONLY = (
    "design.source=model", "design.seeds=''", "pool.source=''", "play.hinted=true", "actors.agents=0",
    "evaluation.programs=''", "evaluation.suite=''", "evaluation.data=''",
    # Nobody plays, so a window is over at once and its slot asks for the next design.
    "play.window_deadline_s=1.0", "replay.stall_s=1e9",
)  # fmt: skip


def writing(config: str, given: Sequence[str]) -> Config:
    """The settings of that run: those of `config` and `given` by which designs are made. Raises ConfigError."""
    resolved = load(config, (*given, *_DESIGNS_ONLY))
    if resolved.endpoint.serves("designer"):
        resolved = load(config, (*given, *_DESIGNS_ONLY, "actors.engines=0"))
    return resolved
