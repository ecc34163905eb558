"""The examiner between a small replay service, scripted words and a real env-runner."""

import json
from types import SimpleNamespace

import pytest
import trio

from actors.play.episode import UnfinishedPlay
from actors.play.examiner import Examiner
from actors.play.play_settings import PlayResult, PlaySettings, PlayTranscript
from actors.play.session import attend
from actors.play.voices.tokens import TokenVoice
from actors.suites.chat_format import SuiteChatFormat
from spade.evaluations import (
    EvaluationPlan,
    Protocol,
    RecordFile,
    Rules,
    SampleSchedule,
    Sampling,
    SuiteItem,
    sample_seed,
)
from spade.protocol import (
    CloseEpisode,
    Done,
    EndedPlay,
    Faulted,
    KeepProgram,
    Needs,
    Observed,
    OpenEpisode,
    StepEpisode,
)
from tests.actors.small_services import VERSION, SmallReplay, acting, actor_settings

PARITY = """\
class ParityEnv:
    def __init__(self, max_turns=4): self.hidden = 0
    def reset(self, seed):
        self.hidden = 1 + seed % 2
        return "Which?", {}
    def step(self, action):
        return "Over.", float(action == str(self.hidden)), True, False, {}
"""
SAMPLING = Sampling(temperature=0.7, top_p=0.8, top_k=20, max_tokens=40)
PROTOCOL = Protocol(name="short", prompt="{problem} Box it.", sampling=SAMPLING, samples=2, grading="box")
NEEDS = Needs(step_s=7.0)
ITEMS = {
    "one": SuiteItem("one", "", PARITY, 0),
    "two": SuiteItem("two", "", PARITY, 1),
    "never": SuiteItem("never", "", PARITY.replace("self.hidden = 0", "raise ValueError('\\u202e' * 900)")),
    "faulty": SuiteItem("faulty", "", PARITY.replace('"Over."', "1 / 0")),
    "long": SuiteItem("long", "", PARITY.replace('"Which?"', "'Which? ' * 500")),
}


@pytest.fixture
def settings(tmp_path, tokenizer):
    return actor_settings(tmp_path, "evaluation.in_flight=3", "evaluation.suite=", "play.context_tokens=700")


@pytest.fixture
def examine(tmp_path, settings, tokenizer):
    """Plays the named items, 2 samples of each, or stops after so many records.

    Returns the records, the requests that engines got, and the versions of each sample.
    """

    async def examine(*names, runner=None, say=lambda text: "So \\boxed{1}", stop=99):
        items = {name: ITEMS[name] for name in names}
        rules = Rules(suite="s", policy="p", seed=5, protocol=PROTOCOL, items=len(items), items_digest="d")
        plan = EvaluationPlan(rules, items, SampleSchedule(dict.fromkeys(items, ""), PROTOCOL.samples))
        ended, told, stopped = trio.Event(), [], trio.CancelScope()

        def over(examined):
            kept.add(examined.record)
            told.append(examined.versions)
            if len(told) == stop:
                stopped.cancel()

        async def run(launch, config, ready):
            async def work(session):
                async def play_settings(_):
                    return PlaySettings(
                        SuiteChatFormat(PROTOCOL), TokenVoice(session, SAMPLING, 700, ()), PROTOCOL.turns, NEEDS
                    )

                samples = [(items[name], number) for name, number in kept.missing]
                with stopped:
                    await Examiner(session, "s", 5, play_settings).examine(samples, over)
                ended.set()

            await attend(launch, config, config.play.lease_s, ready, work)

        with RecordFile(tmp_path / "records.jsonl", plan.scheduled) as kept:
            async with acting(
                SimpleNamespace(run=run), "evaluator", SmallReplay(), settings, tokenizer, say, runner
            ) as asked:
                await ended.wait()
            assert stop < 99 or not kept.missing
            return kept.records, asked, told

    return examine


async def test_each_sample_has_a_record_by_the_suites_sampling_and_its_own_seed(examine, tmp_path):
    records, asked, told = await examine("one", "two")
    assert {key: record.correct for key, record in records.items()} == {
        ("one", 0): True, ("one", 1): True, ("two", 0): False, ("two", 1): False,
    }  # fmt: skip
    assert told == [{VERSION}] * 4
    assert {(one.temperature, one.top_p, one.top_k, one.max_tokens) for one in asked} == {(0.7, 0.8, 20, 40)}
    assert len({one.seed for one in asked}) == 4
    record = records["two", 1]
    assert record.seed == sample_seed("s", "two", 1, 5)
    assert (record.extracted, record.finish, record.score, record.error) == ("1", "stop", 0.0, None)
    assert record.sampled == len("So \\boxed{1}") + 1  # bytes, and the end of the turn
    assert record.read == len(asked[0].prompt) // 4
    assert "So \\\\boxed{1}" in (tmp_path / "records.jsonl").read_text()


