import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from spade.app.screen.chart import draw_bar, draw_chart
from spade.app.screen.observe import describe_evaluated
from spade.app.screen.view import render
from spade.protocol import Counts, Evaluation, Histories, Process, Recent, Status, StepMetrics, Traffic, Wait

ROLES = ("replay", "learner", "engine", "env-runner", "agent", "designer")


def full_status(processes=6):
    return Status(
        run="runs/nano", elapsed_s=192, learner_step=42, policy_version=43, active_environments=12,
        counts=Counts(
            plays=8123, environments=301, newest_environment="TidesDoorEnv", newest_skill="logical deduction"
        ),
        recent=Recent(
            validity=0.96, win_rate_unhinted=0.47, win_rate_hinted=0.66, win_rate_error=0.02,
            regret=0.187, regret_error=0.04, learnable_share=0.58,
        ),
        traffic=Traffic(plays_per_s=24.3),
        step_metrics=StepMetrics(loss=0.0123, effective_sample_share=1.0, step_s=1.2, wait_s=3.4),
        processes=tuple(Process(f"{ROLES[i % 6]}-{i}", ROLES[i % 6], 1000 + i, "ready", 0) for i in range(processes)),
        histories=Histories(
            regret_history=tuple((i / 100, 0.03) for i in range(30)),
            win_rate_history=tuple((0.3 + i / 100, 0.5) for i in range(30)),
        ),
    )  # fmt: skip


def with_histories(status, **changed):
    return msgspec.structs.replace(status, histories=msgspec.structs.replace(status.histories, **changed))


def with_evaluations():
    rates = [0.396, *(0.41 + i / 100 for i in range(20))]
    evaluations = [Evaluation(10 * i, 10 * i + 1, 10 * i + 4, 240, 0, rate, 0.031, 9.0) for i, rate in enumerate(rates)]
    return with_histories(full_status(processes=7), evaluations=tuple(evaluations))


def with_tools(status):
    used = {"calls_per_turn": 1.25, "malformed_share": 0.03, "refused_share": 0.125, "done_share": 0.61}
    return msgspec.structs.replace(status, recent=msgspec.structs.replace(status.recent, free_share=0.0, **used))


def draw(status, width, height, note=""):
    console = Console(width=width, height=height, color_system=None, force_terminal=True, legacy_windows=False)
    with console.capture() as capture:
        console.print(render(status, width, height, note), height=height)
    return capture.get().rstrip("\n").split("\n")


@pytest.mark.parametrize(("width", "height"), [(80, 24), (160, 50), (100, 30), (60, 15), (40, 9), (20, 4)])
@pytest.mark.parametrize(
    "status",
    [Status(), full_status(), full_status(processes=40), with_evaluations(), with_tools(full_status())],
    ids=["empty", "full", "crowd", "held-out", "tools"],
)
def test_the_screen_is_exactly_as_large_as_the_terminal(status, width, height):
    lines = draw(status, width, height)
    assert len(lines) == height
    assert all(len(line) <= width for line in lines)


def test_a_run_without_a_sandbox_says_so():
    runner = Process("env-runner-0", "env-runner", 7, "ready", 0, gauges={"sandbox_tier": 0.0, "live_episodes": 3.0})
    assert "no sandbox" in "\n".join(draw(Status(processes=(runner,)), 80, 24))
    walled = Process("env-runner-0", "env-runner", 7, "ready", 0, gauges={"sandbox_tier": 1.0})
    assert "no sandbox" not in "\n".join(draw(Status(processes=(walled,)), 80, 24))


def test_a_run_without_hinted_plays_draws_its_win_rate_over_the_whole_width_and_says_why():
    unhinted = tuple((0.3 + i / 100, None) for i in range(30))
    status = with_histories(full_status(), regret_history=(), win_rate_history=unhinted)
    recent = msgspec.structs.replace(status.recent, regret=None, regret_error=None, win_rate_hinted=None)
    lines = draw(msgspec.structs.replace(status, recent=recent), 160, 50)
    text = "\n".join(lines)
    assert "; no hints, so no regret" in text
    assert lines[2].startswith("╭─ win rate and learnable share ──")
    assert "nothing measured yet" not in text
    assert "regret 0" not in text


def test_a_run_of_which_nothing_is_measured_yet_has_both_panels():
    text = "\n".join(draw(Status(), 160, 50))
    assert "no environment was played in both arms yet" in text
    assert text.count("nothing measured yet") == 2


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40)])
def test_the_use_of_tools_is_among_the_numbers_only_where_there_are_tools(width, height):
    text = "\n".join(draw(with_tools(with_evaluations()), width, height))
    used = "calls 1.25, refused 12%", "malformed 3%", "done 61%, free 0%"
    for shown in (*used, "environments 12", "ESS 100%", "waited 3.4 s", "0.187 ± 0.040", "valid ", "agent-4"):
        assert shown in text
    assert "calls" not in "\n".join(draw(full_status(), width, height))


