"""Tokens computed beside tokens used, between two statuses."""

from spade.app.costs.tokens import TokenRow, compare_tokens
from spade.protocol import Process, Status, Traffic


def make_status(delivered, sampled, *gauges):
    names = ("engine-0", "engine-1", "learner")
    processes = tuple(
        Process(name, name.partition("-")[0], pid, "ready", 0, gauges=its)
        for pid, (name, its) in enumerate(zip(names, gauges, strict=False))
    )
    return Status(traffic=Traffic(delivered_tokens=delivered, delivered_sampled_tokens=sampled), processes=processes)


def test_engines_add_up_and_only_what_grew_counts():
    first = {"prompt_tokens": 100.0, "kept_tokens": 50.0, "sampled_tokens": 10.0, "padding_tokens": 5.0}
    then = {"prompt_tokens": 180.0, "kept_tokens": 90.0, "sampled_tokens": 30.0, "padding_tokens": 11.0}
    other = {"prompt_tokens": 20.0, "kept_tokens": 0.0, "repeated_tokens": 12.0, "sampled_tokens": 20.0}
    learner = {"read_tokens": 200.0, "computed_tokens": 80.4, "trained_tokens": 60.0}
    rows = compare_tokens(make_status(1000, 400, first), make_status(1100, 430, then, other, learner))
    assert [(row.tokens, row.of) for row in rows] == [
        (100, 100), (40, 100), (60, 100), (12, 100), (40, 100), (30, 40), (6, 100), (100, 100),
        (200, 200), (80, 200), (60, 200),
    ]  # fmt: skip


def test_a_replay_service_that_restarted_counts_anew():
    rows = compare_tokens(make_status(1000, 400), make_status(90, 30))
    assert [row.tokens for row in rows if "handed in" in row.what] == [30, 90]


def test_a_share_of_nothing_is_no_share():
    assert str(TokenRow("learner: tokens of sequences", 0, 0)).endswith(f"{'–':>6}")
