"""Every bound of every setting: the value beside it is refused by the setting's path, the value on it is not."""

import math
import re

import msgspec
import pytest
import tomli_w
from msgspec import inspect

from spade import config
from spade.config.allowed import describe_allowed, list_fields
from spade.errors import ConfigError


def numbers(type_):
    """Pairs (refused, allowed) of values at the bounds of a number; `allowed` None where a bound itself is refused."""
    if isinstance(type_, inspect.IntType):
        return [(type_.ge - 1, type_.ge), (type_.le + 1, type_.le)]
    least = (type_.gt, None) if type_.ge is None else (math.nextafter(type_.ge, -math.inf), float(type_.ge))
    most = (type_.lt, None) if type_.le is None else (math.nextafter(type_.le, math.inf), float(type_.le))
    return [least, most, *((value, None) for value in (math.nan, math.inf, -math.inf))]


def at_bounds(type_, sample):
    """Pairs (refused, allowed) of values of any type; `sample` is an allowed one."""
    match type_:
        case inspect.IntType() | inspect.FloatType():
            return numbers(type_)
        case inspect.UnionType(types=types):
            return [pair for each in types for pair in at_bounds(each, sample)]
        case inspect.LiteralType(values=values):
            return [("none of these" if isinstance(values[0], str) else max(values) + 1, None)]
        case inspect.VarTupleType(item_type=item, min_length=least):
            pairs = at_bounds(item, sample[0] if sample else None)
            return [([bad], good if good is None else [good]) for bad, good in pairs] + ([([], None)] if least else [])
        case inspect.TupleType(item_types=items):
            sample = sample or [None] * len(items)
            return [
                tuple(value if value is None else [*sample[:at], value, *sample[at + 1 :]] for value in pair)
                for at, item in enumerate(items)
                for pair in at_bounds(item, sample[at])
            ]
        case inspect.DictType(key_type=inspect.LiteralType(values=(name, *_)), value_type=value):
            return [({name: bad}, None if good is None else {name: good}) for bad, good in at_bounds(value, None)]
        case inspect.DictType(value_type=value):
            return [({"x": bad}, None if good is None else {"x": good}) for bad, good in at_bounds(value, None)]
        case inspect.StrType(pattern=pattern):
            return [] if pattern is None else [(" ", None)]
    return []


SETTINGS = {
    (name, setting): at_bounds(field.type, field.default)
    for name in config.Config.__struct_fields__
    for setting, field in list_fields(type(getattr(config.Config(), name))).items()
}
BOUNDED = {path: pairs for path, pairs in SETTINGS.items() if pairs}


@pytest.mark.parametrize(("section", "setting"), BOUNDED)
def test_a_value_beside_a_bound_is_refused_by_its_path_in_a_file_and_by_set(section, setting, tmp_path):
    file = tmp_path / "recipe.toml"
    for refused, _ in BOUNDED[section, setting]:
        text = (
            f"{setting} = {config.format_inline(refused)}"
            if isinstance(refused, dict)
            else tomli_w.dumps({setting: refused})
        )
        file.write_text(f"[{section}]\n{text}")
        with pytest.raises(ConfigError, match=rf"^{re.escape(str(file))}: {section}\.{setting}: must be [^\n]+, is "):
            config.load(str(file))
        with pytest.raises(ConfigError, match=rf"^nano: {section}\.{setting}: must be [^\n]+, is "):
            config.load("nano", (f"{section}.{text.strip()}",))


@pytest.mark.parametrize(("section", "setting"), BOUNDED)
def test_a_value_on_a_bound_is_within_it(section, setting):
    for _, good in BOUNDED[section, setting]:
        if good is not None:
            msgspec.convert({section: {setting: good}}, config.Config)


def test_no_number_is_without_bounds():
    """`numbers` above would fail on one; a text, a truth or a tuple of texts has none."""
    plain = [path for path in SETTINGS if path not in BOUNDED]
    defaults = [getattr(getattr(config.Config(), section), setting) for section, setting in plain]
    assert all(isinstance(default, str | bool) or default == () for default in defaults)  # of texts


def test_defaults_are_within_their_bounds():
    assert msgspec.convert(msgspec.to_builtins(config.Config()), config.Config) == config.Config()


@pytest.mark.parametrize(("path", "words"), [
    ("learner.lr", "a number over 0, at most 2_147_483_647"),
    ("loss.clip_low", "a number over 0, under 1"),
    ("sandbox.random_win_share", "a number from 0 to 1"),
    ("play.group_size", "a whole number from 2 to 2_147_483_647"),
    ("run.seed", "a whole number from 0 to 9_223_372_036_854_775_807 or left out"),
    ("actors.agents", 'a whole number from 0 to 256 or a range such as "1..8"'),
    ("learner.zero_stage", "0, 1, 2 or 3"),
    ("engine.gpus", "a list, each a whole number from 0 to 2_147_483_647"),
])  # fmt: skip
def test_the_values_of_a_setting_have_words(path, words):
    section, setting = path.split(".")
    assert describe_allowed(list_fields(type(getattr(config.Config(), section)))[setting].type) == words


def test_a_refused_value_is_shown_in_bounds():
    for value in ("0x" + "f" * 10_000, "[" + "1," * 10_000 + "]"):
        with pytest.raises(ConfigError, match=r"nano: learner\.processes: must be ") as caught:
            config.load("nano", (f"learner.processes={value}",))
        assert len(str(caught.value)) < 500
