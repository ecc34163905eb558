"""Results on disk, what they come to, and the page of them."""

import json
import re
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from replay.inspect.journal import EvaluationRow, StepRow
from spade.app.cli import app
from spade.app.experiment.analysis import HELD_OUT, RISE, collect_outcomes, summarise_arms, summarise_pairs
from spade.app.experiment.designed import LevelledProgram, count_top_families
from spade.app.experiment.page import render
from spade.app.experiment.plan import Piece, read_experiment
from spade.app.experiment.results import (
    LARGEST_FILE,
    MOST_ROWS,
    TABLES,
    Origins,
    choose_rows,
    name_file,
    read_results,
    refuse_others,
    rows_of,
    write_result,
)
from spade.app.experiment.table import TextTable, describe_state, make_tables
from spade.errors import RunError, format_placed
from tests.app.experiment.grids import OURS, TEXT, experiment, result

ROOT = Path(__file__).parents[3]


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


@pytest.mark.parametrize(
    ("world", "experiments", "runs"),
    [
        ("nano", ["nano", "nano-rewards"], 52),
        ("nano-collapse", ["nano-collapse"], 6),
        ("nano-hour", ["nano-hour"], 3),
        ("nano-larger", ["nano-larger"], 1),
        ("nano-limits", ["nano-limits"], 2),
        ("nano-tools", ["nano-tools"], 9),
        ("nano-tools-luck", ["nano-tools-luck", "nano-tools-rewards"], 22),
    ],
)
def test_the_published_results_are_of_the_shipped_experiments(world, experiments, runs):
    """A recipe that changes needs the setting as it was in the `set` of the experiments made with it."""
    folder = ROOT / "docs" / "experiment" / world
    plans = (read_experiment(ROOT / "configs" / "experiments" / f"{name}.toml") for name in experiments)
    found = {name_file(folder, piece) for plan in plans for piece in read_results(folder, plan)}
    assert found == set(folder.glob("*.json"))
    assert len(found) == runs


def test_the_published_results_are_small():
    sizes = [file.stat().st_size for file in (ROOT / "docs" / "experiment").rglob("*.*")]
    assert sum(sizes) < 5_500 * len(sizes)


def test_a_long_run_makes_a_small_file(tmp_path):
    plan = experiment(tmp_path)
    long = result(plan, plan.pieces[0], steps=4_000)
    full = {name: 1 / 3 for name in StepRow.__struct_fields__ if name not in ("learner_step", "skills", "variants")}
    long.rows[:] = choose_rows([StepRow(learner_step=step, **full) for step in range(1, 4_001)], MOST_ROWS)
    write_result(tmp_path, long)
    assert name_file(tmp_path, long.piece).stat().st_size < LARGEST_FILE
    assert [long.rows[0].learner_step, long.rows[-1].learner_step, len(long.rows)] == [1, 4_000, MOST_ROWS]


@pytest.mark.parametrize("rows", [[], [1], [1, 2, 3]])
def test_few_rows_are_all_kept(rows):
    assert choose_rows(rows, 120) == rows


def test_results_of_other_settings_are_refused(tmp_path):
    plan = experiment(tmp_path)
    write_result(tmp_path, result(plan, plan.pieces[0]))
    with pytest.raises(RunError, match=r"full-0\.json: .*with other settings"):
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
    name_file(tmp_path, plan.pieces[0]).write_bytes(b"{")
    with pytest.raises(RunError, match=r"full-0\.json: is damaged"):
        read_results(tmp_path, plan)


def without_digest(text):
    """A file of results as older versions wrote it, without its digest."""
    tree = json.loads(text)
    del tree["digest"]
    return json.dumps(tree)


def test_results_that_were_edited_are_refused(tmp_path):
    plan = experiment(tmp_path)
    write_result(tmp_path, result(plan, plan.pieces[0]))
    file = name_file(tmp_path, plan.pieces[0])
    text = file.read_text()
    file.write_text(text.replace('"agent":', '"agent":1'))
    with pytest.raises(RunError, match=r"full-0\.json: is damaged \(its digest"):
        read_results(tmp_path, plan)
    file.write_text(without_digest(text))
    assert read_results(tmp_path, plan)


def share_of(tree, name):
    return tree["held_out"][name]


