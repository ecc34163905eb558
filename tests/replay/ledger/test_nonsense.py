"""Messages that a peer's role allows but no honest peer sends: refused in one line, or harmless."""

import math
import struct

import msgspec
import pytest

from replay.ledger.batches import RefusalError
from spade import protocol
from spade.codec import decode_request, encode
from tests.replay.replay_world import config, ended, environment, leased_job, rejected, started

ONE = (
    "design.active_environments=1", "design.round_jobs=1", "design.active_skills=1", "play.group_size=4",
    "play.window_chunks=1", "learner.batch_sequences=4", "audit.replays=1", "audit.random_plays=8",
)  # fmt: skip
LARGEST = 2**64 - 1  # that a message carries


def designing(*overrides):
    ledger = started(config(*ONE, *overrides))
    return ledger, leased_job(ledger)


def playing(*overrides):
    ledger, job = designing(*overrides)
    ledger.apply(environment(job, 1), "designer/1", 0.0)
    return ledger, ledger.apply(protocol.LeasePlays(100, 0.0), "agent/1", 0.0).plays


def auditing(*overrides, recording=None):
    ledger, plays = playing(*overrides)
    for play in plays:
        whole = ended(play, 1.0, 1)
        whole = msgspec.structs.replace(whole, recording=recording or whole.recording)
        ledger.apply(protocol.SubmitPlays((whole,)), "agent/1", 0.0)
    return ledger, ledger.apply(protocol.LeaseAudit(0.0), "env-runner/1", 0.0).jobs[0]


@pytest.mark.parametrize(
    "wrong", [{"seconds": 1e308}, {"seconds": -1.0}, {"seconds": math.nan}, {"steps": LARGEST}], ids=str
)
def test_an_audit_whose_figures_no_audit_can_have_is_refused(wrong):
    ledger, job = auditing()
    sent = msgspec.structs.replace(protocol.Audited(job.environment, job.lease, "", 2, 0, 8, 0, 30, 0.25), **wrong)
    with pytest.raises(RefusalError, match="the audit of e000000: "):
        ledger.apply(decode_request(encode(sent)), "env-runner/1", 1.0)
    assert ledger.state.audits, "it stays leased, and ends with its lease"
    assert (ledger.state.counters.audit_steps, ledger.state.counters.audit_s) == (0, 0.0)


@pytest.mark.parametrize(("domain", "variant", "taken"), [
    ("games", "", True), ("tools", "", True), ("tools", "execute", True),
    ("tools", "\x1b[2J", False), ("games", "execute", False),
])  # fmt: skip
def test_a_variant_that_the_domain_does_not_have_is_refused(domain, variant, taken):
    ledger, job = designing(f"run.domain={domain}")
    for request in rejected(job, 1), environment(job, 1):
        sent = decode_request(encode(msgspec.structs.replace(request, variant=variant)))
        if taken:
            ledger.apply(sent, "designer/1", 0.0)
        else:
            with pytest.raises(RefusalError, match=f"is not a variant of run.domain = '{domain}'"):
                ledger.apply(sent, "designer/1", 0.0)
    assert (ledger.state.counters.rejected_candidates, ledger.state.counters.environments) == (taken, taken)


@pytest.mark.parametrize("calls", [(), ((protocol.ToolCall("say", "x" * 400_000),),)], ids=["action", "calls"])
def test_courses_too_large_for_the_message_of_an_audit_are_not_kept(calls):
    action = "" if calls else "x" * 400_000
    recording = protocol.Recording((action,), bytes(32), 8, calls)
    ledger, job = auditing("bus.max_message_bytes=1000000", recording=recording)
    assert job.replays == ()
    assert not ledger.state.recordings.get("e000000")


def test_courses_that_are_kept_fit_the_message_of_an_audit():
    ledger, job = auditing(
        "bus.max_message_bytes=1000000", recording=protocol.Recording(("x" * 200_000,), bytes(32), 8)
    )
    assert len(job.replays) == 2
    assert len(encode(protocol.Audits((job,)))) < ledger.state.config.bus.max_message_bytes


def test_many_empty_actions_count_with_the_bytes_of_their_answers():
    actions = ("",) * 20_000
    answers = bytes(protocol.DIGEST_BYTES * (len(actions) + 1))
    _, job = auditing("bus.max_message_bytes=1000000", recording=protocol.Recording(actions, answers, 8))
    assert job.replays == ()


def test_a_hint_that_is_too_long_for_the_leases_of_plays_is_refused():
    ledger, job = designing()
    long = msgspec.structs.replace(environment(job, 1), hint="x" * (protocol.MOST_HINT + 1))
    with pytest.raises(RefusalError, match=f"job j000000: a hint has at most {protocol.MOST_HINT} characters"):
        ledger.apply(long, "designer/1", 0.0)
    assert not ledger.state.environments


