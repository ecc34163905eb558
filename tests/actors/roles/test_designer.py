import functools
import re
import textwrap

import msgspec
import pytest

from actors import corpus
from actors.nano.games import GAMES
from actors.roles import designer
from actors.text.design_prompt import fit_prompt
from actors.text.prompts import FullProfile
from spade import config, protocol
from spade.codec import unpack_ids, unpack_mask
from spade.errors import ConfigError
from tests.actors.small_services import (
    VERSION,
    SmallReplay,
    acting,
    actor_settings,
    process,
    says,
    service,
    small_replay,
)
from tests.hostile import frames
from tests.peers import changed

# A code of two digits of which each guess tells how many are in place: sound, and not to be won by chance.
GOOD = """\
import random


class VaultEnv:
    def __init__(self, max_turns=4):
        self.left = max_turns
        self.code = 0

    def reset(self, seed):
        self.code = random.Random(seed).randint(10, 99)
        return "Open the vault. Actions: 10..99", {}

    def step(self, action):
        self.left -= 1
        if action == str(self.code):
            return "Open.", 1.0, True, False, {}
        near = sum(a == b for a, b in zip(action, str(self.code)))
        done = self.left <= 0
        return f"{near} in place. Actions: 10..99", 0.2 * min(near, 1), done, False, {}

    def solution(self):
        return [str(self.code)]
"""
CRASHES = GOOD.replace("self.left -= 1", "self.left /= 0")
SKILL = "logical deduction"
FRAME_AT_STEP = "arrays before the tag, at step"
DOCUMENTS = corpus.load("builtin")


@pytest.fixture
def settings(tmp_path, tokenizer):
    return actor_settings(
        tmp_path, "design.max_tokens=1000", "design.hint_max_tokens=40", "design.attempts=3",
        "engine.context_tokens=4000", "sandbox.load_s=60.0", "sandbox.step_s=60.0", "supervise.drain_s=60.0",
    )  # fmt: skip


def job(number=0, **fields) -> protocol.DesignJob:
    return protocol.DesignJob(f"j{number}", 1, 0, SKILL, draw=len(DOCUMENTS) + number, sampler=77 + number, **fields)


def script(*drafts, hint="Use what is in place."):
    """An engine's words: one draft after the other, and the same hint each time one is asked for."""
    left = list(drafts)
    return lambda prompt: hint if "Hint for:" in prompt else left.pop(0)


designing = functools.partial(acting, designer, "designer")


async def test_a_job_ends_with_an_environment_its_hint_and_the_designers_tokens(settings, tokenizer):
    small = SmallReplay(jobs=[job(3)])
    async with designing(small, settings, tokenizer, script(GOOD)) as asked:
        await small.until_done(1)
    (submitted,) = small.done
    assert isinstance(submitted, protocol.SubmitEnvironment)
    assert (submitted.job, submitted.lease, submitted.attempt, submitted.name) == ("j3", 1, 1, "VaultEnv")
    assert submitted.document == DOCUMENTS[3].id
    assert submitted.source == GOOD
    assert submitted.hint == "Use what is in place."
    assert submitted.measures == protocol.Measures(lines=17, hidden_variables=1)  # the code
    assert submitted.first_observation == "Open the vault. Actions: 10..99"

    prompt = tokenizer.prompt_ids(GAMES.profile.design(SKILL, DOCUMENTS[3], (), None))
    said = tokenizer.encode(GOOD + "<|im_end|>")
    trajectory = submitted.trajectory
    assert unpack_ids(trajectory.ids).tolist() == prompt + said
    assert unpack_mask(trajectory).tolist() == [0] * len(prompt) + [1] * len(said)
    assert trajectory.versions == ((VERSION, len(said)),)
    assert trajectory.temperature == settings.design.temperature
    assert (submitted.shown, submitted.repairs) == ((), ())
    assert [request.max_tokens for request in asked] == [settings.design.max_tokens, settings.design.hint_max_tokens]


