"""The table by thirds of a run, from a store of six environments."""

import json

import msgspec
import pytest

from actors.text.measures.diversity import compute_vendi_share
from actors.text.measures.tfidf import compute_tfidf
from replay.ledger.records import Environment, PlayRecord, Score, Source
from replay.store import open_store
from replay.store.load import open_run
from spade.app.commands.env import programs as env
from spade.app.commands.env.stats import stats
from spade.app.rundir import RunDir
from spade.config import load
from spade.protocol import Measures, ToolUse

PROGRAMS = ["class AEnv: red", "class BEnv: blue", "same", "same", "x", "y", "z"]


def environment(number, measures=None, levels=(), score=None, **asked):
    levels = list(levels)
    return Environment(
        f"e{number:06d}", f"j{number:06d}", 0, "optimization", "AEnv", "tides", 1, True, 1, 0.0, 9.0, levels=levels,
        score=score, measures=measures or Measures(), **asked,
    )  # fmt: skip


def score(win_rate, hinted, regret):
    return Score(1.0, regret, 0.1, win_rate, hinted, True, 8, 0)


def play(environment, number, turns, hinted=False, state="finished"):
    id = f"{environment.id}-0{'uh'[hinted]}{number:03d}"
    return PlayRecord(id, environment.id, 0, number, hinted, state=state, turns=turns)


@pytest.fixture
def run(tmp_path):
    environments = [
        environment(0, Measures(10, 1, True, similarity=0.25), [0.0, 1.0], score(0.5, 1.0, 0.5)),
        environment(1, Measures(20, None, False), [0.0, 0.5, 1.0], score(1.0, None, None)),
        environment(2, Measures(30, 3, False)),
        environment(3, Measures(31, 4)),
        environment(5),
        environment(6), environment(7, variant="missing value", setting="a bank"),
    ]  # fmt: skip
    first, second, third, *_ = environments
    plays = [
        play(first, 0, 2), play(first, 1, 4), play(first, 2, 9, hinted=True), play(first, 3, 9, state="void"),
        play(second, 0, 3), play(third, 0, 5),
    ]  # fmt: skip
    made, config = RunDir(tmp_path / "run"), load("nano")
    made.create(config)
    with open_store(made.store, "nosync") as store:
        open_run(store, config)
        changes = [("environments", each.id, each) for each in environments]
        changes += [("plays", each.id, each) for each in plays]
        changes += [
            ("sources", each.id, Source(text, "a hint", "Find it."))
            for each, text in zip(environments, PROGRAMS, strict=True)
        ]
        store.commit(store.encode(changes))
    return made.path


def test_each_third_has_the_means_of_its_environments(run, capsys):
    stats(run, json=True)
    first, second, last = json.loads(capsys.readouterr().out)
    assert first == {
        "environments": 2, "lines": 15.0, "hidden_variables": 1.0, "reward_levels": 2.5, "turns": 3.0,
        "win_rate_unhinted": 0.75, "win_rate_hinted": 1.0, "regret": 0.5, "revealing_share": 0.5,
        "similarity": 0.25, "diversity": pytest.approx(compute_vendi_share(compute_tfidf(PROGRAMS[:2]))),
    }  # fmt: skip
    assert (second["lines"], second["hidden_variables"], second["turns"], second["regret"]) == (30.5, 3.5, 5.0, None)
    assert (second["revealing_share"], second["diversity"]) == (0.0, pytest.approx(1 / 2))  # twins
    assert (last["environments"], last["lines"], last["turns"]) == (3, None, None)
    assert last["diversity"] == pytest.approx(1.0)


def test_the_table_has_a_column_for_each_third(run, capsys):
    stats(run)
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[1:4] == [["environments", "2", "2", "3"], ["lines", "15.0", "30.5", "–"],
                         ["hidden", "variables", "1.00", "3.50", "–"]]  # fmt: skip
    assert ["turns", "3.00", "5.00", "–"] in rows


def test_the_list_and_one_environment_have_the_measures(run, capsys):
    env.ls(run)
    first, second, *_ = capsys.readouterr().out.splitlines()[1:]
    assert first.split()[-3:] == ["10", "1", "2"]
    assert second.split()[-3:] == ["20", "–", "3"]
    env.show(run, "e000000")
    told = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert told[-6:-3] == [["lines", "10"], ["hidden", "variables", "1"], ["reward", "levels", "2"]]
    assert told[-3] == ["first", "observation", "reveals", "the", "method"]
    assert told[-2] == ["similarity", "0.250"]
    assert told[-1] == ["a", "play", "e000000-0u000,", "return", "0", "in", "2", "turns"]


def test_programs_with_tools_have_figures_of_their_own_beside_the_papers(tmp_path, capsys):
    made, config = RunDir(tmp_path / "run"), load("nano")
    made.create(config)
    measures = [
        Measures(40, tools=3, conditions=1.5, guarded=True), Measures(60, tools=4, guarded=False), Measures(50),
        Measures(30, tools=2, conditions=2.0, guarded=False),
    ]  # fmt: skip
    environments = [environment(number, each) for number, each in enumerate(measures)]
    first, *_, last = environments
    used = [ToolUse(2, 0, 0, instructions, 1, 0) for instructions in (3, 4, 2)]
    plays = [
        msgspec.structs.replace(each, tools=use)
        for each, use in zip((play(last, 0, 2), play(last, 1, 2, hinted=True), play(first, 0, 2)), used, strict=True)
    ]
    with open_store(made.store, "nosync") as store:
        open_run(store, config)
        changes = [("environments", each.id, each) for each in environments]
        changes += [("plays", each.id, each) for each in plays]
        changes += [("sources", each.id, Source(f"x = {each.id!r}", "", "")) for each in environments]
        store.commit(store.encode(changes))
    stats(made.path)
    rows = {line[:18].strip(): line[18:].split() for line in capsys.readouterr().out.splitlines()}
    assert rows[""] == ["first", "third", "second", "last", "paper"]
    assert rows["lines"] == ["40.0", "60.0", "40.0", "247", "→", "226"]
    assert rows["tools"] == ["3.00", "4.00", "2.00", "7.6", "→", "5.9"]
    assert rows["instructions"] == ["2.00", "–", "3.50", "4.7"]
    assert rows["conditions"] == ["1.50", "–", "2.00", "1.9", "→", "2.0"]
    assert rows["guarded share"] == ["1.000", "0.000", "0.000", "0.2"]
    assert rows["seed share"] == ["1.000", "1.000", "1.000"]
    assert "hidden variables" not in rows
    stats(made.path, json=True)
    assert [third["instructions"] for third in json.loads(capsys.readouterr().out)] == [2.0, None, 3.5]
    env.show(made.path, "e000000")
    told = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert told[-4:-1] == [["tools", "3"], ["conditions", "1.5", "a", "criterion"], ["guarded", "failure", "yes"]]


def test_setting_and_variant_are_told_where_a_program_was_asked_for_them(run, capsys):
    env.ls(run)
    header, *_, last = capsys.readouterr().out.splitlines()
    assert header.endswith(" levels variant")
    assert last.endswith(" missing value")
    env.show(run, "e000007")
    told = capsys.readouterr().out.splitlines()
    assert [line.split(maxsplit=1) for line in told[-2:]] == [["setting", "a bank"], ["variant", "missing value"]]


def test_a_run_without_environments_has_an_empty_table(tmp_path, capsys):
    made, config = RunDir(tmp_path / "run"), load("nano")
    made.create(config)
    with open_store(made.store, "nosync") as store:
        open_run(store, config)
    stats(made.path)
    assert "environments                 0           0           0" in capsys.readouterr().out
