"""Shared by the tests of the agent."""

import logging

import pytest

from tests.actors.small_services import actor_settings


@pytest.fixture
def settings(tmp_path, tokenizer):
    return actor_settings(
        tmp_path, "play.context_tokens=700", "play.max_turn_tokens=40", "play.max_turns=4",
        "actors.episodes_in_flight=4", "supervise.drain_s=60.0",
    )  # fmt: skip


@pytest.fixture
def given_back(caplog):
    """The agent's log lines of the plays it gives back."""
    caplog.set_level(logging.INFO, "actors.roles.agent")
    return lambda: [record.message for record in caplog.records if "given back" in record.message]