async def test_errors_are_wrong_answers_with_their_reason(examine):
    records, asked, _ = await examine("never", "faulty", "long")
    assert {key[0]: record.error for key, record in records.items()} == {
        "never": "ungeneratable", "faulty": "environment", "long": "unfit",
    }  # fmt: skip
    assert not any(record.correct for record in records.values())
    assert "ZeroDivisionError" in records["faulty", 0].detail
    assert len(asked) == 2


@pytest.mark.parametrize("name", ["one", "never"])
async def test_what_has_a_record_is_not_played_again(examine, name):
    """Even where the record quotes a program that says nothing printable."""
    await examine(name)
    records, asked, told = await examine(name)
    assert (len(records), asked, told) == (2, [], [])


async def test_records_are_the_same_though_the_examiner_is_stopped_and_its_last_line_is_cut(examine, tmp_path):
    def told():
        """The file's records without their seconds, and the number of its lines."""
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        assert all(line.pop("seconds") >= 0 for line in lines)
        return {(line["item"], line["sample"]): line for line in lines}, len(lines)

    file, names = tmp_path / "records.jsonl", ("one", "two", "never", "long")
    undisturbed, _, _ = await examine(*names)
    expected = told()
    whole = file.read_bytes().splitlines(keepends=True)
    assert len(undisturbed) == expected[1] == len(whole) == 8
    file.unlink()
    before, _, _ = await examine(*names, stop=3)
    assert len(before) < 8
    file.write_bytes(file.read_bytes()[:-5])
    await examine(*names)
    assert told() == expected


async def test_a_program_out_of_time_is_played_once_more(examine):
    tries = {}

    def runner(request):
        match request:
            case OpenEpisode():
                assert request.needs == NEEDS
                tries[request.seed] = tries.get(request.seed, 0) + 1
                late = request.seed == ITEMS["one"].seed or tries[request.seed] == 1
                return Faulted("timeout", "no answer") if late else Observed("Which?")
            case StepEpisode():
                return Observed("Over.", 1.0, terminated=True)
            case KeepProgram() | CloseEpisode():
                return Done()

    records, _, _ = await examine("one", "two", runner=runner)
    assert [records["one", number].error for number in (0, 1)] == ["ungeneratable"] * 2
    assert tries == {0: 4, 1: 3}
    assert records["two", 0].correct


async def test_a_fault_of_our_own_is_played_until_it_is_none(examine):
    faults = iter([Faulted("infrastructure", "the zygote did not start")] * 5)

    def runner(request):
        match request:
            case OpenEpisode():
                return next(faults, Observed("Which?"))
            case StepEpisode():
                return Observed("Over.", 1.0, terminated=True)
            case _:
                return Done()

    records, _, _ = await examine("one", runner=runner)
    assert all(record.correct for record in records.values())


async def test_a_sample_that_ends_services_condemns_itself_and_none_beside_it(monkeypatch, autojump_clock):
    life = trio.Event()  # of the one env-runner

    async def play(session, lease, source, play_settings):
        nonlocal life
        mine = life
        if lease.environment == "faulty":
            await trio.sleep(1)
            life = trio.Event()
            mine.set()
        with trio.move_on_after(2):
            await mine.wait()
            return UnfinishedPlay("the env-runner ended", suspect=True)
        ended = EndedPlay(lease.id, lease.lease, "terminated", 1.0, (1.0,), 2.0, None)
        return PlayResult(ended, PlayTranscript(said=["1"]))

    monkeypatch.setattr("actors.play.examiner.play", play)

    async def services():
        pass

    settings = SimpleNamespace(evaluation=SimpleNamespace(in_flight=3), bus=SimpleNamespace(heartbeat_s=0.1))
    session = SimpleNamespace(config=settings, gauges={}, services=services)
    examined = {}

    async def play_settings(item):
        pass

    def over(each):
        examined[each.record.item] = (each.record.correct, each.record.error)

    await Examiner(session, "s", 5, play_settings).examine(
        [(ITEMS[name], 0) for name in ("one", "faulty", "two")], over
    )
    assert examined == {"one": (True, None), "two": (True, None), "faulty": (False, "environment")}
