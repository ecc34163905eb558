from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spade import config
from spade.errors import ConfigError
from tests.peers import changed

DOMAIN_NAMES = " or ".join(f'"{name}"' for name in get_args(config.DomainName))


@pytest.mark.parametrize("name", config.list_recipes())
def test_recipes_load_and_survive_a_round_trip(name, tmp_path):
    loaded = config.load(name)
    path = tmp_path / "resolved.toml"
    path.write_text(config.dump(loaded))
    assert config.load(str(path)) == loaded


def test_games_recipes_have_the_papers_numbers():
    games = config.load("games-30b")
    assert (games.design.round_jobs, games.design.active_skills, games.design.attempts) == (24, 3, 5)
    assert (games.play.group_size, games.play.window_chunks, games.play.max_turns) == (16, 4, 25)
    assert games.learner.lr == 1e-6
    assert (games.loss.clip_low, games.loss.clip_high, games.loss.cap) == (0.20, 0.28, 2.0)
    assert (games.design.max_tokens, games.play.max_turn_tokens, games.play.context_tokens) == (16384, 8192, 32768)
    assert config.load("games-8b").design.max_tokens == 20_000
    assert games.design.single_turn_share == 0.0
    assert (games.play.thoughts, config.load("games-8b").play.thoughts) == ("keep", "strip")
    assert (games.loss.kl, config.load("games-8b").loss.kl) == (0.0, 0.005)
    assert (games.loss.kind, games.loss.aggregation, games.learner.schedule) == ("tis", "token", "constant")


def test_luck_wins_less_of_a_large_models_worlds_than_of_nanos():
    shares = {name: config.load(name).sandbox.random_win_share for name in config.list_recipes()}
    assert {share for name, share in shares.items() if name.startswith("nano")} == {0.5}
    assert {share for name, share in shares.items() if not name.startswith(("nano", "smol"))} == {0.05}
    assert config.Config().sandbox.random_win_share == 0.25


def test_a_thinking_recipe_leaves_room_to_think_of_a_hint():
    """A hint cut at design.hint_max_tokens while the model thinks is none, and its program is rejected."""
    thinking = [recipe for recipe in map(config.load, config.list_recipes()) if recipe.model.thinking]
    assert thinking
    assert all(recipe.design.hint_max_tokens >= recipe.play.max_turn_tokens for recipe in thinking)


@pytest.mark.parametrize("override", ["play.temperature=2.5", "design.temperature=0.001"])
def test_a_temperature_that_vllm_does_not_sample_at_is_refused(override):
    config.load("nano", (override,))
    with pytest.raises(ConfigError, match=rf"^{override.partition('=')[0]}: .*; or take engine.kind=torch$"):
        config.load("nano", (override, "engine.kind=vllm"))


@pytest.mark.parametrize("section", ["play", "design"])
def test_a_temperature_at_which_every_request_would_be_refused_is_refused(section):
    with pytest.raises(ConfigError, match=rf"^{section}.temperature: the torch engine takes 0.001 to inf, is 0.0005$"):
        config.load("nano", (f"{section}.temperature=0.0005",))


@pytest.mark.parametrize("name", config.list_recipes())
def test_a_window_that_lasts_to_its_deadline_is_in_time_for_its_group(name):
    """The group's deadline counts from the opening of its first job, the window's from an admission after that."""
    recipe = config.load(name)
    assert recipe.design.round_deadline_s >= recipe.design.lease_s + recipe.play.window_deadline_s