def test_a_wide_screen_shows_every_number_also_with_tools():
    text = "\n".join(draw(with_tools(full_status()), 120, 40))
    for name in ("calls", "designer groups", "lines", "revealing", "diversity"):
        assert f" {name} " in text


def test_the_small_screen_shows_the_main_figures():
    text = "\n".join(draw(full_status(), 80, 24, "Ctrl-C drains"))
    figures = "0.187 ± 0.040", "0.47", "0.66", "0.58", "0.96", "ESS 100%"
    for shown in ("step 42", "policy v43", *figures, "TidesDoorEnv", "Ctrl-C", *ROLES):
        assert shown in text


@pytest.mark.parametrize(("width", "height", "told", "curve"), [
    (80, 24, "held-out 0.60 ± 0.03, at start 0.40", False),
    (120, 32, "held-out win rate 0.60 ± 0.03, at start 0.40", True),
])  # fmt: skip
def test_the_held_out_win_rate_is_named_with_its_error_and_its_start(width, height, told, curve):
    lines = draw(with_evaluations(), width, height)
    text = "\n".join(lines)
    assert told in text
    assert "others: on the newest programs" in text
    assert any("held-out  █" in line and "0.60" in line for line in lines)
    # The curve's scale is that of the evaluations: 0.60 + 0.03.
    assert ("0.63 ▔" in text or "0.63  " in text) == curve


def test_evaluations_in_a_line():
    status = with_evaluations()
    assert describe_evaluated(status) == "held-out win rate 0.40 ± 0.03 after step 0 -> 0.60 ± 0.03 after step 200"
    first = with_histories(status, evaluations=status.histories.evaluations[:1])
    assert describe_evaluated(first) == "held-out win rate 0.40 ± 0.03 after step 0"
    now = [Evaluation(210, 9, 9, 96, 2, 0.1, 0.02, 9.0, "gem"), Evaluation(220, 9, 9, 96, 0, 0.2, 0.02, 9.0, "gem")]
    other = with_histories(status, evaluations=(*status.histories.evaluations, *now))
    assert describe_evaluated(other) == (
        "held-out win rate on gem 0.10 ± 0.02 after step 210 (2 of 96 plays ended in errors) -> "
        "0.20 ± 0.02 after step 220"
    )
    assert describe_evaluated(Status()) == ""


def test_a_crowd_of_processes_is_counted_not_cut_in_silence():
    assert "more" in "\n".join(draw(full_status(processes=40), 80, 24))


def test_a_process_that_is_not_well_is_seen():
    status = Status(processes=(Process("agent-0", "agent", 7, "restarting", 3, "died by SIGKILL"),))
    text = "\n".join(draw(status, 80, 24))
    assert "restarting" in text
    assert "died by SIGKILL" in text


@pytest.mark.parametrize(("width", "height", "told"), [(80, 24, "ready ×4"), (80, 40, "3"), (40, 24, "ready ×4")])
def test_the_restarts_of_a_process_are_seen(width, height, told):
    status = Status(processes=(Process("agent-0", "agent", 7, "ready", 3),))
    (row,) = [row for row in draw(status, width, height) if "agent-0" in row]
    assert told in row


def test_an_empty_footer_is_empty():
    assert draw(Status(), 80, 24)[-1].strip() == ""


@pytest.mark.parametrize(("width", "height"), [(40, 24), (40, 20), (60, 24), (63, 30), (80, 24), (120, 40)])
def test_a_narrow_screen_shows_the_verdict_the_bars_and_the_processes(width, height):
    lines = draw(with_evaluations(), width, height, "Ctrl-C drains")
    text = " ".join(line.strip() for line in lines)
    assert "learning: held-out +0.20 since the start" in text
    shown = "held-out  █", "unhinted  █", "hinted    █", "valid     █", "0.60", *ROLES[:4], "ready"
    assert all(part in text for part in shown)


def test_forty_columns_and_twelve_lines_show_the_whole_verdict():
    text = " ".join(line.strip() for line in draw(with_evaluations(), 40, 12))
    assert "learning: held-out +0.20 since the start" in text
    assert all(part in text for part in ("held-out  █", "valid     █", "0.96"))