async def test_no_hint_is_asked_for_where_nothing_is_played_with_one(settings, tokenizer):
    small = SmallReplay(jobs=[job()])
    unhinted = changed(settings, reward={"kind": "win_rate"})
    async with designing(small, unhinted, tokenizer, script(GOOD)) as asked:
        await small.until_done(1)
    (submitted,) = small.done
    assert (submitted.source, submitted.hint) == (GOOD, "")
    assert [request.max_tokens for request in asked] == [settings.design.max_tokens]


async def test_without_a_corpus_no_attempt_has_a_document(settings, tokenizer):
    small = SmallReplay(jobs=[job(1)])
    bare = changed(settings, design={"corpus": "none"}, model={"profile": "full"}, engine={"context_tokens": 40_000})
    written = iter(["no program here", f"```python\n{GOOD}```"])
    async with designing(small, bare, tokenizer, lambda _: next(written, "Use what is in place.")) as asked:
        await small.until_done(2)
    assert [(type(done).__name__, done.document) for done in small.done] == [
        ("RejectCandidate", ""),
        ("SubmitEnvironment", ""),
    ]
    expected = tokenizer.prompt_ids(FullProfile(bare.design, bare.play).design(SKILL, None, (), None, job(1).draw))
    assert [unpack_ids(request.prompt).tolist() for request in asked[:2]] == [expected, expected]
    assert "<text>" not in tokenizer.decode(expected)


async def test_an_environment_is_handed_in_as_it_was_written_with_the_repairs_it_needs(settings, tokenizer):
    forgot = GOOD.replace('return "Open the vault.', 'return f"Open the vault, {digits}.')
    draft = f"Here it is.\n  ```python\n{textwrap.indent(forgot, '  ')}"
    instruct = changed(settings, model={"profile": "full"}, engine={"context_tokens": 40_000})
    written = iter([draft])
    small = SmallReplay(jobs=[job()])
    async with designing(small, instruct, tokenizer, lambda _: next(written, "Use what is in place.")):
        await small.until_done(1)
    (submitted,) = small.done
    assert isinstance(submitted, protocol.SubmitEnvironment), submitted.reason
    assert submitted.source == forgot
    assert submitted.repairs == ("fences", "f-string braces")
    assert submitted.first_observation == "Open the vault, {digits}. Actions: 10..99"
    assert tokenizer.decode(unpack_ids(submitted.trajectory.ids).tolist()).endswith(draft)


async def test_programs_that_write_broken_frames_are_rejected_and_the_env_runner_lives_on(settings, tokenizer):
    hostile = [each for each in frames.PROGRAMS if each.name in ("bad UTF-8 in the nonce, at import", FRAME_AT_STEP)]
    small = SmallReplay(jobs=[job()])
    long = changed(settings, design={"max_tokens": 3000})
    async with designing(small, long, tokenizer, script(*(each.source for each in hostile), GOOD)):
        await small.until_done(3)
    *rejected, submitted = small.done
    for reject in rejected:
        assert isinstance(reject, protocol.RejectCandidate)
        assert reject.reason.startswith("protocol: the answer does not decode: ")
    assert isinstance(submitted, protocol.SubmitEnvironment)


async def test_a_program_over_which_two_env_runners_ended_is_rejected_with_the_reason(settings, tokenizer):
    asked = []

    def runner(request):
        asked.append(request)
        return protocol.Refused("Validate ended in an unforeseen KeyError: 'x'", unforeseen=True)

    small = SmallReplay(jobs=[job()])
    async with designing(small, settings, tokenizer, script(CRASHES, "none", "none"), runner):
        await small.until_done(1)
    (rejected, *_) = small.done
    assert (rejected.stage, rejected.attempt, rejected.completion) == ("contain", 1, CRASHES)
    assert rejected.reason.startswith("an env-runner crashed or failed 2 times while it served Validate: ")
    assert asked == [asked[0]] * 2


