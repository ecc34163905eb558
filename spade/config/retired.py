"""Settings of earlier versions, which old configs and runs still name."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from spade.errors import ConfigError


class Retired(NamedTuple):
    """A setting that is no longer there."""

    was: tuple[Any, ...]
    """Values that mean the same as its absence now. An old config may still have one of them."""

    instead: str
    """The advice about any other value."""


RETIRED: Mapping[str, Retired] = {
    "reward.fast": Retired((0.2,), "it is always 0.2"),
    "loss.mask_low": Retired((0.5,), "it is always 0.5"),
    "loss.mask_high": Retired((5.0,), "it is always 5"),
    "learner.adam_beta1": Retired((0.9,), "it is always 0.9"),
    "learner.adam_beta2": Retired((0.98,), "it is always 0.98"),
    "learner.adam_eps": Retired((1e-8,), "it is always 1e-8"),
    "audit.random_wins": Retired((13,), "it follows from audit.random_plays"),
    "replay.commit_delay_ms": Retired((2.0,), "it is always 2"),
    "replay.statistics_plays": Retired((512,), "it is always 512"),
    "replay.learnable_slots": Retired((24, 12), "it is always design.active_environments"),
    "supervise.restart_window_s": Retired((600.0,), "it is always 600"),
    "bus.window": Retired((256,), "it is always 256"),
    "sandbox.runner_bytes": Retired((4_294_967_296,), "it is always 4 GiB"),
    "sandbox.observation_bytes": Retired((262_144,), "it is always 256 KiB"),
    "sandbox.processor_s": Retired((60.0,), "it is always 12 times sandbox.step_s"),
    "sandbox.suite_s": Retired((300.0,), "it is always 300"),
    "sandbox.suite_bytes": Retired((2_147_483_648,), "it is always 2 GiB"),
    "design.review_max_tokens": Retired((8_192,), "it is always design.max_tokens"),
    "tools.screen_max_tokens": Retired((16_384,), "it is always design.max_tokens"),
    "design.example_worlds": Retired((False,), "a prompt names no ideas of a skill"),
    "design.novelty_window": Retired((32,), "it is always 32"),
    "play.void_share": Retired((0.25,), "it is always 0.25"),
    "play.min_turn_tokens": Retired((1_024,), "it is always 1024, or play.max_turn_tokens if that is less"),
    "reward.novelty_weight": Retired((0.2,), "it is always 0.2"),
    "actors.curators": Retired((1,), "a run of a pool has one, and `spade actors scale` starts more"),
    "actors.agents_min": Retired((1,), 'write actors.agents = "MIN..MAX"'),
    "actors.agents_max": Retired((8,), 'write actors.agents = "MIN..MAX"'),
    "actors.engines_min": Retired((1,), 'write actors.engines = "MIN..MAX"'),
    "actors.engines_max": Retired((4,), 'write actors.engines = "MIN..MAX"'),
    "evaluation.programs": Retired(("",), 'write evaluation.suite = "folder:DIR"'),
    "evaluation.data": Retired(("",), 'write evaluation.suite = "SUITE:FILE"'),
    "evaluation.protocol": Retired(("paper",), 'write evaluation.suite = "SUITE@PROTOCOL"'),
    "design.judge": Retired((False,), "the model is not asked what a first observation reveals"),
    "design.seed_share": Retired((0.2,), "it is always 0.2"),
    "pool.window_width": Retired((4,), "it is always 4"),
    "pool.level_most": Retired((20,), "it is always 20"),
}
"""The settings by "section.field"."""


def current(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a config without the retired ones.

    Raises ConfigError if a retired setting has a value that means another thing than its absence.
    """
    kept = {section: dict(table) if isinstance(table, dict) else table for section, table in tree.items()}
    for setting, retired in RETIRED.items():
        section, field = setting.split(".")
        table = kept.get(section)
        if isinstance(table, dict) and field in table:
            value = table.pop(field)
            if value not in retired.was:
                raise ConfigError(f"{setting}: is no longer a setting, remove it: {retired.instead}")
    return kept
