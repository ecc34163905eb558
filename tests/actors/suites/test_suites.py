"""Suites that make their items themselves, and what all suites have in common."""

import ast
from collections import Counter
from importlib import metadata

import msgspec
import pytest

from actors.sandbox.inside.libraries import LIBRARIES
from actors.suites import SUITES, resolve
from actors.suites.answers import READERS
from actors.suites.harnesses import HARNESSES
from actors.suites.reasoning_gym import HARD, SMALL
from spade.config.suites import HARNESS_SUITES, SUITE_TRAITS
from spade.errors import ConfigError, RunError
from spade.evaluations import Protocol, sample_seed
from spade.policy.model_folder import NANO, SHIPPED
from spade.protocol import Observed
from spade.tokens import Tokenizer

MADE = [name for name, suite in SUITES.items() if not suite.columns]
PROTOCOLS = [(suite, protocol) for suite in SUITES.values() for protocol in suite.protocols.values()]


def played(name, of):
    protocol = SUITES[name].protocol(of)
    sampling = protocol.sampling
    return protocol.samples, sampling.temperature, sampling.top_p, sampling.top_k, sampling.max_tokens


@pytest.mark.parametrize(
    ("name", "of", "numbers"),
    [
        ("aime25", "paper", (32, 0.7, 0.8, 20, 32_768)),
        ("aime26", "paper", (32, 0.7, 0.8, 20, 32_768)),
        ("aime25", "release", (64, 1.0, 0.95, 20, 32_768)),
        ("gpqa-diamond", "paper", (2, 0.7, 0.8, 20, 16_384)),
        ("gpqa-diamond", "release", (8, 0.7, 0.95, 0, 16_384)),
        ("livecodebench-v6", "paper", (1, 0.7, 0.8, 20, 16_384)),
        ("livecodebench-v6", "release", (1, 0.2, 0.95, 0, 16_384)),
        ("reasoning-gym-hard", "paper", (1, 0.6, 0.8, 20, 8_192)),
        ("reasoning-gym-hard", "release", (1, 0.6, 0.8, 20, 8_192)),
    ],
)
def test_protocols_have_the_numbers_of_the_paper_and_of_its_release(name, of, numbers):
    assert played(name, of) == numbers


@pytest.mark.parametrize(("suite", "protocol"), PROTOCOLS, ids=lambda each: each.name)
def test_a_protocol_is_valid_and_stands_under_its_name(suite, protocol):
    assert suite.protocols[protocol.name] is protocol
    assert msgspec.convert(msgspec.to_builtins(protocol), Protocol) == protocol
    assert protocol.grading in READERS


@pytest.mark.parametrize("name", MADE)
def test_items_are_valid_programs_with_names_of_their_own(name):
    protocol = SUITES[name].protocol("short")
    items = SUITES[name].items(protocol)
    assert items == SUITES[name].items(protocol)
    assert len({item.name for item in items}) == len(items)
    for source in {item.program for item in items}:
        assert any(isinstance(each, ast.ClassDef) for each in ast.parse(source).body)


def test_the_hard_suite_has_four_items_of_each_of_a_hundred_data_sets():
    assert {category: len(datasets) for category, datasets in HARD.items()} == {
        "mathematics": 31, "algorithmic": 36, "cognition": 24, "logic": 9,
    }  # fmt: skip
    suite = SUITES["reasoning-gym-hard"]
    items = suite.items(suite.protocol("paper"))
    assert Counter(Counter(item.name.partition("/")[0] for item in items).values()) == {4: 100}
    assert [item.name for item in items if item.name.startswith("number_sequence/")] == [
        f"number_sequence/{place}" for place in (432, 68, 489, 121)
    ]
    assert {item.seed for item in items} == {42}
    assert len(suite.items(suite.protocol("release"))) == 800


def test_the_small_suite_has_32_items_of_each_of_six_data_sets():
    suite = SUITES["reasoning-gym-nano"]
    items = suite.items(suite.protocol("paper"))
    assert Counter(Counter(item.category for item in items).values()) == {32: 6}


