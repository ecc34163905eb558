"""Averages over suites on real evaluation folders: columns as in the paper's tables, and paired differences."""

import msgspec
import pytest
from typer.testing import CliRunner

from spade.app import cli
from spade.app.rundir import RunDir
from spade.app.screen.evaluations import format_average_table
from spade.config import load
from spade.errors import ConfigError, RunError
from spade.estimates import Difference, compute_average_difference
from spade.evaluations import (
    SampleSchedule,
    SuiteAverage,
    average_suites,
    compute_passes,
    name_folder,
    open_folder,
    read_evaluation,
    sample_seed,
)
from spade.evaluations.folder import RECORDS, SUMMARY
from tests.spade.evaluations.samples import RULES, record

BASE, TRAINED = "ab" * 16, "cd" * 16
TOOLS = {
    "bfcl": {"base": (10, 3), "miss_func": (10, 1), "miss_param": (5, 2), "long_context": (5, 3)},
    "tau2": {"retail": (12, 6), "airline": (5, 1), "telecom": (12, 3)},
    "acebench": {"multi_step": (20, 11), "multi_turn": (24, 10)},
}
"""By suite and category: items, and those that the base has right."""


def measure(run, suite, categories, policy=BASE, samples=1, prompt="0f" * 16, played=None, rules=RULES):
    """An evaluation of which the first items of each category are right."""
    protocol = msgspec.structs.replace(rules.protocol, samples=samples)
    items = {f"{name}/{at}": (name, at < right) for name, (count, right) in categories.items() for at in range(count)}
    rules = msgspec.structs.replace(rules, suite=suite, policy=policy, protocol=protocol, items=len(items))
    scheduled = SampleSchedule({item: name for item, (name, _) in items.items()}, samples)
    with open_folder(run, rules, scheduled) as kept:
        for item, sample in kept.missing[:played]:
            seed = sample_seed(suite, item, sample, rules.seed)
            # Only the first sample of an item is right.
            kept.add(record(item, sample, items[item][1] and sample == 0, seed=seed, prompt=prompt))
    return name_folder(run, rules)


def tools(run, policy=BASE, more=0, **changed):
    for suite, categories in TOOLS.items():
        better = {name: (count, right + more) for name, (count, right) in categories.items()}
        measure(run, suite, better, policy, samples=4 if suite == "tau2" else 1, **changed)


def asked(*words):
    return CliRunner().invoke(cli.app, ["eval", "average", *map(str, words)])


def test_columns_of_agent_suites_are_means_over_categories_whatever_their_sizes(tmp_path):
    tools(tmp_path)
    result = asked(tmp_path, "--suite", "tools", "--json")
    assert result.exit_code == 0, result.output
    found = msgspec.json.decode(result.stdout, type=SuiteAverage)
    by_name = {column.name: column for column in found.columns}
    assert by_name["acebench"].share.mean == pytest.approx((11 / 20 + 10 / 24) / 2)  # and not 21 / 44
    assert by_name["bfcl"].share.mean == pytest.approx((0.3 + 0.1 + 0.4 + 0.6) / 4)
    assert by_name["tau2"].share.mean == pytest.approx((0.5 + 0.2 + 0.25) / 3 / 4)
    assert found.share.mean == pytest.approx(sum(column.share.mean for column in found.columns) / 3)
    assert found.share.low < found.share.mean < found.share.high
    assert found.difference is None
    assert by_name["bfcl"].passes == {}
    assert by_name["tau2"].passes[4].any_of == pytest.approx((0.5 + 0.2 + 0.25) / 3)
    assert by_name["tau2"].passes[2].any_of == pytest.approx((0.5 + 0.2 + 0.25) / 3 / 2)
    assert by_name["tau2"].passes[2].all_of == 0