async def test_failed_attempts_are_kept_with_stage_and_reason(settings, tokenizer):
    drafts = ("no program here", CRASHES, GOOD)
    small = SmallReplay(jobs=[job()])
    async with designing(small, settings, tokenizer, script(*drafts)) as asked:
        await small.until_done(3)
    extract, fault, submitted = small.done
    assert (extract.stage, extract.attempt, extract.completion, extract.last) == ("extract", 1, drafts[0], False)
    assert (fault.stage, fault.attempt, fault.completion, fault.last) == ("episode", 2, CRASHES, False)
    assert "ZeroDivisionError" in fault.reason
    assert unpack_ids(fault.trajectory.ids).tolist()[-1] in tokenizer.end_ids
    assert isinstance(submitted, protocol.SubmitEnvironment)
    assert submitted.attempt == 3
    assert len({request.seed for request in asked}) == 4
    assert [done.document for done in small.done] == [document.id for document in DOCUMENTS[:3]]
    prompts = [unpack_ids(request.prompt).tolist() for request in asked[:3]]
    profile = GAMES.profile
    assert prompts == [tokenizer.prompt_ids(profile.design(SKILL, document, (), None)) for document in DOCUMENTS[:3]]


async def test_a_design_says_which_examples_were_shown(settings, tokenizer):
    examples = (memory("Small"), memory("Big", 4_000))
    small = SmallReplay(jobs=[job(0, seeds=examples, avoid=AVOID), job(1, seeds=examples[1:])])
    async with designing(small, settings, tokenizer, lambda prompt: "Go." if "Hint for:" in prompt else GOOD):
        await small.until_done(2)
    assert {done.job: done.shown for done in small.done} == {"j0": ("Small", "Avoid"), "j1": ()}


async def test_the_last_failure_closes_the_job(settings, tokenizer):
    small = SmallReplay(jobs=[job(seeds=(memory("Small"),))])
    async with designing(small, settings, tokenizer, script("x", "x" * 2000, GOOD, hint=" ")):
        await small.until_done(3)
    assert all(isinstance(done, protocol.RejectCandidate) for done in small.done)
    assert [(done.stage, done.last) for done in small.done] == [("extract", False), ("length", False), ("hint", True)]
    assert all(done.reason for done in small.done)
    assert all(done.shown == ("Small",) for done in small.done)
    assert small.work == []


async def test_a_hint_that_is_too_long_for_the_leases_of_plays_is_none(settings, tokenizer, monkeypatch):
    monkeypatch.setattr(designer, "MOST_HINT", 9)
    small = SmallReplay(jobs=[job()])
    async with designing(small, settings, tokenizer, script(GOOD, GOOD, GOOD, hint="Use it all")):
        await small.until_done(3)
    assert [(done.stage, done.reason) for done in small.done] == 3 * [("hint", "it is over 9 characters")]


async def test_a_hint_that_was_cut_is_none(settings, tokenizer):
    small = SmallReplay(jobs=[job()])
    cut = "Look at the digits that are in place, and keep"  # over hint_max_tokens
    async with designing(small, settings, tokenizer, script(GOOD, GOOD, GOOD, hint=cut)):
        await small.until_done(3)
    assert [(done.stage, done.last) for done in small.done] == [("hint", False), ("hint", False), ("hint", True)]
    assert "design.hint_max_tokens = 40" in small.done[0].reason


async def test_jobs_go_side_by_side(settings, tokenizer):
    small = SmallReplay(jobs=[job(number) for number in range(6)])
    async with designing(small, settings, tokenizer, lambda prompt: "Go on." if "Hint for:" in prompt else GOOD):
        await small.until_done(6)
    assert {done.job for done in small.done} == {f"j{number}" for number in range(6)}
    assert len({done.document for done in small.done}) == 6
    assert all(isinstance(done, protocol.SubmitEnvironment) for done in small.done)


async def test_services_in_trouble_give_the_job_back(settings, tokenizer):
    small = SmallReplay(jobs=[job()])
    hasty = changed(settings, design={"lease_s": 2.0})
    async with designing(small, hasty, tokenizer, lambda _: GOOD, lambda _: None):
        await small.until_done(1)
    assert small.done[0] == protocol.ReleaseDesign("j0", 1)