@pytest.mark.parametrize(("override", "says"), [
    ("tools.variants=[0, 0, 0, 0]", "tools.variants: at least one weight must be over 0, are [0.0, 0.0, 0.0, 0.0]"),
    *((f"tools.variants={value}", "nano: tools.variants: must be a list of 4, each a number from 0 to 2_147_483_647")
      for value in ("[3, 2, 1]", "[3, 2, 1, -1]", "[nan, 1, 1, 1]", "[3, 2, 1, inf]", "3", '["a", 1, 1, 1]', "[]")),
    ("tools.settings=", "nano: tools.settings: must be a text that is not blank"),
    ("tools.screen=true", "tools.screen: model.profile 'nano' lacks"),
    ("design.reviews=1", "design.reviews: model.profile 'nano' lacks"),
    ("learner.lrr=1", "nano: unknown setting learner.lrr; did you mean learner.lr or"),
    ("lerner.lr=1", "nano: unknown setting lerner; did you mean learner?"),
    ("zzz.q=1", "nano: unknown setting zzz; correct or remove it"),
    ("learner.lr=fast", "nano: learner.lr: "),
    ("learner.lr", "section.key=value"),
    ("lr=1", "section.key=value"),
    ("learner.batch_sequences=4", "learner.batch_sequences"),
    ("design.round_jobs=10", "design.round_jobs"),
    ("design.active_skills=7", "design.active_skills"),
    ('run.skills=["juggling"]', "juggling"),
    ('run.skills=["data retrieval"]', "run.skills: 'data retrieval' is not a skill of run.domain = 'games'; take "),
    ("run.domain=chess", f"run.domain: must be {DOMAIN_NAMES}, is 'chess'"),
    ('run.skills=["optimization", "optimization"]', "run.skills: "),
    ("play.max_turn_tokens=500", "play.max_turn_tokens"),
    ("reward.anchor_low=0.9", "reward.anchor_low"),
    ("play.hinted=false", "play.hinted: reward.kind = 'regret' is measured with the hint"),
    ("play.hinted=no", 'play.hinted: must be "auto" or true or false'),
    ("bus.silence_s=1.0", "bus.silence_s"),
    ("engine.context_tokens=128", "engine.context_tokens"),
    ("actors.agents=many", "nano: actors.agents: "),
    ("actors.agents=9..8", "actors.agents: write MIN..MAX with MIN <= MAX <= 256, is 9..8"),
    ("actors.engines=1..257", "actors.engines: write MIN..MAX with MIN <= MAX <= 256, is 1..257"),
    ("actors.agents=auto", 'actors.agents: must be a whole number from 0 to 256 or a range such as "1..8", is '),
    ("design.max_tokens=768", "design.max_tokens"),
    ("learner.designer_lag=12", "unknown setting learner.designer_lag"),
    ("play.win_return=1.5", "play.win_return"),
    ("bus.max_message_bytes=700_000", "bus.max_message_bytes"),
    ("bus.call_deadline_s=4000", "bus.call_deadline_s"),
    ("play.top_p=0.9", "top_p"),  # trained roles: the ratio would need the sampler's support
    ("design.top_k=5", "top_k"),
    ("learner.lr=1e-5", "learner.lr_min: 3e-05 is over learner.lr = 1e-05, from which the cosine falls; lower "),
    ("learner.checkpoint=sharded", "learner.checkpoint: backend 'torch' is one process, so its checkpoints are whole"),
    ("pool.difficulty=hard", 'nano: pool.difficulty: must be "fixed", "window" or a whole number from 0'),
    ("serve.address=localhost", "serve.address: write HOST:PORT, is 'localhost'"),
    ("serve.address=localhost:0", "serve.address: write HOST:PORT, is 'localhost:0'"),
    ("serve.address=0.0.0.0:8000", "serve.address: '0.0.0.0' can be reached by other machines and needs a key"),
    ('track.to=["paper"]', "track.to: 'paper': unknown tracker; take one of tensorboard, wandb, mlflow, "),
    ('track.to=["prometheus:65536"]', "track.to: 'prometheus:65536': write prometheus:PORT"),
    ('track.to=["wandb:80"]', "track.to: 'wandb:80': write prometheus:PORT"),
    ('track.to=["prometheus", "prometheus:1"]', "track.to: names a tool twice: prometheus, prometheus:1"),
    ("evaluation.suite=nanno", "evaluation.suite: unknown suite 'nanno'; take one of aime25, aime26, "),
    ("evaluation.suite=tau2", "evaluation.suite: 'tau2' needs a harness, an external program that drives the policy"),
    ("evaluation.suite=folder:", "evaluation.suite: write folder:DIR"),
    ("evaluation.suite=aime25", "evaluation.suite: the suite 'aime25' needs its file: aime25:FILE"),
    ("evaluation.suite=nano:aime.csv", "evaluation.suite: the suite 'nano' brings its items itself"),
    ("evaluation.suite=nano@long", "evaluation.suite: unknown protocol 'long'; take one of paper, release, short"),
    ("sandbox.random_plays=8", "unknown setting sandbox.random_plays"),
    ('design.difficulties=[["hard"]]', "nano: design.difficulties"),
    ('design.difficulties=[[" ", 3]]', "nano: design.difficulties: "),
])  # fmt: skip
def test_a_bad_override_is_one_clear_line(override, says):
    """`test_config_bounds` tries the bounds of every setting."""
    with pytest.raises(ConfigError) as caught:
        config.load("nano", (override,))
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("overrides", "hinted"),
    [
        ((), True),
        (("play.hinted=true",), True),
        (("reward.kind=win_rate",), False),
        (("reward.kind=progress",), True),
        (("reward.kind=finding",), True),
        (("reward.kind=learning_potential",), False),
        (("reward.kind=learning_potential", "play.hinted=true"), True),
        (("reward.kind=learning_potential", "play.hinted=false"), False),
        (("design.train=false",), True),  # the memory ranks by regret
        (("design.memory_seeds=0",), True),  # designers are paid for regret
        (("design.train=false", "design.memory_seeds=0"), False),
        (("design.train=false", "design.memory_seeds=0", "play.hinted=true"), True),
        (("design.train=false", "design.memory_seeds=0", "play.hinted=false"), False),
    ],
)
def test_the_hint_is_played_if_something_uses_the_regret_or_it_is_asked_for(overrides, hinted):
    assert config.load("games-4b", overrides).hinted is hinted