@pytest.mark.parametrize("lease", [-1, 0, 2, LARGEST])
def test_a_design_under_a_lease_that_nobody_was_given_is_refused(lease):
    ledger, job = designing()
    forged = msgspec.structs.replace(job, lease=lease)
    for request in (environment(forged, 1), rejected(forged, 1), rejected(forged, 1, last=True)):
        with pytest.raises(RefusalError, match=f"job j000000: its lease {lease} was never given"):
            ledger.apply(request, "designer/2", 0.0)
    assert not ledger.state.environments
    assert ledger.state.jobs["j000000"].attempts == ()


@pytest.mark.parametrize("attempt", [-1, 0, 6, LARGEST])
def test_an_attempt_that_no_designer_makes_is_refused(attempt):
    ledger, job = designing("design.attempts=5")
    for request in (rejected(job, 1, attempt), msgspec.structs.replace(environment(job, 1), attempt=attempt)):
        with pytest.raises(RefusalError, match=f"job j000000: attempt {attempt} is not one of 1 to 5"):
            ledger.apply(request, "designer/1", 0.0)


def test_a_trajectory_of_tokens_that_no_model_has_is_refused():
    """The learner would end at its batch, and at every resume again."""
    ledger, plays = playing()
    whole = ended(plays[0], 1.0, 1)
    wrong = {
        "a token is negative": {"ids": struct.pack("<5i", 0, 1, -2, 3, 4)},
        "a log-probability is not finite": {"logprobs": struct.pack("<2f", -1.0, math.nan)},
    }
    for why, fields in wrong.items():
        trajectory = msgspec.structs.replace(whole.trajectory, **fields)
        with pytest.raises(RefusalError, match=why):
            ledger.apply(protocol.SubmitPlays((msgspec.structs.replace(whole, trajectory=trajectory),)), "agent/1", 0.0)
    assert ledger.state.plays[whole.id].state == "leased"


def test_sequences_that_no_play_has_are_refused():
    """Of a few bytes they would make more sequences, or longer ones, than the learner has memory for."""
    ledger, plays = playing("play.max_turns=3", "play.context_tokens=40", "play.max_turn_tokens=8")
    whole = ended(plays[0], 1.0, 1)

    def hand_in(tokens, *rewinds):
        trajectory = protocol.Trajectory(
            struct.pack(f"<{tokens}i", *range(tokens)), (tokens - 4, 4), struct.pack("<4f", *[-1.0] * 4),
            ((1, 4),), 1.0, rewinds=rewinds,
        )  # fmt: skip
        ledger.apply(protocol.SubmitPlays((msgspec.structs.replace(whole, trajectory=trajectory),)), "agent/1", 0.0)

    with pytest.raises(RefusalError, match=r"41 tokens, over play.context_tokens = 40"):
        hand_in(41)
    with pytest.raises(RefusalError, match=r"41 tokens, over play.context_tokens = 40"):
        hand_in(60, (40, 31), (50, 30))
    with pytest.raises(RefusalError, match=r"4 sequences, over play.max_turns = 3"):
        hand_in(40, (10, 0), (20, 0), (30, 0))
    with pytest.raises(RefusalError, match="a rewind must come before"):
        hand_in(40, (37, 30))
    assert ledger.state.plays[whole.id].state == "leased"
    hand_in(60, (40, 30), (50, 30))
    assert ledger.state.plays[whole.id].state == "finished"
    assert ledger.state.plays[whole.id].sampled == 4


@pytest.mark.parametrize("wrong", [{"refused": 1}, {"done": 1}, {"instructions": 2, "done": 1, "free": 2}], ids=str)
def test_a_play_whose_counts_of_calls_and_instructions_contradict_each_other_is_refused(wrong):
    ledger, plays = playing()
    with pytest.raises(RefusalError, match=r"refused calls .* instructions done"):
        ledger.apply(protocol.SubmitPlays((msgspec.structs.replace(ended(plays[0], 1.0, 1), **wrong),)), "agent/1", 0.0)
    assert ledger.state.plays["e000000-0u000"].state == "leased"


def test_a_design_with_rewinds_is_refused():
    ledger, job = designing()
    sent = environment(job, 1)
    ids, spans = struct.pack("<4i", 1, 2, 3, 4), (3, 1)
    rewound = protocol.Trajectory(ids, spans, struct.pack("<f", -1.0), ((1, 1),), 1.0, rewinds=((2, 1),))
    with pytest.raises(RefusalError, match="a design is one sequence"):
        ledger.apply(msgspec.structs.replace(sent, trajectory=rewound), "designer/1", 0.0)
    assert not ledger.state.environments


def test_a_play_of_unpublished_weights_from_another_than_the_holder_is_refused_and_not_kept():
    ledger, plays = playing()
    with pytest.raises(RefusalError, match=r"its lease 1 is not held by agent/2"):
        ledger.apply(protocol.SubmitPlays((ended(plays[0], 1.0, 77),)), "agent/2", 0.0)
    assert ledger.state.counters.quarantined == 0
