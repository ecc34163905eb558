"""`spade eval`: one line for each bad input, and evaluations as text."""

import json
import shutil

import msgspec
import pytest
from typer.testing import CliRunner

from actors.suites import SUITES
from replay.inspect.journal import EvaluationRow
from spade.app import cli
from spade.app.evaluation.examination import derive_settings
from spade.app.evaluation.measuring import (
    EvalOptions,
    Subject,
    _compare_measured,
    _extend_for_thoughts,
    _plan_policy,
    _refuse_others,
    choose_suites,
    evaluate,
    find_suites,
    parse_data_files,
)
from spade.app.evaluation.policies import check_asked, pin, release
from spade.app.evaluation.servers import ServerOptions
from spade.app.rundir import RunDir
from spade.app.screen.evaluations import MeasuredSuite, format_row, format_sheet, format_table
from spade.config import Pool, dump, load
from spade.errors import ConfigError, RunError
from spade.evaluations import KeptEvaluation, Rules, SampleRecord, SampleSchedule, open_folder, summarise_records
from spade.evaluations.record import sample_seed
from spade.evaluations.rules import ROOM
from spade.policy.model_folder import NANO
from tests.unreadable import unwritable

NANO_SUITE = SUITES["nano"]


def asked(suites="nano", **other):
    given = {
        "protocol": "short", "policy": "newest", "against": "none", "samples": None, "items": None, "seed": 0,
        "data": (), "config": None, "overrides": (),
    }  # fmt: skip
    return EvalOptions(model="nano", suites=suites, **{**given, **other})


def nothing(_):
    pass


def rules(suite="nano", policy="0" * 32):
    protocol = SUITES[suite].protocol("short")
    return Rules(suite=suite, policy=policy, seed=0, protocol=protocol, items=2, items_digest="d")


