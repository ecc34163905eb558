"""Settings that earlier versions had: an old config that means the same still loads, any other says what to do."""

import tomllib

import pytest
import tomli_w

from spade import config
from spade.config import RETIRED
from spade.errors import ConfigError


def with_settings(values):
    """The nano recipe as a run keeps it, with more settings."""
    tree = tomllib.loads(config.dump(config.load("nano")))
    for setting, value in values.items():
        section, field = setting.split(".")
        tree.setdefault(section, {})[field] = value
    return tree


@pytest.mark.parametrize("which", [0, -1])
def test_a_run_of_an_earlier_version_loads(which, tmp_path):
    old = with_settings({setting: retired.was[which] for setting, retired in RETIRED.items()})
    (tmp_path / "config.toml").write_text(tomli_w.dumps(old))
    assert config.load(str(tmp_path)) == config.config_of(old) == config.load("nano")


@pytest.mark.parametrize("setting", RETIRED)
def test_another_value_of_a_retired_setting_is_refused_by_its_path(setting, tmp_path):
    file = tmp_path / "old.toml"
    file.write_text(tomli_w.dumps(with_settings({setting: 0.123})))
    with pytest.raises(ConfigError, match=rf"^{file}: {setting}: is no longer a setting"):
        config.load(str(file))
    with pytest.raises(ConfigError, match=rf"^nano: {setting}: is no longer a setting"):
        config.load("nano", (f"{setting}=0.123",))


def test_no_retired_setting_is_a_setting():
    for section, table in tomllib.loads(config.dump(config.Config())).items():
        assert not [field for field in table if f"{section}.{field}" in RETIRED]


def test_the_digest_of_a_run_is_the_one_that_earlier_versions_wrote():
    assert config.compute_digest(config.load("nano")) == "6eefd8fb2039e17b645a83b25fb0f064"
