"""The parts of the live page that need no server: lanes of processes, strips of tokens, families, tables."""

import shutil

import numpy as np

from replay.ledger.records import Environment, PlayRecord, Score
from replay.store import open_reader, open_store
from spade.app.report.gallery import find_children
from spade.app.rundir import RunDir
from spade.app.web import plays
from spade.app.web.families import make_family
from spade.app.web.following import FollowedRun
from spade.app.web.lanes import Sample, find_phase, make_lanes
from spade.app.web.strips import MOST_TOKENS, make_strip
from spade.app.web.tables import ROWS, Column, make_table
from spade.codec import pack_ids
from spade.config import replace_settings
from spade.protocol import Process, Status, Trajectory, Wait
from tests.app.report.test_page import SETTINGS, make_run


def process(role, state="ready", **gauges):
    return Process(f"{role}-0", role, 1, state, 0, gauges=gauges)


def test_a_phase_follows_from_state_waits_and_gauges():
    def phase(one, *waits):
        return find_phase(one, [Wait(holder, what, who=one.name) for holder, what in waits])

    assert phase(process("engine", rows_active=3.0)) == "sampling"
    assert phase(process("engine", rows_active=0.0)) == "waiting"
    assert phase(process("engine", rows_active=3.0), ("learner", "weights of version 4")) == "swapping"
    assert phase(process("learner")) == "training"
    assert phase(process("learner"), ("its backend", "step 4")) == "training"
    assert phase(process("learner"), ("replay", "TakeBatch")) == "waiting"
    assert phase(process("learner"), ("its writer", "step 4")) == "waiting"
    assert phase(process("learner"), ("replay", "Publish"), ("its backend", "step 4")) == "training"
    assert phase(process("agent", episodes=1.0), ("engine-0", "Generate")) == "playing"
    assert phase(process("designer", "restarting", designs=1.0)) == "starting"
    assert phase(process("designer", "failed", designs=1.0)) == "down"
    assert phase(process("replay")) == "serving"


def test_a_lane_joins_equal_samples_and_has_a_gap_while_the_process_did_not_exist():
    samples = [
        Sample(0.0, {"a": "playing"}),
        Sample(2.0, {"a": "playing", "b": "waiting"}),
        Sample(4.0, {"a": "waiting", "b": "waiting"}),
        Sample(8.0, {"a": "playing", "b": "waiting"}),
    ]
    a, b = make_lanes(samples)
    assert [(each.x, each.width, each.phase, each.seconds) for each in a.stretches] == [
        (0.0, 500.0, "playing", 4.0),
        (500.0, 500.0, "waiting", 4.0),
    ]
    assert [(each.x, each.width) for each in b.stretches] == [(250.0, 750.0)]
    assert (a.says, b.says) == ("playing 50 %, waiting 50 %", "waiting 100 %")
    assert make_lanes(samples[:1]) == []


def make_trajectory(spans, versions, probability=0.5):
    sampled = sum(spans[1::2])
    logprobs = np.log(np.full(sampled, probability)).astype("<f4").tobytes()
    return Trajectory(pack_ids(list(range(sum(spans)))), spans, logprobs, versions, 1.0)


def test_a_strip_has_read_texts_and_sampled_tokens_with_probability_and_version():
    strip = make_strip(
        make_trajectory((2, 3, 1, 1), ((7, 2), (9, 2)), 0.05), lambda ids: " ".join(f"<{id}\n>" for id in ids)
    )
    assert [turn.read for turn in strip.turns] == ["<0\n> <1\n>", "", "<5\n>", ""]
    assert [token.text for token in strip.turns[1].sampled] == ["<2⏎\n>", "<3⏎\n>", "<4⏎\n>"]
    assert [token.hue for turn in strip.turns for token in turn.sampled] == [0, 0, 1, 1]
    assert {token.shade for turn in strip.turns for token in turn.sampled} == {4}
    assert strip.turns[1].sampled[0].says == "log-probability -2.996, probability 5.0%, version 7"
    assert strip.versions == ((7, 0), (9, 1))
    assert strip.left_out == 0


def test_a_strip_of_many_tokens_is_cut():
    strip = make_strip(make_trajectory((1, MOST_TOKENS - 1, 1, 5), ((1, MOST_TOKENS + 4),)), lambda ids: "x")
    assert [len(turn.sampled) for turn in strip.turns] == [0, MOST_TOKENS - 1, 0, 1]
    assert strip.left_out == 4


def environment(id, *parents, rate=None):
    score = None if rate is None else Score(None, None, None, rate, None, False, 1, 0)
    return Environment(id, "j", 0, "maze", f"{id}Env", "", 0, False, 1, 0.0, 1.0, parents=parents, score=score)


