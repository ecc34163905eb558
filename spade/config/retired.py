"""Settings of earlier versions, which old configs and runs still name."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from spade.errors import ConfigError


class RetiredSetting(NamedTuple):
    """A setting that was removed."""

    was: tuple[Any, ...]
    """Values that an old config may still give to the setting. The setting is then ignored."""

    instead: str
    """Advice in the error for any other value."""


RETIRED: Mapping[str, RetiredSetting] = {
    "reward.fast": RetiredSetting((0.2,), "it is always 0.2"),
    "loss.mask_low": RetiredSetting((0.5,), "it is always 0.5"),
    "loss.mask_high": RetiredSetting((5.0,), "it is always 5"),
    "learner.adam_beta1": RetiredSetting((0.9,), "it is always 0.9"),
    "learner.adam_beta2": RetiredSetting((0.98,), "it is always 0.98"),
    "learner.adam_eps": RetiredSetting((1e-8,), "it is always 1e-8"),
    "audit.random_wins": RetiredSetting((13,), "it follows from audit.random_plays"),
    "replay.commit_delay_ms": RetiredSetting((2.0,), "it is always 2"),
    "replay.statistics_plays": RetiredSetting((512,), "it is always 512"),
    "replay.learnable_slots": RetiredSetting((24, 12), "it is always design.active_environments"),
    "supervise.restart_window_s": RetiredSetting((600.0,), "it is always 600"),
    "bus.window": RetiredSetting((256,), "it is always 256"),
    "sandbox.runner_bytes": RetiredSetting((4_294_967_296,), "it is always 4 GiB"),
    "sandbox.observation_bytes": RetiredSetting((262_144,), "it is always 256 KiB"),
    "sandbox.processor_s": RetiredSetting((60.0,), "it is always 12 times sandbox.step_s"),
    "sandbox.suite_s": RetiredSetting((300.0,), "it is always 300"),
    "sandbox.suite_bytes": RetiredSetting((2_147_483_648,), "it is always 2 GiB"),
    "design.review_max_tokens": RetiredSetting((8_192,), "it is always design.max_tokens"),
    "tools.screen_max_tokens": RetiredSetting((16_384,), "it is always design.max_tokens"),
    "design.example_worlds": RetiredSetting((False,), "prompts name no example ideas for a skill"),
    "design.novelty_window": RetiredSetting((32,), "it is always 32"),
    "play.void_share": RetiredSetting((0.25,), "it is always 0.25"),
    "play.min_turn_tokens": RetiredSetting((1_024,), "it is always 1024, or play.max_turn_tokens if that is less"),
    "reward.novelty_weight": RetiredSetting((0.2,), "it is always 0.2"),
    "actors.curators": RetiredSetting((1,), "actors.designers also says how many curators a run of a pool has"),
    "actors.agents_min": RetiredSetting((1,), 'write actors.agents = "MIN..MAX"'),
    "actors.agents_max": RetiredSetting((8,), 'write actors.agents = "MIN..MAX"'),
    "actors.engines_min": RetiredSetting((1,), 'write actors.engines = "MIN..MAX"'),
    "actors.engines_max": RetiredSetting((4,), 'write actors.engines = "MIN..MAX"'),
    "evaluation.programs": RetiredSetting(("",), 'write evaluation.suite = "folder:DIR"'),
    "evaluation.data": RetiredSetting(("",), 'write evaluation.suite = "SUITE:FILE"'),
    "evaluation.protocol": RetiredSetting(("paper",), 'write evaluation.suite = "SUITE@PROTOCOL"'),
    "design.judge": RetiredSetting((False,), "the model is not asked what a first observation reveals"),
    "design.seed_share": RetiredSetting((0.2,), "it is always 0.2"),
    "pool.window_width": RetiredSetting((4,), "it is always 4"),
    "pool.level_most": RetiredSetting((20,), "it is always 20"),
    "pool.level": RetiredSetting((0,), "write pool.difficulty = LEVEL"),
    "serve.host": RetiredSetting(("127.0.0.1",), 'write serve.address = "HOST:PORT"'),
    "serve.port": RetiredSetting((8_000,), 'write serve.address = "HOST:PORT"'),
    "track.port": RetiredSetting((9_464,), 'write track.to = ["prometheus:PORT"]'),
}
"""The retired settings by "section.field"."""


def current(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a config without the retired ones.

    Raises ConfigError if a retired setting has a value that is not in its `was`.
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
