"""Results on disk, what they come to, and the page of them."""

import re

import pytest
from typer.testing import CliRunner

from replay.inspect.journal import StepRow
from spade.app.cli import app
from spade.app.experiment.analysis import HELD_OUT, RISE, arm_rows, outcomes, pair_rows
from spade.app.experiment.page import render
from spade.app.experiment.results import (
    LARGEST_FILE,
    MOST_ROWS,
    Origins,
    file_of,
    read_results,
    refuse_others,
    thinned,
    write_result,
)
from spade.app.experiment.table import state, tables
from spade.errors import RunError
from tests.app.experiment.grids import OURS, TEXT, experiment, result


def test_results_are_read_as_they_were_written(tmp_path):
    plan = experiment(tmp_path)
    for piece in plan.pieces[:2]:
        write_result(tmp_path, result(plan, piece))
    found = read_results(tmp_path, plan)
    assert list(found) == plan.pieces[:2]
    written, read = result(plan, plan.pieces[0]), found[plan.pieces[0]]
    assert read.held_out == written.held_out
    assert read.evaluations == written.evaluations
    assert read.rows[6].regret == 1.0
    assert read.rows[1].regret == 0.28571  # in few digits


def test_a_long_run_makes_a_small_file(tmp_path):
    plan = experiment(tmp_path)
    long = result(plan, plan.pieces[0], steps=4_000)
    full = {name: 1 / 3 for name in StepRow.__struct_fields__ if name not in ("learner_step", "skills", "variants")}
    long.rows[:] = thinned([StepRow(step, **full) for step in range(1, 4_001)], MOST_ROWS)
    write_result(tmp_path, long)
    assert file_of(tmp_path, long.piece).stat().st_size < LARGEST_FILE
    assert [long.rows[0].learner_step, long.rows[-1].learner_step, len(long.rows)] == [1, 4_000, MOST_ROWS]


@pytest.mark.parametrize("rows", [[], [1], [1, 2, 3]])
def test_few_rows_are_all_kept(rows):
    assert thinned(rows, 120) == rows


def test_results_of_other_settings_are_refused(tmp_path):
    plan = experiment(tmp_path)
    write_result(tmp_path, result(plan, plan.pieces[0]))
    with pytest.raises(RunError, match=r"full-0\.json: is of other settings"):
        read_results(tmp_path, experiment(tmp_path, TEXT.replace("steps = 12", "steps = 13")))


@pytest.mark.parametrize("name", ["world", "checkpoint"])
def test_results_of_another_world_or_checkpoint_are_refused(tmp_path, name):
    plan = experiment(tmp_path)
    other = Origins(**{"world": OURS.world, "checkpoint": OURS.checkpoint, name: "0" * 32})
    write_result(tmp_path, result(plan, plan.pieces[0]))
    with pytest.raises(RunError, match=f"is of another {name} "):
        refuse_others(tmp_path, read_results(tmp_path, plan), other)
    write_result(tmp_path, result(plan, plan.pieces[1], origins=other))
    with pytest.raises(RunError, match=rf"pool-0\.json: is of another {name} "):
        read_results(tmp_path, plan)


def test_a_damaged_file_is_named(tmp_path):
    plan = experiment(tmp_path)
    file_of(tmp_path, plan.pieces[0]).write_bytes(b"{")
    with pytest.raises(RunError, match=r"full-0\.json: is damaged"):
        read_results(tmp_path, plan)


def test_the_primary_outcome_is_the_mean_over_levels(tmp_path):
    plan = experiment(tmp_path)
    found = outcomes(result(plan, plan.pieces[0], wins=30))
    assert found[HELD_OUT] == pytest.approx((0.6 + 0.3) / 2)
    assert (found["level 1"], found["level 2"]) == (0.6, 0.3)
    # Of 12 steps the last third begins after 8, its second half after 10; the mean over levels is step / 200.
    assert found[RISE] == pytest.approx((12 / 200) - (9 + 10) / 400)
    assert found["regret"] == pytest.approx((9 + 10 + 11 + 12) / 28)
    assert "learnable share" not in found
    assert (found["level designed first"], found["level designed last"]) == (1.5, 4.0)


def test_differences_are_paired_by_seed(tmp_path):
    plan = experiment(tmp_path)
    wins = {"full-0": 30, "full-1": 40, "pool-0": 20, "pool-1": 32, "no-memory-0": 30}
    results = {piece: result(plan, piece, wins[str(piece)]) for piece in plan.pieces}
    question, explored = pair_rows(plan, results)
    assert (question.pair, question.primary) == (("full", "pool"), True)
    first = question.outcomes["level 1"]
    # Differences 0.2 and 0.16: a deviation of 0.02 · √2, and Student's quantile of one degree is 12.706.
    assert (first.value, first.runs) == (pytest.approx(0.18), 2)
    assert first.high == pytest.approx(0.18 + 12.706 * 0.02, abs=1e-4)
    assert first.low == pytest.approx(0.18 - 12.706 * 0.02, abs=1e-4)
    alone = explored.outcomes[HELD_OUT]
    assert (explored.primary, alone.value, alone.low, alone.runs) == (False, 0.0, None, 1)
    rows = {row.arm: row for row in arm_rows(plan, results)}
    assert rows["full"].outcomes["level 1"].value == pytest.approx(0.7)


def test_an_unfinished_grid_says_so_with_what_there_is(tmp_path):
    plan = experiment(tmp_path)
    results = {piece: result(plan, piece) for piece in plan.pieces if piece.seed == 0}
    assert state(plan, results) == "unfinished: 2 of 5 runs are missing: full-1, pool-1"
    arms, question, explored, levels = map(str, tables(plan, results))
    assert "1.50, won 0.90" in levels
    assert "4.00, won 0.50" in levels
    assert "1 of 2" in arms
    assert "full − pool" in question
    assert "full − no-memory" in explored
    assert tables(plan, {}) == []


def test_the_page_has_tables_and_curves_of_arms_without_the_runs(tmp_path):
    plan = experiment(tmp_path)
    page = render("grid", plan, {piece: result(plan, piece) for piece in plan.pieces}, 0.0)
    assert "finished: all 5 runs are there" in page
    assert "full − pool" in page
    assert "<svg" in page
    assert "Rejected programs" not in page


def test_the_command_shows_the_table_of_results_that_were_kept(tmp_path):
    plan = experiment(tmp_path)
    for piece in plan.pieces:
        write_result(tmp_path / "kept", result(plan, piece))
    page = tmp_path / "page.html"
    words = ["experiment", "table", str(tmp_path / "grid.toml"), "--results", str(tmp_path / "kept"), "-o", str(page)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert re.search(r"full +2 of 2 +12 +1,080 +0\.450", done.output)
    assert "finished: all 5 runs are there" in done.output
    assert page.read_text().startswith("<!doctype html>")
