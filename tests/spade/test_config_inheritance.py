"""Configs that extend others: how they merge, what is refused, and which file a wrong setting is put down to."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spade import config
from spade.config.inheritance import read_merged
from spade.errors import ConfigError


def write(folder, **files):
    for name, text in files.items():
        folder.joinpath(f"{name}.toml").write_text(text)
    return [str(folder / f"{name}.toml") for name in files]


def refused(name, *overrides):
    with pytest.raises(ConfigError) as caught:
        config.load(name, overrides)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_config_over_a_recipe_differs_in_what_it_states_alone(tmp_path):
    (file,) = write(
        tmp_path, own='extends = "games-4b"\n[learner]\nlr = 2e-6\n[design]\ndifficulties = [["hard", 4]]\n'
    )
    base, own = config.load("games-4b"), config.load(file)
    assert config.list_differences(base, own) == {
        "learner.lr": (1e-6, 2e-6),
        "design.difficulties": (base.design.difficulties, (("hard", 4),)),
    }
    assert own.learner.gpus == base.learner.gpus != ()
    assert "extends" not in config.dump(own)


def test_a_chain_has_the_nearest_value_and_paths_are_relative_to_their_file(tmp_path, monkeypatch):
    (tmp_path / "far" / "bases").mkdir(parents=True)
    write(tmp_path / "far" / "bases", first="[learner]\nlr = 1e-3\nlr_min = 1e-5\nwarmup_steps = 7\n")
    write(tmp_path / "far", second='extends = "bases/first.toml"\n[learner]\nlr = 2e-3\nlr_min = 2e-5\n')
    (file,) = write(tmp_path, third='extends = "far/second.toml"\n[learner]\nlr = 3e-3\n')
    monkeypatch.chdir(tmp_path / "far")
    learner = config.load(file, ("learner.schedule_steps=50",)).learner
    assert (learner.lr, learner.lr_min, learner.warmup_steps, learner.schedule_steps) == (3e-3, 2e-5, 7, 50)


def test_a_run_directory_stands_for_its_config(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.toml").write_text(config.dump(config.load("nano", ("learner.lr=1e-3",))))
    (file,) = write(tmp_path, own='extends = "run"\n[learner]\nwarmup_steps = 3\n')
    assert config.load(str(tmp_path / "run")).learner.lr == 1e-3
    assert config.load(file).learner == config.load("nano", ("learner.lr=1e-3", "learner.warmup_steps=3")).learner


def test_a_file_may_begin_with_a_byte_order_mark_and_end_its_lines_as_windows_does(tmp_path):
    file = tmp_path / "a.toml"
    file.write_bytes(b'\xef\xbb\xbfextends = "nano"\r\n[learner]\r\nlr = 1e-3\r\n')
    assert config.load(str(file)).learner == config.load("nano", ("learner.lr=1e-3",)).learner


@pytest.mark.parametrize(("texts", "says"), [
    ({"a": 'extends = "b.toml"', "b": 'extends = "a.toml"'}, r"b\.toml: extends goes round in a circle: .*a\.toml -> "),
    ({"a": 'extends = "a.toml"'}, r"a\.toml: extends goes round in a circle"),
    ({"a": 'extends = "games-5b"'}, r"a\.toml: extends 'games-5b': .*does not exist; .*games-4b"),
    ({"a": 'extends = "b.toml"', "b": 'extends = "no.toml"'}, r"b\.toml: extends 'no\.toml': "),
    ({"a": "extends = 4"}, r"a\.toml: extends: must be .*, is 4"),
    ({"a": 'extends = ""'}, r"a\.toml: extends: must be "),
    ({"a": 'extends = "x\\u0000y"'}, r"a\.toml: extends: must be "),
    ({"a": "[extends]\nbase = 1"}, r"a\.toml: extends: must be "),
    ({"a": 'extends = "b.toml"', "b": "[learner"}, r"b\.toml: is not TOML"),
    ({"a": 'extends = "b.toml"', "b": ""}, r"b\.toml: is empty; "),
    ({"a": 'extends = "."'}, "Is a directory"),
])  # fmt: skip
def test_a_base_that_cannot_be_is_refused_in_one_line(tmp_path, texts, says):
    assert re.search(says, refused(write(tmp_path, **texts)[0]))


def test_a_wrong_setting_is_put_down_to_the_file_that_set_it(tmp_path):
    base, own = write(
        tmp_path,
        base='extends = "nano"\n[learner]\nlr = "fast"\n',
        own='extends = "base.toml"\n[reward]\nanchor_low = 0.3\n',
    )
    assert refused(own).startswith(f"{base}: learner.lr: must be a number")
    assert refused(own, "learner.lr=slow").startswith(f"{own}: learner.lr: must be a number")
    (tmp_path / "base.toml").write_text("[lerner]\nlr = 1\n")
    assert refused(own).startswith(f"{base}: unknown setting lerner;")
    (tmp_path / "base.toml").write_text("[reward]\nanchor_high = 0.2\n")
    line = refused(own)
    assert line.startswith("reward.anchor_low: 0.3 is over reward.anchor_high = 0.2 (")
    assert f"reward.anchor_low is set in {own}" in line
    assert f"reward.anchor_high is set in {base}" in line


SETTINGS = st.dictionaries(st.sampled_from("ab"), st.dictionaries(st.sampled_from("xyz"), st.integers(0, 9)))


@given(layers=st.lists(SETTINGS, min_size=1, max_size=4))
def test_each_setting_has_the_value_of_the_nearest_file_that_states_it(tmp_path_factory, layers):
    folder = tmp_path_factory.mktemp("chain")
    for number, layer in enumerate(layers):
        extends = f'extends = "{number + 1}.toml"\n' if number + 1 < len(layers) else ""
        tables = "".join(f"[{name}]\n" + "".join(f"{k} = {v}\n" for k, v in t.items()) for name, t in layer.items())
        (folder / f"{number}.toml").write_text(f"# layer {number}\n{extends}{tables}")
    merged = read_merged(str(folder / "0.toml"))
    for section in "ab":
        for field in "xyz":
            stating = [n for n, layer in enumerate(layers) if field in layer.get(section, {})]
            found = merged.tree.get(section, {}).get(field)
            assert found == (layers[stating[0]][section][field] if stating else None)
            if stating:
                assert merged.origins[f"{section}.{field}"].endswith(f"{stating[0]}.toml")


def test_the_second_stage_at_4b_changes_band_and_context_alone():
    changes = config.list_differences(config.load("games-4b"), config.load("games-4b-stage2"))
    assert {setting: now for setting, (_, now) in changes.items()} == {
        "play.context_tokens": 49_152, "engine.context_tokens": 49_152,
        "reward.anchor_low": 0.2, "reward.anchor_high": 0.4, "bus.max_message_bytes": 100_663_296,
    }  # fmt: skip