def test_env_runners_have_the_library_of_the_suite_that_the_run_is_measured_on():
    listed = 'sandbox.libraries=["gem"]'
    assert config.load("nano").libraries == ()
    assert config.load("nano", ("evaluation.suite=reasoning-gym-nano", listed)).libraries == ("gem", "reasoning-gym")
    assert config.load("nano", ("evaluation.suite=gem", listed)).libraries == ("gem",)


@pytest.mark.parametrize(
    "address", ["127.0.0.1:8000", "http://h/", "http://me:key@h", "ftp://h", "http://h?a", "http://"]
)
def test_an_address_of_a_server_is_checked(address):
    with pytest.raises(ConfigError, match=r"sandbox\.servers: write http://HOST:PORT"):
        config.load("nano", (f'sandbox.servers=["{address}"]',))


def test_a_message_holds_a_batch_of_plays_with_all_that_they_thought():
    strip, sequences = 'play.thoughts="strip"', 191 + 16
    with pytest.raises(ConfigError, match=r"bus\.max_message_bytes: .* of 237568 tokens"):
        config.load("games-4b", (strip,))
    enough = sequences * 237_568 * 9
    assert config.load("games-4b", (strip, f"bus.max_message_bytes={enough}")).play.thoughts == "strip"
    with pytest.raises(ConfigError, match=r"bus\.max_message_bytes"):
        config.load("games-4b", (strip, f"bus.max_message_bytes={enough - 1}"))


def test_the_turns_that_a_designer_is_asked_for_must_fit_a_play():
    hard = 'design.difficulties=[["hard", 26]]'
    with pytest.raises(ConfigError, match=r"^design\.difficulties: .*play\.max_turns"):
        config.load("games-4b", (hard,))
    assert config.load("games-4b", (hard, "play.max_turns=26")).design.difficulties == (("hard", 26),)
    with pytest.raises(ConfigError, match=r"design\.difficulties"):
        config.load("games-4b", ('design.difficulties=[["hard", 0]]',))


def test_the_turns_that_a_prompt_shows_are_apart_from_those_of_a_play_and_no_more():
    games = config.load("games-4b")
    assert (games.design.max_turns, games.play.max_turns) == (12, 25)
    assert config.load("games-4b", ("design.max_turns=25",)).design.max_turns == 25
    with pytest.raises(ConfigError, match=r"^design\.max_turns: .*26 turns, over play\.max_turns = 25"):
        config.load("games-4b", ("design.max_turns=26",))
    assert config.load("tools-4b", ("design.max_turns=26", "design.corpus=builtin")).design.max_turns == 26
    assert config.load("nano", ("play.max_turns=4",)).play.max_turns == 4


def test_a_cosine_needs_steps_to_fall_over():
    config.load("nano", ("learner.schedule=cosine", "learner.warmup_steps=8", "learner.schedule_steps=10"))
    config.load("nano", ("learner.schedule=constant", "learner.warmup_steps=8", "learner.schedule_steps=9"))
    with pytest.raises(ConfigError, match=r"^learner\.schedule_steps: "):
        config.load("nano", ("learner.schedule=cosine", "learner.warmup_steps=8", "learner.schedule_steps=9"))


def test_a_constant_learning_rate_may_be_under_lr_min():
    config.load("nano", ("learner.schedule=constant", "learner.lr=1e-5", "learner.lr_min=3e-5"))


def test_checkpoints_are_sharded_where_processes_share_a_model_without_an_adapter():
    sharded = ("learner.checkpoint=sharded", "learner.backend=deepspeed")
    assert config.load("nano", sharded).learner.checkpoint == "sharded"
    with pytest.raises(ConfigError, match=r"^learner\.checkpoint: .* checkpoints are whole"):
        config.load("nano", (*sharded, "learner.lora_rank=4"))


def test_overrides_are_typed_like_the_file():
    loaded = config.load("nano", ("learner.lr=1e-4", "model.path=/some/folder", "run.seed=7", "reward.shrink=true"))
    assert loaded.learner.lr == 1e-4
    assert loaded.model.path == "/some/folder"
    assert loaded.run.seed == 7
    assert loaded.reward.shrink is True
    assert config.load("nano", ("actors.agents=2..16",)).actors.agents_bounds == (2, 16)