def test_categories_of_reasoning_gym_are_columns_of_their_own_beside_other_suites(tmp_path):
    measure(tmp_path, "reasoning-gym-hard", {"mathematics": (30, 15), "algorithmic": (10, 1), "logic": (20, 5)})
    measure(tmp_path, "gpqa-diamond", {"Physics": (5, 5), "Biology": (15, 0)})
    result = asked(tmp_path, "--suite", "reasoning-gym-hard,gpqa-diamond")
    lines = result.stdout.splitlines()
    assert lines[0] == f"policy {BASE[:16]}, in per cent"
    assert [line.split("  ")[0] for line in lines[1:]] == [
        "reasoning-gym-hard mathematics",
        "reasoning-gym-hard algorithmic",
        "reasoning-gym-hard logic",
        "gpqa-diamond",
        "average",
    ]
    assert " 27.5 (95 % from " in lines[-1]  # the mean of 50, 10, 25 and 25
    assert lines[-1].endswith("80 items, 80 samples")


def test_a_base_gives_paired_differences_by_column_and_in_total(tmp_path):
    tools(tmp_path)
    tools(tmp_path, TRAINED, more=1)
    found = msgspec.json.decode(
        asked(tmp_path, "--suite", "tools", "--against", BASE[:8], "--json").stdout, type=SuiteAverage
    )
    gains = [column.difference.mean for column in found.columns]
    assert gains[0] == pytest.approx((1 / 10 + 1 / 10 + 1 / 5 + 1 / 5) / 4)
    assert gains[2] == pytest.approx((1 / 20 + 1 / 24) / 2)
    assert found.difference.mean == pytest.approx(sum(gains) / 3)
    assert found.difference.low < found.difference.mean < found.difference.high
    assert (found.difference.up, found.difference.down) == (9, 0)
    other = tmp_path / "other"
    tools(other, TRAINED, more=1)
    shown = asked(other, "--suite", "acebench", "--policy", TRAINED).stdout
    assert "+" not in shown
    again = asked(tmp_path, "--suite", "acebench", "--policy", TRAINED, "--against", BASE).stdout.splitlines()[-1]
    assert "+4.6 (95 % from " in again
    assert again.endswith("2 up, 0 down, 44 items, 44 samples")


def test_what_is_missing_or_does_not_compare_is_refused_in_a_line(tmp_path):
    folder = measure(tmp_path, "bfcl", TOOLS["bfcl"])
    trained = measure(tmp_path, "bfcl", TOOLS["bfcl"], TRAINED, prompt="1e" * 16)
    for words, said in (
        (["--suite", "tools", "--policy", BASE], f"suite tau2 was not measured for the policy {BASE[:16]}; play it"),
        (
            ["--suite", "bfcl"],
            f"choose a policy that was measured here, by --policy: {BASE[:16]}, {TRAINED[:16]}",
        ),
        (["--suite", "bfcl", "--against", BASE], "suite bfcl: 30 of 30 items have other prompts"),
        (["--suite", "bfcl", "--seed", "3"], "no measurement by the protocol paper with the seed 3"),
        (["--suite", "bfcl", "--policy", "newest"], f"policy newest was not measured here; these were: {BASE[:16]}, "),
        (["--suite", "bfcl", "--policy", "f" * 9], "policy fffffffff was not measured here; these were: "),
        (["--suite", "bfcl", "--against", BASE, "--seed", "3"], "no measurement by the protocol"),
        (["--suite", "bfcc"], "unknown suite; did you mean bfcl"),
        (["--suite", "bfcl", "--policy", "best"], "policy 'best': write newest, start"),
    ):
        result = asked(tmp_path, *words)
        assert isinstance(result.exception, ConfigError | RunError), result.output
        assert said in str(result.exception)
        assert len(str(result.exception).splitlines()) == 1
    file = folder / SUMMARY
    old = msgspec.json.decode(file.read_bytes())
    file.write_bytes(
        msgspec.json.encode({name: old[name] for name in old if name not in ("members", "prompts", "digest")})
    )
    (folder / RECORDS).unlink()
    with pytest.raises(RunError, match="older version, without categories"):
        average_suites([read_evaluation(folder)])
    part = measure(tmp_path / "part", "bfcl", TOOLS["bfcl"], played=7)
    with pytest.raises(RunError, match=r"headline \(23 of 30 samples are not played yet\)"):
        average_suites([read_evaluation(part)])
    assert average_suites([read_evaluation(trained)]).share.mean == pytest.approx(0.35)