FORGED = {
    "no share": lambda tree: tree.update(held_out={}),
    "a negative share": lambda tree: share_of(tree, "level 1").update(mean=-0.1),
    "a huge share": lambda tree: share_of(tree, "level 1").update(mean=1e308),
    "many categories": lambda tree: tree.update(held_out={str(n): share_of(tree, "level 1") for n in range(65)}),
    "a long category": lambda tree: tree.update(held_out={"x" * 201: share_of(tree, "level 1")}),
    "no steps": lambda tree: tree.update(steps=0),
    "huge steps": lambda tree: tree.update(steps=10**400),
    "negative trajectories": lambda tree: tree.update(agent=-1),
    "huge trajectories": lambda tree: tree.update(agent=10**400),
    "a huge figure": lambda tree: tree["rows"][-1].update(regret=1e308),
    "a huge category": lambda tree: tree["evaluations"][-1].update(categories={"level 1": -1e31}),
    "a huge diversity": lambda tree: tree["diversities"][-1].update(share=1e31),
    "many rows": lambda tree: tree.update(rows=[{**tree["rows"][0], "learner_step": n} for n in range(121)]),
    "rows out of order": lambda tree: tree["rows"].reverse(),
    "evaluations out of order": lambda tree: tree["evaluations"].reverse(),
    "a step twice": lambda tree: tree["diversities"].extend(tree["diversities"]),
    "a huge level": lambda tree: tree["designed"][0].update(level=10**400),
    "no programs of a level": lambda tree: tree["designed"][0].update(count=0),
    "a part that no run has": lambda tree: tree["designed"][0].update(part=6),
    "other steps than the experiment's": lambda tree: tree.update(steps=13),
    "a row after the last step": lambda tree: tree["rows"][-1].update(learner_step=13),
    "an evaluation after the last step": lambda tree: tree["evaluations"][-1].update(step=13),
    "a negative validity": lambda tree: tree["rows"][-1].update(validity=-77),
    "a learnable share over 1": lambda tree: tree["rows"][-1].update(learnable_share=1.5),
    "a level won more than always": lambda tree: tree["evaluations"][-1].update(categories={"level 1": 1.5}),
}


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED)
def test_figures_that_no_run_has_are_refused(tmp_path, forge):
    plan = experiment(tmp_path)
    write_result(tmp_path, result(plan, plan.pieces[0]))
    file = name_file(tmp_path, plan.pieces[0])
    tree = json.loads(file.read_text())
    tree |= {table: rows_of(tree[table]) for table in TABLES}  # older versions wrote rows, and these are still read
    forge(tree)
    file.write_text(without_digest(json.dumps(tree)))
    with pytest.raises(RunError, match=r"full-0\.json: is damaged"):
        read_results(tmp_path, plan)


def test_columns_of_unlike_lengths_are_refused(tmp_path):
    plan = experiment(tmp_path)
    write_result(tmp_path, result(plan, plan.pieces[0]))
    file = name_file(tmp_path, plan.pieces[0])
    tree = json.loads(file.read_text())
    tree["rows"]["regret"].pop()
    file.write_text(without_digest(json.dumps(tree)))
    with pytest.raises(RunError, match=r"full-0\.json: is damaged"):
        read_results(tmp_path, plan)


@pytest.mark.parametrize("categories", [[{}, {}], [{"level 1": 0.5}, {}]])
def test_rows_are_read_back_from_columns_whatever_categories_they_have(tmp_path, categories):
    plan = experiment(tmp_path)
    rows = [EvaluationRow(step, 8, 0.5, categories=each) for step, each in enumerate(categories)]
    write_result(tmp_path, msgspec.structs.replace(result(plan, plan.pieces[0]), evaluations=rows, diversities=[]))
    found = read_results(tmp_path, plan)[plan.pieces[0]]
    assert (found.evaluations, found.diversities) == (rows, [])


def test_results_of_unlike_levels_are_refused(tmp_path):
    plan = experiment(tmp_path)
    for piece in plan.pieces[:2]:
        write_result(tmp_path, result(plan, piece))
    file = name_file(tmp_path, plan.pieces[1])
    file.write_text(without_digest(file.read_text().replace("level 2", "level 3")))
    with pytest.raises(RunError, match=r"pool-0\.json: .*other categories than full-0"):
        read_results(tmp_path, plan)