def test_the_transfer_suite_shares_no_data_set_with_the_trained_ones():
    suite = SUITES["reasoning-gym-transfer"]
    items = suite.items(suite.protocol("paper"))
    assert Counter(Counter(item.category for item in items).values()) == {32: 12}
    assert not {item.category for item in items} & set(SMALL)


def test_a_package_of_another_version_is_played_by_short_alone(monkeypatch):
    suite = SUITES["reasoning-gym-hard"]
    monkeypatch.setattr(metadata, "version", lambda _: "0.1.25")
    with pytest.raises(ConfigError, match=r"reasoning-gym 0.1.25 is installed, and the protocol paper needs 0.1.23"):
        suite.versions(suite.protocol("paper"))
    assert suite.versions(suite.protocol("short")) == {"reasoning-gym": "0.1.25"}


def test_a_missing_package_is_one_line_with_its_remedy(monkeypatch):
    def missing(_):
        raise metadata.PackageNotFoundError

    monkeypatch.setattr(metadata, "version", missing)
    suite = SUITES["gem"]
    with pytest.raises(ConfigError, match=r"suite gem: needs gem-llm 0.1.0: pip install --no-deps gem-llm==0.1.0"):
        suite.versions(suite.protocol("short"))


def test_a_suite_without_a_protocol_says_which_it_has():
    with pytest.raises(ConfigError, match="suite gem: has no protocol 'release'; it has paper, short"):
        SUITES["gem"].protocol("release")


def test_an_evaluation_is_resolved_to_its_rules_and_samples():
    suite = SUITES["nano"]
    plan = resolve(suite, suite.protocol("short"), "ab" * 16, 3, most=5)
    assert (plan.rules.items, len(plan.items), len(plan.scheduled)) == (5, 5, 5)
    assert plan.rules == resolve(suite, suite.protocol("short"), "ab" * 16, 3, most=5).rules
    other = resolve(suite, suite.protocol("short"), "ab" * 16, 3, most=4)
    assert plan.rules.items_digest != other.rules.items_digest


def test_a_play_of_a_suite_opens_with_its_prompt_and_no_message_of_the_system():
    protocol = SUITES["aime25"].protocol("paper")
    chat_format = SUITES["aime25"].chat_formats(protocol, None)()
    (message,) = chat_format.open(Observed("What is {x}?"), None).messages
    assert message.role == "user"
    assert message.content == protocol.ask("What is {x}?")
    assert message.content.startswith("What is {x}?\n")
    assert chat_format.act(r"It is \boxed{3}.").action == "3"
    assert chat_format.turn(Observed("Go on."), chat_format.act(""))[0].content == "Go on."


@pytest.mark.parametrize("name", SUITES)
def test_every_suite_has_a_chat_format_for_each_protocol(name):
    suite, tokenizer = SUITES[name], Tokenizer.load(SHIPPED["nano-tools"])
    for protocol in suite.protocols.values():
        assert suite.chat_formats(protocol, tokenizer)().act("\\boxed{1}") is not None


def test_a_suite_with_tools_refuses_a_checkpoint_without():
    suite = SUITES["nano-tools"]
    with pytest.raises(RunError, match=r"^suite nano-tools: .* drops the tools"):
        suite.chat_formats(suite.protocol("short"), Tokenizer.load(NANO))


def test_the_kernel_knows_of_each_suite_its_library_and_that_it_needs_a_file():
    assert SUITE_TRAITS.keys() == SUITES.keys()
    assert not SUITES.keys() & set(HARNESS_SUITES)
    assert HARNESSES.keys() == set(HARNESS_SUITES)
    for name, suite in SUITES.items():
        assert SUITE_TRAITS[name].given == bool(suite.columns)
        if name in MADE:
            (item, *_) = suite.items(suite.protocol("short"))
            classes = LIBRARIES[suite.library].classes if suite.library else ()
            assert any(f"({each})" in item.program for each in classes) == (suite.library is not None)


def test_samples_are_seeded_by_all_that_names_them():
    seeds = {sample_seed(*each) for each in [("s", "i", 0, 0), ("t", "i", 0, 0), ("s", "j", 0, 0), ("s", "i", 1, 0)]}
    assert len(seeds) == 4
    assert sample_seed("s", "i", 0, 0) == sample_seed("s", "i", 0, 0) != sample_seed("s", "i", 0, 1)