async def test_a_designer_told_to_leave_gives_its_jobs_back(settings, tokenizer):
    small = SmallReplay(jobs=[job(0), job(1)])
    asked = []

    def unanswered(request):
        assert isinstance(request, protocol.Validate)
        asked.append(request)

    async with (
        small_replay(small, settings) as replay,
        service("engine", "engine-0", replay, settings, says(tokenizer, lambda _: GOOD)),
        service("env-runner", "runner-0", replay, settings, unanswered),
        process(designer.run, "designer", replay, settings) as scope,
    ):
        await small.until(lambda: len(asked) == 2)
        scope.cancel()
    assert {(done.job, done.lease) for done in small.done} == {("j0", 1), ("j1", 1)}
    assert {type(done) for done in small.done} == {protocol.ReleaseDesign}


# ---------------------------------------------------------------- the budget of a prompt


def memory(name, size=10):
    return protocol.MemorySeed(name, f"class {name}Env:\n    pass  # {'x' * size}\n", 0.2, 0.5, "So so.")


SEEDS = (memory("Small"), memory("Big", 3000), memory("Other"))
AVOID = memory("Avoid")


PROFILE = FullProfile(config.Design(), config.Play())


@pytest.fixture
def prompted(tokenizer):
    document = DOCUMENTS[0]

    def text(room, *, seeds=SEEDS, avoid=AVOID):
        prompt = fit_prompt(PROFILE, tokenizer, job(seeds=seeds, avoid=avoid), document, room)
        assert len(prompt.ids) <= room
        said = tokenizer.decode(prompt.ids)
        assert prompt.shown == tuple(each.environment for each in (*SEEDS, AVOID) if f"{each.environment}Env" in said)
        return said

    def tokens(seeds, avoid):
        return len(tokenizer.prompt_ids(PROFILE.design(SKILL, document, seeds, avoid, job().draw)))

    return text, tokens


def test_all_examples_go_in_where_they_fit(prompted):
    text, tokens = prompted
    whole = text(tokens(SEEDS, AVOID))
    assert all(each.source.strip() in whole for each in (*SEEDS, AVOID))
    assert DOCUMENTS[0].text in whole


def test_an_example_that_does_not_fit_is_left_out_whole(prompted):
    text, tokens = prompted
    without = text(tokens((SEEDS[0], SEEDS[2]), AVOID))
    assert SEEDS[0].source.strip() in without
    assert SEEDS[2].source.strip() in without
    assert AVOID.source.strip() in without
    assert "BigEnv" not in without
    bare = text(tokens((), None), seeds=SEEDS[1:2], avoid=None)
    assert "BigEnv" not in bare
    assert DOCUMENTS[0].text in bare


def test_a_document_that_does_not_fit_is_cut_to_the_token(prompted, tokenizer):
    text, tokens = prompted
    room = tokens((), None) - 1
    cut = text(room, seeds=SEEDS[1:2], avoid=None)
    assert DOCUMENTS[0].text[:-1] in cut
    assert DOCUMENTS[0].text not in cut
    assert len(tokenizer.encode(cut)) <= room


def test_without_a_document_the_examples_have_all_the_room(tokenizer):
    room = len(tokenizer.prompt_ids(PROFILE.design(SKILL, None, SEEDS, AVOID, job().draw)))
    asked = job(seeds=SEEDS, avoid=AVOID)
    assert fit_prompt(PROFILE, tokenizer, asked, None, room).shown == ("Small", "Big", "Other", "Avoid")
    assert fit_prompt(PROFILE, tokenizer, asked, None, room - 1).shown == ("Small", "Big", "Other")


def test_a_prompt_without_room_is_a_clear_error(prompted):
    with pytest.raises(ConfigError, match=r"engine\.context_tokens"):
        prompted[0](100)


BYTES = 4
"""For each token of a large vocabulary, so that sizes are those of real runs; a token here is a byte."""