def test_a_figure_that_some_runs_lack_says_how_many_have_it(tmp_path):
    plan = experiment(tmp_path)
    results = {piece: result(plan, piece) for piece in plan.pieces}
    results[plan.pieces[0]].diversities.clear()
    arms, question, *_ = map(str, make_tables(plan, results))
    assert re.search(r"full +2 of 2 .* 0\.050 \(1 of 2\)", arms)
    assert re.search(r"full − pool +2 .* 0\.000 \(1 of 2\)", question)


def test_a_table_is_one_line_a_row_whatever_its_texts_hold(tmp_path):
    told = str(TextTable("title", "says", ("a\nb", "\x1b[2J"), (("c\td", "e" * 1_000),)))
    assert told.splitlines()[3].split() == [r"a\nb", r"\x1b[2J"]
    assert len(told.splitlines()) == 5
    assert max(map(len, told.splitlines())) < 200


def test_a_suite_without_categories_has_no_column_for_them(tmp_path):
    plan = experiment(tmp_path)
    one = result(plan, plan.pieces[0])
    found = collect_outcomes(msgspec.structs.replace(one, held_out={"": one.held_out["level 1"]}))
    assert found[HELD_OUT] == 0.6
    assert "" not in found


def test_the_primary_outcome_is_the_mean_over_levels(tmp_path):
    plan = experiment(tmp_path)
    found = collect_outcomes(result(plan, plan.pieces[0], wins=30))
    assert found[HELD_OUT] == pytest.approx((0.6 + 0.3) / 2)
    assert (found["level 1"], found["level 2"]) == (0.6, 0.3)
    # Of 12 steps the last third begins after 8, its second half after 10; the mean over levels is step / 200.
    assert found[RISE] == pytest.approx((12 / 200) - (9 + 10) / 400)
    assert found["regret"] == pytest.approx((9 + 10 + 11 + 12) / 28)
    assert "learnable share" not in found
    assert (found["level designed first"], found["level designed last"]) == (1.5, 4.0)
    assert found["families met at the top"] == 0


def test_a_family_is_met_at_the_top_once_a_program_of_the_highest_level_is_won_in_part():
    written = [(6, 0.5, "Walk"), (6, 0.25, "Walk"), (6, 1.0, "Boxes"), (6, 0.0, "Steps"), (6, None, "Levers")]
    lower = [(5, 0.5, "Search"), (0, 0.5, "Valley")]
    assert count_top_families([LevelledProgram(0, *each) for each in written + lower]) == 1


def test_differences_are_paired_by_seed(tmp_path):
    plan = experiment(tmp_path)
    wins = {"full-0": 30, "full-1": 40, "pool-0": 20, "pool-1": 32, "no-memory-0": 30}
    results = {piece: result(plan, piece, wins[str(piece)]) for piece in plan.pieces}
    question, explored = summarise_pairs(plan, results)
    assert (question.pair, question.primary) == (("full", "pool"), True)
    first = question.outcomes["level 1"]
    # Differences 0.2 and 0.16: a deviation of 0.02 · √2, and Student's quantile of one degree is 12.706.
    assert (first.value, first.runs) == (pytest.approx(0.18), 2)
    assert first.high == pytest.approx(0.18 + 12.706 * 0.02, abs=1e-4)
    assert first.low == pytest.approx(0.18 - 12.706 * 0.02, abs=1e-4)
    alone = explored.outcomes[HELD_OUT]
    assert (explored.primary, alone.value, alone.low, alone.runs) == (False, 0.0, None, 1)
    rows = {row.arm: row for row in summarise_arms(plan, results)}
    assert rows["full"].outcomes["level 1"].value == pytest.approx(0.7)


