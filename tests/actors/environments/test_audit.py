"""Audits in a real sandbox: honest programs pass, those that heed anything but seed and player do not."""

import msgspec
import pytest
import trio

from actors.environments import runner as env_runner
from actors.environments.audit import audit
from actors.environments.tries import TRIES
from actors.sandbox import open_sandbox
from actors.sandbox.process import ChildProcess
from actors.sandbox.wire import Step
from spade.codec import answer_digest
from spade.config import Sandbox as Limits
from spade.config import load
from spade.protocol import Audited, AuditJob, Faulted, Observed, RecordedPlay, Recording
from tests.actors.small_services import SmallReplay, process, small_replay

HASTY = Limits(load_s=60.0, step_s=0.3)
SEEDS = (3, 5, 8, 13)

DOORS = """
import random, time

class DoorsEnv:
    def reset(self, seed):
        self.right = random.Random(seed).choice("abcdefgh")
        self.turn = 0
        return "Which door? Actions: a b c d e f g h", {}
    def step(self, action):
        self.turn += 1
        HEEDS
        won = action == self.right
        return f"{action} is {'right' if won else 'wrong'}", float(won), won or self.turn == 3, False, {}
"""
HONEST = DOORS.replace("HEEDS", "pass")


async def recorded(sandbox, source: str, seed: int, actions: tuple[str, ...], name: str) -> RecordedPlay:
    """A play as an agent records it."""
    answers = [await sandbox.open(name, source, seed, 8)]
    for action in actions:
        answers.append(await sandbox.step(name, len(answers), action))
    sandbox.close(name)
    assert not any(isinstance(answer, Faulted) for answer in answers), answers
    return RecordedPlay(name, seed, Recording(actions, b"".join(map(answer_digest, answers)), 8))


async def job(sandbox, source: str, *, random_plays: int = 0, actions: tuple[str, ...] = ("z", "z")) -> AuditJob:
    replays = tuple([await recorded(sandbox, source, seed, actions, f"play-{seed}") for seed in SEEDS])
    seeds = tuple(SEEDS[i % 4] for i in range(random_plays))
    return AuditJob("e000001", 1, source, replays, seeds, 13, 1.0, 8, 77, 60.0)


async def test_an_honest_program_passes_and_its_random_plays_stop_when_they_can_prove_nothing_more(sandbox):
    outcome = await audit(sandbox, await job(sandbox, HONEST, random_plays=16))
    assert (outcome.finding, outcome.replays, outcome.left_out) == ("", 4, 0)
    assert outcome.plays - outcome.wins == 4  # 13 of 16 cannot be won any more
    assert 8 + outcome.plays <= outcome.steps <= 8 + 3 * outcome.plays
    assert sandbox.live == 0


@pytest.mark.parametrize("heeds", [
    "return 'late', 1.0, True, False, {}",
    "return str(random.SystemRandom().random()), 0.0, False, False, {}",
    "raise RuntimeError",
    "return 'late', 0.0, False, True, {}",
], ids=["reward", "entropy", "fault", "end"])  # fmt: skip
async def test_a_program_that_answers_otherwise_than_it_did_is_found(sandbox, heeds):
    """As one does that tells by the clock, or by anything else, that it is not played for its reward any more."""
    work = msgspec.structs.replace(await job(sandbox, HONEST), source=DOORS.replace("HEEDS", heeds))
    outcome = await audit(sandbox, work)
    assert outcome.finding.startswith("play play-")
    assert "was run again and" in outcome.finding


async def test_a_program_that_is_won_whatever_is_done_is_found(sandbox):
    won = DOORS.replace("HEEDS", "action = self.right")
    outcome = await audit(sandbox, await job(sandbox, won, random_plays=16, actions=("z",)))
    assert outcome.finding == "random actions win 13 of 13 plays on instances that were won"
    assert (outcome.plays, outcome.wins) == (13, 13)


LYING = (
    DOORS.replace("HEEDS", "action = self.right if action in 'klm' else ''")
    .replace("a b c", "press pull knock")
    .replace("== 3", "== 6")
)
"""It takes other actions than those that it lists, and any of these wins."""


async def test_random_plays_also_send_actions_that_agents_sent_on_other_instances(sandbox):
    unlisted = await audit(sandbox, await job(sandbox, LYING, random_plays=16, actions=("k",)))
    assert unlisted.finding.startswith("random actions win 13 of ")