@pytest.mark.parametrize(("recipe", "programs"), [("games-4b", 3), ("games-30b", 3), ("games-8b", 2)])
@pytest.mark.parametrize("length", [2_000, 5_000, 40_000])
def test_a_long_document_leaves_half_of_the_room_to_the_examples(tokenizer, recipe, programs, length):
    settings = config.load(recipe)
    room = BYTES * (settings.engine.context_tokens - settings.design.max_tokens)
    long = msgspec.structs.replace(DOCUMENTS[0], text="word " * (BYTES * length // 5))
    examples = [memory(name, BYTES * 2_000) for name in ("One", "Two", "Three")]
    asked = job(seeds=tuple(examples[:2]), avoid=examples[2])
    prompt = fit_prompt(FullProfile(settings.design, settings.play), tokenizer, asked, long, room)
    assert programs <= len(prompt.shown) <= 3
    assert len(prompt.ids) <= room
    read = tokenizer.decode(prompt.ids).count("word ")
    # The document has its half at least, and what the examples leave of theirs.
    assert read == long.text.count("word ") or (read > BYTES * 4_500 // 5 and len(prompt.ids) > room - BYTES * 10)


def test_without_examples_the_document_has_all_the_room_and_a_short_one_leaves_it_all(tokenizer):
    long = msgspec.structs.replace(DOCUMENTS[0], text="word " * 10_000)
    alone = fit_prompt(PROFILE, tokenizer, job(), long, 20_000)
    assert 20_000 - 5 <= len(alone.ids) <= 20_000
    examples = tuple(memory(name, 2_500) for name in ("One", "Two", "Three"))
    asked = job(seeds=examples)
    assert fit_prompt(PROFILE, tokenizer, asked, DOCUMENTS[0], 20_000).shown == ("One", "Two", "Three")
    assert fit_prompt(PROFILE, tokenizer, asked, long, 20_000).shown == ("One", "Two")


def test_the_fixed_prompt_takes_a_small_part_of_the_room(tokenizer):
    """Characters are more than tokens of any large vocabulary: four to one in English and code, or nearly."""
    for share in (0.0, 1.0):
        bare = FullProfile(config.Design(single_turn_share=share), config.Play())
        empty = msgspec.structs.replace(DOCUMENTS[0], text="")
        asked = bare.design(SKILL, empty, (), None)
        assert sum(len(message.content) for message in asked) < 9_000


def test_examples_that_a_profile_does_not_show_are_not_named(tokenizer):
    asked = job(seeds=tuple(memory(name) for name in ("One", "Two")), avoid=AVOID)
    prompt = fit_prompt(GAMES.profile, tokenizer, asked, DOCUMENTS[0], 2_000)
    assert prompt.shown == ("One", "Avoid")
    (message,) = GAMES.profile.design(SKILL, DOCUMENTS[0], asked.seeds, AVOID)
    assert prompt.ids == tokenizer.prompt_ids([message])


async def test_a_program_too_like_one_of_the_memory_is_rejected_and_the_next_attempt_may_differ(settings, tokenizer):
    bounded = changed(settings, design={"novelty_bound": 0.7})
    other = GOOD.replace("Vault", "Safe").replace("in place", "fit").replace("left", "tries").replace("code", "key")
    small = SmallReplay(jobs=[job()])
    small.earlier = {"e7": GOOD}
    async with designing(small, bounded, tokenizer, script(GOOD.replace("Vault", "Chest"), other)):
        await small.until_done(2)
    rejected, submitted = small.done
    assert (rejected.stage, rejected.last) == ("novelty", False)
    assert re.fullmatch(r"its similarity to e7 is 0\.9\d+, over 0\.7", rejected.reason)
    assert 0.5 < submitted.measures.similarity < 0.7


async def test_a_copy_is_admitted_and_measured_where_no_bound_is_set(settings, tokenizer):
    small = SmallReplay(jobs=[job()])
    small.earlier = {"e7": GOOD}
    async with designing(small, settings, tokenizer, script(GOOD)):
        await small.until_done(1)
    (submitted,) = small.done
    assert submitted.measures.similarity == 1.0