def test_a_family_has_two_generations_above_and_below():
    every = [
        environment("a"), environment("b", "a"), environment("c", "b", "other:x", rate=0.25), environment("d", "c"),
        environment("e", "d"), environment("f", "e"),
    ]  # fmt: skip
    by_id = {each.id: each for each in every}
    family = make_family("c", by_id, find_children(every), lambda id: f"?id={id}" if id in by_id else "")
    assert [(each.depth, each.id, each.link) for each in family] == [
        (0, "a", "?id=a"), (1, "b", "?id=b"), (1, "other:x", ""), (2, "c", ""), (3, "d", "?id=d"), (4, "e", "?id=e"),
    ]  # fmt: skip
    assert [each.says for each in family] == ["active", "active", "not of this run", "won 25 %", "active", "active"]


def test_a_table_sorts_unknown_values_last_and_keeps_the_words_of_its_address():
    columns = (Column("n", "number", lambda row: row),)
    rows = [3, None, *range(10, 10 + ROWS)]
    page = make_table(rows, columns, (), {"sort": "-n", "skill": "a b"}, "row", str)
    assert [cells[0] for _, cells in page.rows[:2]] == ["109", "108"]
    assert page.after == "?sort=-n&skill=a+b&page=2"
    assert page.heads[0] == ("number", "?sort=n&skill=a+b", "descending")
    last = make_table(rows, columns, (), {"sort": "n", "page": "2", "run": "1"}, "row", str)
    assert last.rows == (("row?run=1&id=109", ("109",)), ("row?run=1&id=None", ("–",)))
    assert (last.says, last.after) == ("101 to 102 of 102", "")


def test_a_followed_run_samples_its_phases_while_it_is_up_and_reads_only_changes(tmp_path):
    run = make_run(tmp_path / "run")
    followed = FollowedRun(run, "run")
    status = Status("run", processes=(process("learner"),))
    assert followed.refresh(status, 1.0)
    assert not followed.refresh(status, 2.0)
    assert list(followed.samples) == []
    with RunDir(run.path).lock("replay"):
        followed.refresh(status, 3.0)
    assert list(followed.samples) == [Sample(3.0, {"learner-0": "training"})]
    assert len(followed.seen.designs.environments) == len(followed.environments) > 0
    followed.close()


def test_a_followed_run_forgets_the_run_that_its_folder_held_before(tmp_path):
    run = make_run(tmp_path / "run")
    followed = FollowedRun(run, "run")
    assert followed.environments
    followed.refresh(Status("run"), 1.0)
    shutil.rmtree(run.path)
    followed.refresh("gone", 2.0)
    run.create(replace_settings(SETTINGS, {"play.win_return": 0.75}))
    with open_store(run.store, "nosync"):
        pass
    assert followed.refresh(Status("run"), 3.0)
    assert followed.environments == {}
    assert followed.seen.designs.steps == {}
    assert followed.config.play.win_return == 0.75
    followed.close()


def test_a_followed_run_survives_a_store_that_is_overwritten(tmp_path):
    run = make_run(tmp_path / "run")
    followed = FollowedRun(run, "run")
    data = run.store / "data.mdb"
    whole = data.read_bytes()
    with data.open("r+b") as file:
        for head in (0, 4_096):  # the number of the last page: LMDB closes the environment
            file.seek(head + 136)
            file.write((1 << 40).to_bytes(8, "little"))
    assert followed.refresh(Status("run"), 1.0)
    assert any("store" in note for note in followed.seen.notes)
    with data.open("r+b") as file:
        file.write(whole)
    assert followed.refresh(Status("run"), 2.0)
    assert followed.seen.notes == ()
    assert followed.environments
    followed.close()


def test_a_followed_run_finds_its_store_when_it_comes(tmp_path):
    run = RunDir(tmp_path / "run")
    run.create(SETTINGS)
    followed = FollowedRun(run, "run")
    assert followed.environments == {}
    make_run(run.path)
    assert followed.refresh(Status("run"), 1.0)
    assert followed.environments
    followed.close()


def test_a_remark_says_that_plays_were_left_out_and_only_then(tmp_path, monkeypatch):
    run = make_run(tmp_path / "run")
    with open_reader(run.store) as store:
        count = len(store.scan("plays", PlayRecord))
        for most, remarks in ((count, False), (count - 1, True)):
            monkeypatch.setattr(plays, "MOST_WALKED", most)
            _, remark = plays.list_plays(store, SETTINGS, {})
            assert bool(remark) == remarks