async def test_random_plays_do_not_send_what_agents_sent_on_the_same_instance(sandbox):
    """A world of one instance and one right answer would be found to be won by any action."""
    work = await job(sandbox, LYING, random_plays=16, actions=("k",))
    one = msgspec.structs.replace(work, replays=work.replays[:1], seeds=SEEDS[:1] * 16)
    outcome = await audit(sandbox, one)
    assert (outcome.finding, outcome.wins) == ("", 0)


async def test_random_plays_that_miss_a_win_by_rounding_are_won(sandbox):
    tenths = DOORS.replace("HEEDS", "action = self.right").replace("float(won)", "sum([0.1] * 10) * won")
    outcome = await audit(sandbox, await job(sandbox, tenths, random_plays=16, actions=("z",)))
    assert outcome.finding == "random actions win 13 of 13 plays on instances that were won"


async def test_random_plays_are_sent_in_the_form_that_the_program_reads(sandbox):
    boxed = DOORS.replace(
        "HEEDS", "action = self.right if action in [r'\\boxed{%s}' % door for door in 'abcdefgh'] else ''"
    )
    work = await job(sandbox, boxed, random_plays=16, actions=(r"\boxed{a}",))
    assert (await audit(sandbox, work)).wins == 0
    found = await audit(sandbox, msgspec.structs.replace(work, reads="box"))
    assert found.finding == "random actions win 13 of 13 plays on instances that were won"


async def test_faults_of_other_plays_are_nothing_against_a_replay(sandbox):
    """They have been counted: it is the replay service that quarantines a program for its voids."""
    faulty = DOORS.replace("HEEDS", "assert action != 'err'")
    work = await job(sandbox, faulty)
    for number in range(12):
        await sandbox.open(f"void-{number}", faulty, number, 8)
        assert isinstance(await sandbox.step(f"void-{number}", 1, "err"), Faulted)
    outcome = await audit(sandbox, work)
    assert (outcome.finding, outcome.replays) == ("", 4)


async def test_a_play_that_ends_sooner_than_recorded_is_found(sandbox):
    work = await job(sandbox, HONEST)
    longer = work.replays[0].recording
    longer = Recording((*longer.actions, "z", "z"), longer.answers + bytes(32), 8)
    replays = tuple(msgspec.structs.replace(each, recording=longer) for each in work.replays)
    outcome = await audit(sandbox, msgspec.structs.replace(work, replays=replays))
    assert outcome.finding.startswith("play play-")


async def test_a_program_that_times_out_in_every_try_of_a_replay_is_found_and_once_it_is_not():
    slow = DOORS.replace("HEEDS", "if action == 'slow':\n            while True: pass")
    async with open_sandbox(HASTY) as sandbox:
        work = await job(sandbox, slow)
        late = msgspec.structs.replace(
            work.replays[0], recording=msgspec.structs.replace(work.replays[0].recording, actions=("z", "slow"))
        )
        outcome = await audit(sandbox, msgspec.structs.replace(work, replays=(late, *work.replays[1:])))
        assert outcome.finding == "play play-3 was run again and timed out in each of 3 tries"
        assert (outcome.replays, outcome.left_out) == (3, 1)

        class TimesOutOnce:
            once = Faulted("timeout", "a busy machine")

            async def step(self, episode, turn, action, calls):
                fault, self.once = self.once, None
                return fault or await sandbox.step(episode, turn, action, calls)

            def __getattr__(self, name):
                return getattr(sandbox, name)

        outcome = await audit(TimesOutOnce(), work)
        assert (outcome.finding, outcome.replays, outcome.left_out) == ("", 4, 0)


@pytest.mark.parametrize("computes", [True, False])
async def test_computing_all_the_time_of_an_audit_is_found(own_sandbox, mock_clock, monkeypatch, computes):
    """It was quick with its player. If it only waits for a processor, its audit is left out."""
    work, request = await job(own_sandbox, HONEST), ChildProcess.request

    async def slow(process, asked, deadline_s):
        process.counted_s += 0.5 * computes * isinstance(asked, Step)
        mock_clock.jump(0.5 * isinstance(asked, Step))
        await trio.lowlevel.checkpoint()  # the deadline is seen before the program answers
        return await request(process, asked, deadline_s)

    monkeypatch.setattr(ChildProcess, "request", slow)
    outcome = await audit(own_sandbox, msgspec.structs.replace(work, within_s=1.2))
    assert outcome.finding.endswith("s, in 2 steps, and its audit was not over within 1.2 s" if computes else "")
    assert bool(outcome.finding) == computes
    assert outcome.left_out >= 3