def test_a_pair_of_which_one_run_is_missing_is_left_out_of_the_interval(tmp_path):
    plan = experiment(tmp_path, TEXT.replace("[0, 1]", "[0, 1, 2, 3, 4, 5]"))
    ours = {Piece("full", seed): result(plan, Piece("full", seed), 30 + seed) for seed in range(6)}
    theirs = {Piece("pool", seed): result(plan, Piece("pool", seed), 30 - seed) for seed in range(5)}
    question, *_ = summarise_pairs(plan, ours | theirs)
    # Differences 0, 0.04, … 0.16: a deviation of 0.04 · √2.5 over √5; Student's quantile of four degrees is 2.7764.
    found = question.outcomes["level 1"]
    assert (found.value, found.runs) == (pytest.approx(0.08), 5)
    assert found.high - found.value == pytest.approx(2.776445 * 0.04 * 0.5**0.5, abs=1e-6)
    arm = summarise_arms(plan, ours)[0].outcomes["level 1"]
    # Six values, 0.02 apart: a deviation of 0.02 · √3.5 over √6; Student's quantile of five degrees is 2.5706.
    assert (arm.value, arm.runs) == (pytest.approx(0.65), 6)
    assert arm.value - arm.low == pytest.approx(2.570582 * 0.02 * (3.5 / 6) ** 0.5, abs=1e-6)


def test_an_unfinished_grid_says_so_with_what_there_is(tmp_path):
    plan = experiment(tmp_path)
    results = {piece: result(plan, piece) for piece in plan.pieces if piece.seed == 0}
    assert describe_state(plan, results) == "unfinished: 2 of 5 runs are missing: full-1, pool-1"
    arms, question, explored, levels = map(str, make_tables(plan, results))
    assert "1.50, won 0.90" in levels
    assert "4.00, won 0.50" in levels
    assert "1 of 2" in arms
    assert "full − pool" in question
    assert "full − no-memory" in explored
    assert make_tables(plan, {}) == []


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


def test_a_table_of_a_folder_that_is_not_there_is_an_error(tmp_path):
    experiment(tmp_path)
    done = CliRunner().invoke(
        app, ["experiment", "table", str(tmp_path / "grid.toml"), "--results", f"{tmp_path}/none"]
    )
    assert "none: there is no such folder" in str(done.exception)


@pytest.mark.parametrize(("out", "said"), [("run", "is a run"), ("a\nb", "holds unprintable characters")])
def test_a_folder_that_cannot_have_runs_is_refused_before_any_is_made(tmp_path, out, said):
    experiment(tmp_path)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.toml").touch()
    done = CliRunner().invoke(app, ["experiment", "run", str(tmp_path / "grid.toml"), "-o", str(tmp_path / out)])
    assert said in str(done.exception)


def test_a_run_trained_on_more_than_its_match_is_refused(tmp_path):
    plan = experiment(tmp_path)
    full, pool = (result(plan, piece) for piece in plan.pieces[:2])
    batch = plan.config(pool.piece).learner.batch_sequences
    for agent in (full.agent - batch + 1, full.agent + batch - 1):
        for each in (full, msgspec.structs.replace(pool, agent=agent)):
            write_result(tmp_path, each)
        assert len(read_results(tmp_path, plan)) == 2
    write_result(tmp_path, msgspec.structs.replace(pool, agent=full.agent + batch))
    with pytest.raises(RunError, match=r"pool-0\.json: trained on 1,176 .* full-0 on 1,080;"):
        read_results(tmp_path, plan)


def test_a_category_cannot_take_the_place_of_the_primary_outcome(tmp_path):
    plan = experiment(tmp_path)
    one = result(plan, plan.pieces[0])
    named = {HELD_OUT: one.held_out["level 1"], "level 2": one.held_out["level 2"]}
    assert collect_outcomes(msgspec.structs.replace(one, held_out=named))[HELD_OUT] == pytest.approx((0.6 + 0.3) / 2)


def test_values_that_are_all_alike_have_no_interval(tmp_path):
    plan = experiment(tmp_path)
    results = {piece: result(plan, piece) for piece in plan.pieces}
    found = summarise_arms(plan, results)[0].outcomes["level 1"]
    assert (found.value, found.low, found.high, found.runs) == (0.6, None, None, 2)


def test_a_result_that_the_disk_does_not_give_is_named(tmp_path):
    plan = experiment(tmp_path)
    name_file(tmp_path, plan.pieces[0]).symlink_to("/proc/self/mem")
    with pytest.raises(OSError, match="Input/output error") as failed:
        read_results(tmp_path, plan)
    assert format_placed(failed.value) == f"{name_file(tmp_path, plan.pieces[0])}: Input/output error"