def test_a_long_verdict_ends_on_a_small_screen_with_an_ellipsis():
    easy = msgspec.structs.replace(full_status().recent, zero_variance_share=0.92, win_rate_unhinted=0.95)
    status = msgspec.structs.replace(with_evaluations(), recent=easy)
    told = "learning: held-out +0.20 since the start; designs too easy: 92 % of chunks have no variance"
    for width, height, rows in (120, 40, 1), (80, 24, 2), (40, 24, 3), (40, 9, 1):
        lines = draw(status, width, height)[1 : 1 + rows]
        seen = " ".join(line.strip() for line in lines)
        assert seen == told or (seen.endswith("…") and told.startswith(seen[:-1]))
        assert (seen == told) == (height > 9)


def test_the_machine_of_a_process_is_seen_where_there_are_several():
    local = Process("replay", "replay", 6, "ready", 0)
    assert not any("machine" in row for row in draw(Status(processes=(local,)), 80, 24))
    placed = Process("agent-0", "agent", 7, "ready", 0, host="10.0.0.2")
    waiting = Process("agent-1", "agent", 0, "waiting", 0, "1 CPU")
    for height, head in (24, []), (40, ["machine"]):
        text = "\n".join(draw(Status(processes=(local, placed, waiting)), 80, height))
        assert all(part in text for part in (*head, "10.0.0.2", "waits for 1 CPU"))


def test_a_stall_is_the_footer_until_it_is_over():
    waits = (
        Wait("replay", "TakeBatch", 1, 63.0, "learner", "8 of 96 sequences"),
        Wait("agent-0", "plays", 48, 62.0, "replay"),
        Wait("engine-0", "Generate", 48, 61.5, "agent-0"),
    )
    stalled = msgspec.structs.replace(full_status(), traffic=Traffic(stalled_s=61.7), waits=waits)
    footer = draw(stalled, 80, 24, "Ctrl-C drains")[-1]
    assert footer.startswith(" stalled for 62 s agent-0 waits 61.5 s for engine-0, Generate ×48")
    assert len(footer) <= 80
    assert draw(msgspec.structs.replace(stalled, traffic=Traffic()), 80, 24, "Ctrl-C")[-1].startswith(" Ctrl-C")


def test_the_row_of_a_process_shows_its_activity():
    gauges = {"episodes": 48.0, "released": 0.0, "step_ms": 1.25, "tokens_per_s": 1284.0, "program_bytes": 2.0**21}
    status = Status(processes=(Process("agent-0", "agent", 7, "ready", 0, "", gauges),))
    assert "episodes 48  step 1.25 ms  tokens 1,284/s  program 2.0 MiB" in "\n".join(draw(status, 120, 24))


@given(st.lists(st.tuples(st.floats(-1, 1), st.floats(0, 1)), max_size=200), st.integers(8, 80), st.integers(-2, 30))
def test_a_chart_fills_its_room(points, width, height):
    lines = draw_chart(points, width, height, "green").plain.split("\n")
    assert len(lines) <= max(height, 1)
    if points and height > 0:
        assert len(lines) == height
        # One mark of the line in each column that has a point.
        marks = sum(line.count(mark) for line in lines for mark in "▁━▔")
        assert marks == min(len(points), width - 6)


@given(st.one_of(st.none(), st.floats(-2, 3)), st.integers(1, 60))
def test_a_bar_is_as_wide_as_asked(share, width):
    assert len(draw_bar(share, width, "green").plain) == width


def test_a_chart_scales_to_the_points_that_it_shows():
    points = [(0.31, 0.01), (0.33, 0.01), (0.35, 0.01)]
    labels = [row[:6] for row in draw_chart(points, 26, 5, "green", with_zero=False).plain.split("\n")]
    assert labels == [" 0.36 ", *[" " * 6] * 3, " 0.30 "]
    labels = [row[:6] for row in draw_chart(points, 26, 5, "green").plain.split("\n")]
    assert labels == [" 0.36 ", *[" " * 6] * 3, " 0.00 "]
    still = [row[:6] for row in draw_chart([(0.5, 0.0)] * 3, 26, 5, "green", with_zero=False).plain.split("\n")]
    assert still == [" 0.51 ", *[" " * 6] * 3, " 0.49 "]


def test_the_regret_is_scaled_to_its_window_and_the_win_rate_from_zero():
    history = tuple((0.31 + i / 1000, 0.01) for i in range(30))
    text = "\n".join(draw(with_histories(full_status(), regret_history=history), 160, 50))
    assert " 0.35 " in text
    assert " 0.30 " in text
    assert " 0.00 " in text


def test_a_chart_shows_a_long_run_from_its_beginning():
    fell = [(1.0, 0.0)] * 100 + [(0.0, 0.0)] * 100
    lines = draw_chart(fell, 26, 5, "green").plain.split("\n")
    assert lines[0] == " 1.00 " + "▔" * 10 + " " * 10
    assert lines[-1] == " 0.00 " + " " * 10 + "▁" * 10