async def test_an_audit_that_its_program_slept_through_is_cut_off_also_in_its_last_check(own_sandbox, mock_clock):
    """All replays and random plays had a result, so the audit passed without having played a solution."""
    work = await job(own_sandbox, HONEST, random_plays=16)

    class Asleep:
        async def child(self, *asked):
            mock_clock.jump(60.0)
            await trio.lowlevel.checkpoint()
            return await own_sandbox.child(*asked)

        def __getattr__(self, name):
            return getattr(own_sandbox, name)

    outcome = await audit(Asleep(), msgspec.structs.replace(work, lost=SEEDS[:1]))
    assert (outcome.finding, outcome.left_out, outcome.plays - outcome.wins, outcome.tried) == ("", 0, 4, 0)
    assert outcome.cut_off
    assert not (await audit(own_sandbox, work)).cut_off


async def test_an_answer_that_differs_is_found_also_in_a_try_that_times_out(sandbox):
    """Such a program draws something, learns by the next action that it drew otherwise in the play, and hangs."""
    work, once = await job(sandbox, HONEST), [Observed("another draw"), Faulted("timeout", "it noticed")]

    class HangsAfterAnotherDraw:
        async def step(self, episode, turn, action, calls):
            return once.pop(0) if once else await sandbox.step(episode, turn, action, calls)

        def __getattr__(self, name):
            return getattr(sandbox, name)

    outcome = await audit(HangsAfterAnotherDraw(), msgspec.structs.replace(work, replays=work.replays[:1]))
    assert outcome.finding == "play play-3 was run again and answered turn 1 differently than recorded"


async def test_a_fault_of_ours_is_tried_again_and_then_left_out(sandbox):
    work = await job(sandbox, HONEST)
    opened = []

    class Failing:
        async def open(self, episode, source, seed, max_turns):
            opened.append(seed)
            if opened.count(seed) < {3: 2, 5: TRIES + 1}.get(seed, 1):
                return Faulted("infrastructure", "overload")
            return await sandbox.open(episode, source, seed, max_turns)

        def __getattr__(self, name):
            return getattr(sandbox, name)

    outcome = await audit(Failing(), work)
    assert (outcome.finding, outcome.replays, outcome.left_out) == ("", 3, 1)
    assert (opened.count(3), opened.count(5)) == (2, TRIES)


async def test_a_replay_that_is_not_over_in_time_is_left_out(sandbox):
    work = await job(sandbox, HONEST, random_plays=16)
    outcome = await audit(sandbox, msgspec.structs.replace(work, within_s=0.0))
    assert (outcome.finding, outcome.replays, outcome.left_out, outcome.plays) == ("", 0, 4, 0)
    assert sandbox.live == 0


async def test_an_env_runner_leases_audits_and_hands_their_outcome_in(sandbox):
    settings = load("nano")
    small = SmallReplay()
    small.audits = [await job(sandbox, HONEST), msgspec.structs.replace(await job(sandbox, HONEST), environment="e2")]
    async with small_replay(small, settings) as replay, process(env_runner.run, "env-runner", replay, settings):
        await small.until_done(2)
    assert {outcome.environment for outcome in small.done if isinstance(outcome, Audited)} == {"e000001", "e2"}
    assert not any(outcome.finding for outcome in small.done)


async def test_an_audit_that_meets_an_unforeseen_error_is_let_go_and_the_env_runner_lives_on(sandbox, monkeypatch):
    async def buggy(sandbox, work, *rules):
        if work.environment == "e2":
            raise KeyError("nobody thought of it")
        return await audit(sandbox, work, *rules)

    monkeypatch.setattr(env_runner, "audit", buggy)
    settings = load("nano", ("bus.heartbeat_s=0.05",))
    small = SmallReplay()
    small.audits = [msgspec.structs.replace(await job(sandbox, HONEST), environment="e2"), await job(sandbox, HONEST)]
    async with small_replay(small, settings) as replay, process(env_runner.run, "env-runner", replay, settings):
        await small.until_done(1)
        await small.until(lambda: any(beat.gauges.get("request_faults") == 1 for beat in replay.heartbeats.values()))
    assert [outcome.environment for outcome in small.done] == ["e000001"]
