"""The JSON of a status, whose names other people's tools read."""

import json

import msgspec
import pytest

from replay.service.status import make_metrics_row
from spade.app.commands.look.status import status
from spade.app.rundir import RunDir
from spade.config import load
from spade.protocol import Counts, Evaluation, Histories, Process, Recent, SkillFigures, Status, StepMetrics, Traffic

NAMES = [
    "run", "elapsed_s", "learner_step", "policy_version", "plays", "plays_per_s", "sampled_tokens_per_s",
    "environments", "active_environments", "rejected_candidates", "failed_jobs", "validity", "win_rate_unhinted",
    "win_rate_hinted", "win_rate_error", "regret", "regret_error", "learnable_share", "lag_mean", "wasted_share",
    "zero_variance_share", "reward_levels", "response_tokens", "designer_groups", "designer_reward", "waiting_for",
    "memory", "voids", "expired_leases", "dropped_messages", "newest_environment", "newest_skill", "step_metrics",
    "processes", "regret_history", "win_rate_history", "released_leases", "late_plays", "backlog", "wanted", "waits",
    "stalled_s", "strangers", "quarantined", "newest_quarantined", "broadcast_s", "evaluations", "audits",
    "audit_findings", "audits_left_out", "audit_steps", "audit_s", "newest_finding", "examples_shown", "return_gap",
    "wasted_share_agent", "wasted_share_designer", "rollouts", "finished",
    "response_tokens_hinted", "turns", "turns_hinted", "program_lines", "hidden_variables", "revealing_share",
    "diversity", "skills", "variants", "calls_per_turn", "malformed_share", "refused_share", "done_share", "free_share",
    "similarity", "pool_programs", "pool_rejected", "pool_pass", "pool_left",
    "level_low", "level_high", "levels_capped", "delivered_tokens", "delivered_sampled_tokens",
]  # fmt: skip
STATUS = Status(
    run="a run",
    counts=Counts(plays=7, newest_skill="counting"),
    recent=Recent(regret=0.25),
    traffic=Traffic(plays_per_s=1.5),
    step_metrics=StepMetrics(loss=0.5),
    processes=(Process("agent-0", "agent", 1, "ready", 0),),
    histories=Histories(((0.25, 0.0),), ((0.5, 0.75),), (Evaluation(0, 1, 1, 8, 0, 0.5, 0.1, 2.0),)),
)


@pytest.fixture
def left(tmp_path):
    made = RunDir(tmp_path / "run")
    made.create(load("nano"))
    made.status_path.write_bytes(msgspec.json.encode(STATUS))
    return made.path


def test_the_json_of_a_status_has_every_figure_by_its_name(left, capsys):
    status(left, json=True)
    told = json.loads(capsys.readouterr().out)
    assert set(told) == {*NAMES, "origin", "verdict"}
    assert told["verdict"] == "stopped, held-out 0.50 ± 0.10, measured once"
    assert (told["run"], told["plays"], told["newest_skill"], told["plays_per_s"]) == ("a run", 7, "counting", 1.5)
    assert (told["regret"], told["regret_history"], told["win_rate_history"]) == (0.25, [[0.25, 0.0]], [[0.5, 0.75]])
    assert (told["step_metrics"]["loss"], told["evaluations"][0]["win_rate"]) == (0.5, 0.5)
    assert (told["processes"][0]["name"], told["processes"][0]["state"]) == ("agent-0", "stopped")


def test_the_verdict_is_the_first_line(left, capsys):
    status(left)
    assert capsys.readouterr().out.startswith("stopped, held-out 0.50 ± 0.10, measured once\n")


def test_a_table_by_skill_is_told_where_there_are_figures(left, capsys):
    status(left)
    assert "skill" not in capsys.readouterr().out
    skills = {"optimization": SkillFigures(0.5, 0.75, None, 1.0), "pattern recognition": SkillFigures()}
    told = msgspec.structs.replace(STATUS, recent=Recent(skills=skills))
    (left / "status.json").write_bytes(msgspec.json.encode(told))
    status(left)
    rows = capsys.readouterr().out.splitlines()
    assert "  skill                unhinted  hinted  regret  learnable" in rows
    assert "  optimization             0.50    0.75       –       1.00" in rows
    assert "  pattern recognition         –       –       –          –" in rows
    status(left, json=True)
    assert json.loads(capsys.readouterr().out)["skills"]["optimization"]["win_rate_hinted"] == 0.75


def test_the_use_of_tools_is_a_line_where_there_is_some(left, capsys):
    status(left)
    assert "tools" not in capsys.readouterr().out
    used = Recent(calls_per_turn=1.25, malformed_share=0.02, refused_share=0.1, done_share=0.5)
    (left / "status.json").write_bytes(msgspec.json.encode(msgspec.structs.replace(STATUS, recent=used)))
    status(left)
    line = "tools 1.25 calls a turn, 10% refused, 2% malformed; instructions 50% done, – of them free"
    assert line in capsys.readouterr().out.splitlines()


def test_a_row_of_the_metrics_has_the_figures_and_those_of_the_learner_step():
    lists = {"processes", "wanted", "waits", "regret_history", "win_rate_history", "evaluations"}
    row = make_metrics_row(STATUS)
    assert set(row) == {*NAMES, *StepMetrics.__struct_fields__} - lists - {"step_metrics"}
    assert (row["plays"], row["regret"], row["plays_per_s"], row["loss"]) == (7, 0.25, 1.5, 0.5)
