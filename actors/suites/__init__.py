"""Suites that measure a policy.

A module defines one suite, or suites of one kind: their items, how answers are read, and the settings of the protocols.
"""

from collections.abc import Mapping

from actors.suites.aime import AIME25, AIME26
from actors.suites.gem import GEM
from actors.suites.gpqa import GPQA
from actors.suites.livecodebench import LIVECODEBENCH
from actors.suites.nano import NANO, NANO_TOOLS
from actors.suites.reasoning_gym import REASONING_GYM, REASONING_GYM_NANO, REASONING_GYM_TRANSFER
from actors.suites.resolving import check_sizes, resolve
from actors.suites.suite import Suite

SUITES: Mapping[str, Suite] = {
    suite.name: suite
    for suite in (
        AIME25,
        AIME26,
        GPQA,
        LIVECODEBENCH,
        REASONING_GYM,
        GEM,
        NANO,
        NANO_TOOLS,
        REASONING_GYM_NANO,
        REASONING_GYM_TRANSFER,
    )
}

__all__ = ["SUITES", "Suite", "check_sizes", "resolve"]
