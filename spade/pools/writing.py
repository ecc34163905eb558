"""Configure the run that writes a pool's programs. Its directory is in the pool's folder."""

from collections.abc import Sequence

from spade.config import Config, load

MADE = ".make"  # directory of this run
_DESIGNS_ONLY = (
    "design.source=model", "design.seeds=''", "pool.source=''", "play.hinted=true", "actors.agents=0",
    "evaluation.suite=''",
    # No agent plays, so a window ends immediately and its slot asks for the next design.
    "play.window_deadline_s=1.0", "replay.stall_s=1e9",
)  # fmt: skip


def make_writing_config(config: str, given: Sequence[str]) -> Config:
    """Return the config of a run that only designs, from `config` and the overrides `given`. Raises ConfigError."""
    resolved = load(config, (*given, *_DESIGNS_ONLY))
    if resolved.endpoint.serves("designer"):
        resolved = load(config, (*given, *_DESIGNS_ONLY, "actors.engines=0"))
    return resolved