def summary(right, prompt="0" * 32):
    record = {
        "sample": 0, "seed": 1, "prompt": prompt, "text": "", "extracted": "", "score": 0.0, "finish": "stop",
        "read": 1, "sampled": 1, "seconds": 0.1,
    }  # fmt: skip
    scheduled = SampleSchedule({"a": "x", "b": ""}, 1)
    return summarise_records([SampleRecord(item=item, correct=item in right, **record) for item in "ab"], scheduled)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"suites": "gamess"}, "--suite 'gamess': unknown suite; did you mean games, "),
        ({"suites": "nanno"}, "--suite 'nanno': unknown suite; did you mean nano, "),
        ({"suites": " , "}, "--suite: name one or more of aime25, "),
        ({"suites": "gem", "protocol": "release"}, "suite gem: has no protocol 'release'; it has paper, short"),
        ({"items": 3, "protocol": "paper"}, "--items: only --protocol short plays a part of a suite"),
        ({"data": ("nano",)}, "--data 'nano': write NAME=FILE"),
        ({"data": ("aime25=x.csv",)}, "--data 'aime25': add this suite by --suite"),
        (
            {"suites": "aime25", "data": ("aime25=x.csv", "aime25=y.csv")},
            "--data aime25: two files are given",
        ),
        ({"policy": "best"}, "policy 'best': write newest, start, step:N, every:N, or 8 to 32 digits of a digest"),
        ({"policy": "step:3"}, "policy 'step:3': only a run has steps; write newest for a model"),
        ({"policy": "every:0"}, "policy 'every:0': write every:N, a number of learner steps from 1"),
        ({"policy": "every:"}, "policy 'every:': write every:N"),
        ({"policy": "every:5"}, "policy 'every:5': only a run has steps; write newest for a model"),
        ({"against": "abcdef12"}, "no policy abcdef12 is kept or was measured; there is none"),
        ({"against": "nowhere"}, "policy 'nowhere': write newest, start, step:N, or 8 to 32 digits"),
        ({"overrides": ("engine.rows=0",)}, "engine.rows: must be a whole number from 1"),
        ({"overrides": ("model.path=other",)}, "--set model.path: give the model as the argument RUN|MODEL"),
    ],
)
def test_bad_input_is_refused_in_one_line_before_anything_starts(given, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    measuring = "spade.app.evaluation.measuring"
    monkeypatch.setattr(f"{measuring}.measure", lambda *_: pytest.fail("something was started"))
    with pytest.raises((ConfigError, RunError)) as refused:
        evaluate(asked(**given), nothing, nothing)
    assert said in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize("subject", ["run", "model", "working directory"])
def test_an_unprintable_folder_is_named_before_anything_starts(subject, tmp_path, monkeypatch):
    odd = tmp_path / "a\nb"
    shutil.copytree(NANO, odd) if subject == "model" else odd.mkdir()
    if subject == "run":
        (odd / "config.toml").write_text(dump(load("nano")))
    monkeypatch.chdir(odd if subject == "working directory" else tmp_path)
    with pytest.raises(RunError, match="b: its path holds unprintable characters; rename the folder"):
        Subject.of("nano" if subject == "working directory" else str(odd), None)


def test_a_suite_without_its_data_is_complained_of_and_the_others_are_played(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    measured, complaints = [], []
    monkeypatch.setattr("spade.app.evaluation.measuring.measure", lambda *words: measured.append(words[3]))
    monkeypatch.setattr("spade.app.evaluation.measuring._read_measured", lambda exam, _: exam.suite.name)
    assert evaluate(asked("gpqa-diamond,nano"), nothing, complaints.append) == ["nano"]
    (exams,) = measured
    assert [exam.suite.name for exam in exams] == ["nano"]
    (complaint,) = complaints
    assert complaint.startswith("spade: suite gpqa-diamond: needs its data, the CSV with the columns Question, ")
    assert complaint.endswith("give --data gpqa-diamond=FILE")


def planned(suites="nano", complain=nothing, **other):
    words = asked(suites, **other)
    subject = Subject.of("nano", None)
    with subject.pinned("newest") as policy:
        return _plan_policy(subject, policy, choose_suites(words), words, complain)


def test_a_suite_with_fewer_items_than_asked_for_says_so_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("spade.app.evaluation.measuring.measure", lambda *_: None)
    monkeypatch.setattr("spade.app.evaluation.measuring._read_measured", lambda exam, _: exam.plan.rules.items)
    for items, complaints in (36, []), (60, ["suite nano: --items 60: it has only 36 items; all of them are played"]):
        said = []
        assert evaluate(asked(items=items), nothing, said.append) == [36]
        assert said == complaints


def test_a_suite_that_cannot_be_played_changes_nothing_for_the_others(tmp_path, monkeypatch):
    """Env-runners would not start without the library of the suite, and so play no other suite."""
    monkeypatch.chdir(tmp_path)
    complaints = []
    given = planned("gpqa-diamond,nano", complaints.append)
    assert given.config.sandbox.libraries == planned("nano").config.sandbox.libraries
    assert given.config.engine.context_tokens == planned("nano").config.engine.context_tokens
    assert len(complaints) == 1


def test_policies_that_would_not_compare_are_refused_before_one_is_measured(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    now, before = planned(), planned(overrides=("engine.arithmetic=model",))
    _refuse_others(now, now)
    with pytest.raises(ConfigError, match="differ in conditions"):
        _refuse_others(now, before)


def test_an_item_that_no_message_can_hold_is_complained_of(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.jsonl").write_text('{"problem": "' + "x" * 40_000 + '", "answer": 1}')
    complaints = []
    given = planned("aime25", complaints.append, data=("aime25=a.jsonl",), overrides=("bus.max_message_bytes=65_536",))
    assert not given.exams
    assert "the program of item '1' has 4" in complaints[0]
    assert "over half of bus.max_message_bytes" in complaints[0]


def test_what_a_kill_has_left_is_deleted_and_what_another_command_uses_is_not(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (exam,) = (given := planned()).exams
    left = tmp_path / "evaluations" / "processes" / exam.plan.rules.digest[:16]
    (left / "logs").mkdir(parents=True)
    with open_folder(tmp_path, exam.plan.rules, exam.plan.scheduled), pytest.raises(RunError, match="another process"):
        given.measured(nothing)
    assert left.is_dir()
    gone = given._replace(policy=given.policy._replace(folder=None))
    with pytest.raises(RunError, match=r"the weights of policy .* are gone"):
        gone.measured(nothing)
    assert not left.parent.exists()


def test_a_finished_evaluation_is_shown_where_nothing_can_be_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (exam,) = (given := planned()).exams
    with open_folder(tmp_path, exam.plan.rules, exam.plan.scheduled) as kept:
        for item, sample in kept.missing:
            seed = sample_seed("nano", item, sample, exam.plan.rules.seed)
            kept.add(SampleRecord(
                item=item, sample=sample, seed=seed, prompt="0" * 32, text="", extracted="", correct=True, score=1.0,
                finish="stop", read=1, sampled=1, seconds=0.1,
            ))  # fmt: skip
    with unwritable(tmp_path):
        assert given.measured(nothing)["nano"].summary.correct == len(exam.plan.scheduled)
    (exam.folder / "summary.json").unlink()
    with unwritable(tmp_path), pytest.raises(RunError, match=r"cannot be kept \(Permission denied\)"):
        given.measured(nothing)
    assert given.measured(nothing)["nano"].summary.correct == len(exam.plan.scheduled)


def test_a_model_that_is_none_is_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="is not a run"):
        Subject.of(str(tmp_path / "empty"), None)


def test_the_word_run_may_be_left_out():
    runner = CliRunner()
    for words in (["eval", "nano"], ["eval", "run", "nano"], ["eval", "--protocol", "short", "nano"]):
        result = runner.invoke(cli.app, words)
        assert result.exit_code == 2
        assert "--suite" in result.output
    assert "show" in runner.invoke(cli.app, ["eval", "--help"]).output


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"suites": "bfcl"}, "suite bfcl: the chat template of this model drops the tools"),
        ({"suites": "tau2"}, "suite tau2: a strong model must play its users; give --user-url URL, or --user-url self"),
        (
            {"suites": "acebench", "user": ServerOptions("self", "", "")},
            "suite acebench: its harness is not installed: spade eval setup acebench",
        ),
    ],
)  # fmt: skip
def test_a_harness_that_cannot_be_asked_is_complained_of(given, told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    complaints = []
    assert evaluate(asked(**given), nothing, complaints.append) == []
    (complaint,) = complaints
    assert complaint.startswith(f"spade: {told}")


def test_what_no_figure_compares_with_is_said_below_it():
    shared = msgspec.structs.replace(rules(), conditions={"user": "self", "policy": "not pinned"})
    text = format_table([MeasuredSuite("there", shared, "start", summary({"a", "b"}))])
    assert "the policy also played the users" in text
    assert "the digest is a hash of its address and model name" in text


def test_the_policy_of_a_model_is_its_checkpoint_where_it_lies(tmp_path):
    pinned = pin(None, "nano", "float32", "newest", tmp_path / "evaluations")
    assert (pinned.folder, pinned.name) == (NANO, "nano")
    assert pin(None, "nano", "float32", "start", tmp_path / "evaluations").digest == pinned.digest
    release(pinned, tmp_path / "evaluations")
    assert (NANO / "model.safetensors").is_file()
    check_asked(pinned.digest)


def test_a_context_holds_all_turns_as_far_as_the_model_goes():
    protocol = NANO_SUITE.protocol("paper")
    assert protocol.context_tokens(1_024) == 1_024
    assert protocol.context_tokens(1 << 20) == ROOM + 12 * 24


@pytest.mark.parametrize(
    ("config", "overrides", "tokens"),
    [
        ("tools-4b", (), 2_048), ("tools-8b", (), 8_192), ("tools-4b", ("model.thinking=true",), 8_192),
        ("tools-8b", ("model.thinking=false", "engine.rows=4"), 2_048),
    ],
)  # fmt: skip
def test_a_model_that_thinks_has_longer_turns_in_a_harness_and_in_no_other_suite(config, overrides, tokens):
    words = asked("bfcl,tau2,nano", config=config, overrides=overrides)
    given = _extend_for_thoughts(Subject.of("nano", config), choose_suites(words), words)
    assert [each.protocol.sampling.max_tokens for each in given] == [tokens, tokens, 24]


def test_the_processes_neither_design_nor_train_and_have_the_libraries_of_all_suites():
    suites = [(suite, suite.protocol("paper")) for suite in (SUITES["aime25"], SUITES["gem"], NANO_SUITE)]
    config = derive_settings("games-4b", ("engine.kind=torch",), NANO, "bfloat16", suites, 40_960, {})
    assert (config.actors.designers, config.actors.agents, config.endpoint.url) == (0, 0, "")
    assert config.sandbox.libraries == ("answers", "gem")
    assert config.engine.context_tokens == 40_960
    assert config.engine.arithmetic == "model"
    assert config.engine.request_deadline_s == 4 * 1_800
    assert derive_settings("nano", (), NANO, "float32", suites[2:], 1_024, {}).engine.arithmetic == "float64"
    assert (
        derive_settings("nano", ("evaluation.in_flight=3",), NANO, "float32", suites[2:], 900, {}).evaluation.in_flight
        == 3
    )


def test_a_run_of_a_pool_is_measured_without_its_pool():
    suites = [(NANO_SUITE, NANO_SUITE.protocol("paper"))]
    config = derive_settings("nano-fixed", (), NANO, "float32", suites, 1_024, {})
    assert config.design.source == "model"
    assert config.pool == Pool(window_plays=config.pool.window_plays, window_rate=config.pool.window_rate)


def test_the_paired_difference_leads():
    before = MeasuredSuite("f", rules(policy="1" * 32), "start", summary("a"))
    now = MeasuredSuite("f", rules(), "step 3", summary("ab"), before)
    shown = format_table([now]).splitlines()
    assert shown[0] == "nano@short, policy 0000000000000000"
    assert "step 3" in shown[1]
    assert (
        format_table([MeasuredSuite("f", rules(), "x", summary("a"), why="no")]).splitlines()[1]
        == "  difference  none: no"
    )


def test_policies_that_were_asked_other_questions_are_not_compared():
    now = MeasuredSuite("f", rules(), "step 3", summary("ab"))
    before = MeasuredSuite("f", rules(policy="1" * 32), "start", summary("a", prompt="1" * 32))
    held = _compare_measured(now, before)
    assert held.difference is None
    assert held.against == before
    shown = format_table([held]).splitlines()
    assert shown[1].startswith("  difference  none: suite nano: 2 of 2 items have other prompts")
    assert _compare_measured(now, msgspec.structs.replace(before, summary=summary("a"))).difference.mean == 0.5


def test_an_evaluation_is_listed_in_a_line_and_shown_with_its_rules(tmp_path):
    kept = KeptEvaluation(tmp_path, rules(), summary("a"))
    assert format_row(kept).startswith("nano@short ")
    assert "0.500" in format_row(kept)
    assert format_row(KeptEvaluation(tmp_path, rules(), None)).endswith("it has not ended yet")
    assert "T 1, top-p 1, top-k 0, 24 tokens a turn, 12 turns" in format_sheet(kept)


def measured_run(folder, *rows):
    """A run whose own evaluator measured these."""
    run = RunDir(folder)
    run.create(load("nano"))
    run.metrics_path.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
    return run.path


def test_what_a_run_s_own_evaluator_measured_is_listed_and_shown(tmp_path):
    rows = [
        EvaluationRow(0, 192, 0.40625, 0.0355, "nano", {"level 1": 0.7}),
        EvaluationRow(8, 192, 0.625, 0.0349, "nano", {"level 1": 0.8, "level 2": 0.45}),
        EvaluationRow(8, 60, 0.2),
    ]
    run = measured_run(tmp_path / "run", *rows)
    listed = CliRunner().invoke(cli.app, ["eval", "ls", str(run)]).output.splitlines()
    assert [" ".join(each.split()) for each in listed] == [
        "nano, in the run step 0 0.406 ± 0.035, 192 plays",
        "programs of a folder, in the run step 8 0.200, 60 plays",
        "nano, in the run step 8 0.625 ± 0.035, 192 plays",
    ]
    shown = CliRunner().invoke(cli.app, ["eval", "show", str(run), "nano"]).output
    assert "  step 8        0.625 ± 0.035, 192 plays" in shown.splitlines()
    assert "by category, after step 8" in shown
    assert "programs of a folder" not in shown
    assert isinstance(CliRunner().invoke(cli.app, ["eval", "show", str(run), "gem"]).exception, RunError)
    told = json.loads(CliRunner().invoke(cli.app, ["eval", "ls", str(run), "--json"]).output)
    assert [(each["in_run"]["step"], each["rules"]) for each in told] == [(0, None), (8, None), (8, None)]


def test_what_a_run_measured_by_other_plays_is_shown_apart(tmp_path):
    rows = [
        EvaluationRow(step, 9, 0.5, None, "nano", measure=measure) for step, measure in ((0, "a"), (4, "a"), (8, "b"))
    ]
    shown = CliRunner().invoke(cli.app, ["eval", "show", str(measured_run(tmp_path / "run", *rows))]).output
    assert [part.count("  step ") for part in shown.split("\n\n")] == [2, 1]


@pytest.mark.parametrize("words", [["ls"], ["ls", "--json"], ["show"]])
def test_rows_of_a_journal_that_cannot_be_read_are_not_left_out_in_silence(tmp_path, words):
    run = measured_run(tmp_path / "run", EvaluationRow(0, 9, 0.5, None, "nano"))
    with (run / "metrics.jsonl").open("ab") as journal:
        journal.write(b"null\n")
    done = CliRunner().invoke(cli.app, ["eval", words[0], str(run), *words[1:]])
    assert done.exit_code == 0
    assert "metrics.jsonl: 1 rows cannot be read and are left out\n" in done.stderr


def test_no_category_of_a_journal_forges_a_line(tmp_path):
    run = measured_run(tmp_path / "run", EvaluationRow(0, 9, 0.5, None, "x\ny", {"a\nnano, in the run": 1.0}))
    told = CliRunner().invoke(cli.app, ["eval", "show", str(run)]).output
    assert not [each for each in told.splitlines() if each.startswith(("nano", "y"))]


def test_no_text_of_a_summary_forges_a_line(tmp_path):
    forged = msgspec.structs.replace(summary(""), headline=None, why="x\nnano@paper 0.9", errors={"y\nheadline": 1})
    kept = KeptEvaluation(tmp_path, rules(), forged)
    assert "\n" not in format_row(kept)
    for told in (format_sheet(kept), format_table([MeasuredSuite("f", rules(), "z", forged)])):
        assert not [line for line in told.splitlines() if line.startswith(("nano@paper", "headline"))]


def test_evaluations_below_a_folder_that_is_not_there_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # `make up` leaves a run in the clone, whose name would be suggested
    for words in (["ls"], ["show"]):
        result = CliRunner().invoke(cli.app, ["eval", *words, str(tmp_path / "nanno")])
        assert (type(result.exception), str(result.exception)) == (
            RunError,
            f"{tmp_path / 'nanno'}: there is no such folder",
        )


def test_suites_are_named_once_each_and_have_their_files(tmp_path):
    suites = find_suites("nano, nano-tools,nano")
    assert [suite.name for suite in suites] == ["nano", "nano-tools"]
    assert [suite.name for suite in find_suites("nano,tools,bfcl")] == ["nano", "bfcl", "tau2", "acebench"]
    assert parse_data_files(["nano=a=b"], suites)["nano"].name == "a=b"
    assert [each.protocol.samples for each in choose_suites(asked("nano,nano-tools", samples=5))] == [5, 5]