def test_a_missing_or_broken_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match="nowhere"):
        config.load("nowhere")
    broken = tmp_path / "broken.toml"
    broken.write_text("[learner\n")
    with pytest.raises(ConfigError, match=r"broken\.toml"):
        config.load(str(broken))


def test_digest_covers_meaning_alone():
    base = config.load("nano")
    assert config.compute_digest(config.load("nano", ("learner.lr=1e-4", "actors.agents=4"))) == config.compute_digest(
        base
    )
    assert config.compute_digest(config.load("nano", ("reward.regret_scale=0.2",))) != config.compute_digest(base)
    assert config.compute_digest(config.load("nano", ("run.seed=1",))) != config.compute_digest(base)


@given(
    st.floats(min_value=1e-9, max_value=1.0),
    st.integers(8, 9_000),
    st.text(min_size=1, max_size=30).filter(str.isprintable),
)
def test_dump_is_exact_for_any_value(tmp_path_factory, lr, sequences, path):
    base = config.load("nano", ("learner.schedule=constant",))
    other = changed(base, learner={"lr": lr, "batch_sequences": sequences}, model={"path": path})
    file = tmp_path_factory.mktemp("config") / "resolved.toml"
    file.write_text(config.dump(other), encoding="utf-8")
    assert config.load(str(file)) == other


@pytest.mark.parametrize("override", ["play.max_turns=\udcff", "pl\udcffay.max_turns=1", 'run.skills=["\udcff"]'])
def test_an_override_that_is_no_text_is_refused_in_one_line(override):
    with pytest.raises(ConfigError, match=r"--set '.*udcff.*': is not UTF-8 text"):
        config.load("nano", (override,))


def test_a_setting_behind_the_value_of_an_override_is_not_dropped_unseen():
    with pytest.raises(ConfigError, match=r"play.max_turns: .* a whole number"):
        config.load("nano", ("play.max_turns=3\ndesign.attempts=2",))
    assert config.load("nano", ("play.max_turns=3 # a few",)).play.max_turns == 3


def test_skills_are_those_of_the_domain_unless_some_are_named():
    assert config.load("games-4b").run.skills == config.SKILLS
    tools = config.load("games-4b", ("run.domain=tools",))
    assert tools.run.skills == config.DOMAINS["tools"].skills
    assert not set(tools.run.skills) & set(config.SKILLS)
    assert config.load("games-4b", ("run.domain=tools", 'run.skills=["tool selection"]', "design.active_skills=1"))
    assert config.compute_digest(tools) != config.compute_digest(config.load("games-4b"))


@pytest.mark.parametrize(("override", "says"), [
    ("run.skills=['optimization']", "run.skills: 'optimization' is not a skill of run.domain = 'tools'"),
    ("play.thoughts=strip", "play.thoughts: 'strip' does not fit run.domain = 'tools'"),
    ("tools.calls_per_turn=65", "tools.calls_per_turn: must be a whole number from 1 to 64"),
])  # fmt: skip
def test_a_domain_refuses_what_it_does_not_have(override, says):
    with pytest.raises(ConfigError) as caught:
        config.load("games-4b", ("run.domain=tools", override))
    assert says in str(caught.value)


@pytest.mark.parametrize("kind", ["progress", "finding"])
def test_a_reward_for_the_change_of_the_win_rate_needs_an_instance_for_each_play(kind):
    """With one instance a chunk, the change would show which instances are easy."""
    grouped = (f"reward.kind={kind}", "play.instances=group")
    with pytest.raises(ConfigError, match=r"play\.instances: reward\.kind = "):
        config.load("nano", grouped)
    config.load("nano", (*grouped, "design.source=pool", "pool.source=folder:pools/nano"))
    config.load("nano", ("play.instances=group",))


@pytest.mark.parametrize("setting", ["design.max_tokens=4000", 'design.difficulties=[["hard", 30]]'])
def test_a_run_of_a_pool_is_not_refused_for_settings_of_designs(setting):
    """It designs nothing, so a small model's recipe needs none of them."""
    full = ("model.profile=full", "engine.context_tokens=512", "play.max_turns=12", "evaluation.suite=")
    pool = ("design.source=pool", "pool.source=folder:pools/nano")
    config.load("nano", (*full, *pool, setting, "design.reviews=1"))
    with pytest.raises(ConfigError, match=r"design\."):
        config.load("nano", (*full, setting, "design.reviews=1"))


def test_examples_are_pairs_and_for_games():
    shown = 'play.examples=[["2 + 3?", "\\n5"]]'
    assert config.load("nano", (shown,)).play.examples == (("2 + 3?", "\n5"),)
    with pytest.raises(ConfigError, match=r"play\.examples"):
        config.load("nano-tools", (shown,))
    with pytest.raises(ConfigError, match=r"play\.examples"):
        config.load("nano", ('play.examples=[["2 + 3?"]]',))