def test_another_run_as_the_base_has_one_measured_policy(tmp_path):
    here, other = tmp_path / "here", RunDir(tmp_path / "other")
    other.path.mkdir()
    other.reopen(load("nano"))  # `create` records the version of torch, which the tests of pure code do without
    for run, policy in ((here, TRAINED), (other.path, BASE), (other.path, TRAINED)):
        measure(run, "bfcl", TOOLS["bfcl"], policy)
    said = str(asked(here, "--suite", "bfcl", "--against", other.path).exception)
    assert said == (
        f"{other.path}: has several measured policies, but --against takes a run with one: {BASE[:16]}, "
        f"{TRAINED[:16]}; move the evaluations of the others away"
    )


def test_a_base_without_another_policy_is_refused(tmp_path):
    measure(tmp_path, "bfcl", TOOLS["bfcl"])
    said = str(asked(tmp_path, "--suite", "bfcl", "--against", BASE[:8]).exception)
    assert said == f"{tmp_path}: only the base {BASE[:16]} was measured here; measure another policy by `spade eval`"


def test_the_cure_of_a_missing_measurement_names_its_protocol_and_seed(tmp_path):
    short = msgspec.structs.replace(RULES.protocol, name="short")
    measure(tmp_path, "bfcl", TOOLS["bfcl"], rules=msgspec.structs.replace(RULES, protocol=short, seed=3))
    result = asked(tmp_path, "--suite", "tools", "--policy", BASE, "--protocol", "short", "--seed", "3")
    cure = f"spade eval {tmp_path} --suite tau2 --policy {BASE[:16]} --protocol short --seed 3"
    assert str(result.exception).endswith(cure)


def test_what_makes_a_figure_misleading_is_said_below_the_table(tmp_path):
    folder = measure(tmp_path, "tau2", TOOLS["tau2"])
    kept = read_evaluation(folder)
    self_played = kept._replace(rules=msgspec.structs.replace(kept.rules, conditions={"user": "self"}))
    assert (
        format_average_table(average_suites([self_played]))
        .splitlines()[-1]
        .startswith("note: tau2: the policy also played the users")
    )


def test_conditions_that_differ_between_suites_are_said_below_the_table(tmp_path):
    def under(suite, **conditions):
        kept = read_evaluation(measure(tmp_path, suite, TOOLS[suite]))
        return kept._replace(rules=msgspec.structs.replace(kept.rules, conditions=conditions))

    one = under("bfcl", dtype="float64", thinking="false", context_tokens="9000")
    other = under("tau2", dtype="bfloat16", thinking="false", context_tokens="7000", user="gpt")
    notes = [line for line in format_average_table(average_suites([one, other])).splitlines() if "note" in line]
    assert notes == [
        "note: the suites were measured under different conditions: dtype is float64 (bfcl), bfloat16 (tau2)"
    ]


def test_a_column_of_one_item_leaves_the_mean_without_an_error():
    one, other = Difference(1.0, None, None, None, 1, 1, 0), Difference(0.0, 0.1, -0.2, 0.2, 9, 1, 1)
    assert compute_average_difference([one, other]) == Difference(0.5, None, None, None, 10, 2, 1)
    mean = compute_average_difference([other, other])
    assert mean.high == pytest.approx(0.2 / 2**0.5)
    assert mean.error == pytest.approx(0.1 / 2**0.5)


def test_no_items_have_no_passes(tmp_path):
    summary = read_evaluation(measure(tmp_path, "tau2", TOOLS["tau2"], samples=4)).summary
    assert compute_passes(summary, 4, []) == {}
    assert compute_passes(summary, 4).keys() == {2, 4}


def test_the_passes_of_a_protocol_with_several_samples_are_shown(tmp_path):
    measure(tmp_path, "tau2", TOOLS["tau2"], samples=4)
    shown = CliRunner().invoke(cli.app, ["eval", "show", str(tmp_path)]).stdout
    assert "pass@k  2: 17.2, 4: 34.5" in shown
    assert "pass^k  2: 0.0, 4: 0.0" in shown
