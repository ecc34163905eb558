"""Admission of programs with tools: each stage can be passed and failed, and sound services of all settings pass."""

import random

import msgspec
import pytest

from actors.environments import runner as env_runner
from actors.environments.admission import find_domain, validate
from actors.environments.audit import audit
from actors.nano.tools.world import TOOLS
from actors.nano.world import draw_knobs
from actors.text.leaks import find_leaked
from actors.text.profile import Document
from spade.codec import answer_digest
from spade.config import Play, ToolUse, load
from spade.protocol import MOST_VALUES, AuditJob, RecordedPlay, Recording, ToolCall, Validate
from tests.actors.environments.faulty_services import FAULTS, GOOD, OPEN_COUNTER, TURNSTILE, changed
from tests.actors.environments.sound_services import SOUND
from tests.actors.odd_programs import LIMITS, SEARCH
from tests.actors.small_services import SmallReplay, process, small_replay
from tests.actors.tool_programs import PARCELS, TICKETS
from tests.peers import connected

STAGES = [
    "parse", "class", "interface", "construct", "schema", "episode", "gate", "solution", "garbage", "random",
    "constant", "budget", "repeatable", "effect",
]  # fmt: skip
QUICK = msgspec.structs.replace(LIMITS, random_win_share=0.5)
LUCKY = msgspec.structs.replace(LIMITS, random_win_share=1.0)
"""Luck is not tested, which takes most of the plays."""
OTHER_LIMITS = {
    "much memory": msgspec.structs.replace(LIMITS, memory_bytes=40 << 20),
    "nothing but the number of calls matters": LUCKY,
}
LOOK = '("code", {"name": self.wanted}),'


async def admit(sandbox, source, *, limits=QUICK, tools=None, play=None, seed=3):
    return await validate(sandbox, source, seed, limits, play, "tools", tools)


FIRST = {name: defect for defect, (name, _, _) in reversed(FAULTS.items())}
"""The first fault of each stage."""


@pytest.mark.parametrize("first", [True, pytest.param(False, marks=pytest.mark.slow)])
async def test_every_fault_is_found_by_its_stage(first, sandbox):
    assert FIRST.keys() == set(STAGES)
    for defect in (defect for defect in FAULTS if (defect in FIRST.values()) == first):
        name, words, source = FAULTS[defect]
        verdict = await admit(sandbox, source, limits=OTHER_LIMITS.get(defect, QUICK))
        last = verdict.stages[-1]
        assert not verdict.passed, defect
        assert [stage.name for stage in verdict.stages] == STAGES[: STAGES.index(name) + 1], (defect, last)
        assert [stage.passed for stage in verdict.stages] == [True] * STAGES.index(name) + [False], (defect, last)
        assert words in last.reason, (defect, last)


@pytest.mark.parametrize("number", [0, pytest.param(1, marks=pytest.mark.slow)])
async def test_sound_services_of_every_setting_are_admitted(number, sandbox):
    assert [len(services) for services in SOUND.values()] == [2] * 10
    for source in (services[number] for services in SOUND.values()):
        verdict = await admit(sandbox, source)
        assert verdict.passed, (verdict.name, verdict.stages[-1])
        assert [stage.name for stage in verdict.stages] == STAGES
        assert (verdict.seed_sensitive, verdict.suspects) == (True, ())


async def test_programs_in_the_papers_style_are_admitted(sandbox):
    verdict = await admit(sandbox, PARCELS)
    assert verdict.passed, verdict.stages[-1]
    assert (verdict.name, verdict.suspects, verdict.values) == ("ParcelCounterEnv", (), ())


async def test_the_settings_say_how_many_instructions_may_be_met_at_reset(sandbox):
    last = (await admit(sandbox, OPEN_COUNTER)).stages[-1]
    assert (last.name, last.reason) == ("gate", "instruction 1 of 5 is met before anything is done")
    verdict = await admit(sandbox, OPEN_COUNTER, tools=ToolUse(free_share=0.2))
    assert verdict.passed, verdict.stages[-1]
    assert verdict.seed_sensitive is False


async def test_nano_programs_of_every_family_and_level_are_admitted(sandbox):
    rng, note = random.Random(5), Document("c1", "code", "Parcel tracking", "")
    for level, family in enumerate((*TOOLS.families, TOOLS.families[0]), 1):
        knobs = draw_knobs(rng, family, False)
        while knobs.level != level:
            knobs = draw_knobs(rng, family, False)
        program = TOOLS.make(rng, note, family.skills[0], family, knobs)
        verdict = await admit(sandbox, program.source, play=Play(max_turns=12))
        assert verdict.passed, (family.name, knobs, verdict.stages[-1])
        assert verdict.seed_sensitive


async def test_a_request_to_see_a_list_is_met_whatever_its_limit(sandbox):
    listing = (
        '    def tool_people(self, limit: int = 10) -> list:\n        """List people."""\n'
        '        self._state["seen"].append(self.wanted)\n        return sorted(self.codes)[:limit]\n\n'
    )
    source = changed(
        ('f"Look up the code of {self.wanted}."', '"Which people are there?"'),
        ("    def solution", listing + "    def solution"),
        ('self._state["seen"].append(name)', "pass"),
        (LOOK, f'("people", {{}}), {LOOK}'),
    )
    verdict = await admit(sandbox, source)
    assert verdict.passed, verdict.stages[-1]


async def test_suspects_are_words_that_nothing_before_the_call_has_told(sandbox):
    guessed = changed((LOOK, f'("ring", {{"name": "Boss of Ada"}}), {LOOK}'))
    verdict = await admit(sandbox, guessed, limits=LUCKY)
    assert verdict.passed, verdict.stages[-1]
    assert verdict.suspects[0] == "boss"
    assert {"code", "mail"}.isdisjoint(verdict.suspects)


async def test_values_are_arguments_that_no_instruction_and_no_schema_states(sandbox):
    verdict = await admit(sandbox, GOOD, limits=LUCKY)
    assert verdict.suspects == ()
    assert len(verdict.values) == 2  # the code of each of two instances, and neither names nor "mail"
    assert all(value.isdigit() for value in verdict.values)


async def test_no_form_of_an_argument_hides_a_value(sandbox):
    for code, told, suspect in (
        ('{"SWORDFISH-77": True}', ("SWORDFISH-77",), True),
        ("1000.0", ("1000",), False),
        ("[[7731]]", ("7731",), False),
        ("'731'", ("731",), True),
    ):
        source = changed(
            ("str(rng.randrange(1000, 10_000))", code),
            ("code: str", f"code: {type(eval(code)).__name__}"),
            ('by mail."', 'by mail, contract 57319."'),
            ('return f"The code is {self.codes[name]}."', 'return "It is known."'),
        )
        verdict = await admit(sandbox, source)
        assert verdict.passed, verdict.stages[-1]
        assert (verdict.values, bool(verdict.suspects)) == (told, suspect)


async def test_a_solution_cannot_hide_a_value_among_many(sandbox):
    for count, words in ((99, "more than 64 values that no request"), (2_000, "more than 1000 values")):
        many = f'("ring", {{"name": "Ada", "also": ["z%d" % n for n in range({count})]}}),'
        source = changed(
            ("def tool_ring(self, name: str)", "def tool_ring(self, name: str, also: list = [])"),
            (LOOK, f"{many} {LOOK}"),
        )
        last = (await admit(sandbox, source)).stages[-1]
        assert (last.name, last.passed) == ("solution", False)
        assert words in last.reason


# Six buttons in one order open every safe. All buttons are known.
SAFE = """
class SafeEnv(ToolUseBaseEnv):
    def reset(self, seed):
        self.number = random.Random(seed).randrange(99)
        self._state = {"pressed": []}
        self._user_messages = [f"Open safe {self.number}."]
        self._message_criteria = [lambda state: state["pressed"][-6:] == list(RIGHT)]
        return self._user_messages[0], {}
    def tool_press(self, button: Literal[*"abcdefghmp"]) -> str:
        self._state["pressed"].append(button)
        return "Pressed."
    def tool_look(self) -> str:
        return "A safe."
    def solution(self):
        return [("press", {"button": button}) for button in RIGHT]
"""


async def test_the_calls_that_solve_every_instance_are_a_value(sandbox):
    same = await admit(sandbox, SAFE.replace("RIGHT", '"gcpbmd"'))
    assert same.passed, same.stages[-1]
    assert find_leaked("Press g, c, p, b, m, d.", same.values)
    assert not find_leaked("Press the right buttons, such as g and c.", same.values)
    other = await admit(sandbox, SAFE.replace("RIGHT", '[*"gcpbm", "abcdefgh"[self.number % 8]]'))
    assert (other.passed, other.values) == (True, ())


async def test_suspects_values_and_the_replay_are_bounded(sandbox):
    many = '[("ring", {"name": " ".join(f"w{n}{m}" for m in range(99)) + "z" * 999}) for n in range(40)]'
    source = changed(("        return [\n", f"        return {many} + [\n"))
    verdict = await admit(sandbox, source, limits=LUCKY, play=Play(max_turns=50))
    assert verdict.passed, verdict.stages[-1]
    assert (len(verdict.suspects), len(verdict.values)) == (MOST_VALUES, 42)
    assert max(map(len, verdict.values + verdict.suspects)) <= 200
    assert 16_000 < len(verdict.replayed.encode()) <= 16_384


async def test_the_replay_shows_instructions_calls_and_results(sandbox):
    replayed = (await admit(sandbox, TICKETS, limits=LUCKY)).replayed.splitlines()
    assert replayed[0] == "User: Which ticket is urgent? Look at it."
    assert replayed[1] == 'Call: find {"status": "open", "urgent": true}'
    assert replayed[2].startswith("Result: [")
    assert "User: Close it, with a note that says 'solved'." in replayed
    assert replayed[-1] == "Answer: done"


async def test_the_domain_of_a_program_is_told_by_its_base_class(sandbox):
    found = [await find_domain(sandbox, source, LIMITS) for source in (GOOD, SEARCH, "class CodesEnv(")]
    assert found == ["tools", "games", None]


async def test_what_is_kept_of_all_plays_with_tools_is_bounded(sandbox, monkeypatch):
    monkeypatch.setattr("actors.environments.trials.MOST_HEARD", 1 << 20)
    wordy = changed(('return "Nobody answers."', 'return "no " * 5_000'))
    last = (await admit(sandbox, wordy)).stages[-1]
    assert (last.passed, last.reason) == (False, "the observations of all plays take more than 1 MiB")


async def test_an_env_runner_admits_programs_of_its_runs_domain():
    settings = load(
        "nano", ("run.domain='tools'", "bus.heartbeat_s=0.1", "sandbox.step_s=60.0", "tools.free_share=0.2")
    )
    async with (
        small_replay(SmallReplay(), settings) as replay,
        process(env_runner.run, "env-runner", replay, settings),
    ):
        address = next(peer.address for peer in replay.peers.values() if peer.role == "env-runner")
        async with connected(address, settings, "designer") as client:
            assert (await client.call(Validate(OPEN_COUNTER, 3))).passed
            assert (await client.call(Validate(SEARCH, 3))).stages[-1].name == "class"


@pytest.mark.parametrize(("source", "calls", "wins"), [
    (TURNSTILE, ('push {"way": "in"}',) * 3, 13), (GOOD, ('ring {"name": "x"}',), 0),
], ids=["any calls win", "sound"])  # fmt: skip
async def test_an_audit_makes_random_calls(sandbox, source, calls, wins):
    answers, moves = [await sandbox.open("e", source, 3, 25)], [(ToolCall(*call.split(" ", 1)),) for call in calls]
    for turn, move in enumerate(moves, 1):
        answers.append(await sandbox.step("e", turn, "", move))
    recording = Recording(("",) * len(moves), b"".join(map(answer_digest, answers)), 25, tuple(moves))
    job = AuditJob("e1", 1, source, (RecordedPlay("p", 3, recording),), tuple(range(16)), 13, 1.0, 25, 77, 60.0)
    outcome = await audit(sandbox, job, "tools")
    assert (outcome.replays, outcome.wins, bool(outcome.finding)) == (1, wins, wins > 0), outcome


STATUS = """
class StatusEnv(ToolUseBaseEnv):
    def reset(self, seed):
        self.team = f"T-{random.Random(seed).randrange(100, 999)}"
        self._state = {"status": "away", "archived": []}
        self._user_messages = ["Clear my status message.", "Archive the channel of my team."]
        self._message_criteria = [lambda state: state["status"] == "", lambda state: self.team in state["archived"]]
        return self._user_messages[0], {}
    def tool_set_status(self, text: str) -> str:
        self._state["status"] = text
        return "Done."
    def tool_my_team(self) -> str:
        return self.team
    def tool_archive(self, channel: str) -> str:
        self._state["archived"] += [channel] * (channel == self.team)
        return "Done."
    def solution(self):
        return [("set_status", {"text": ""}), ("my_team", {}), ("archive", {"channel": self.team})]
"""


async def test_a_request_may_ask_for_a_call_with_an_empty_text(sandbox):
    """The solution makes this call, so it has a meaning."""
    verdict = await validate(sandbox, STATUS, 5, LIMITS, domain="tools")
    assert "garbage" in [stage.name for stage in verdict.stages if stage.passed], verdict.stages[-1]
    other = STATUS.replace('"text": ""', '"text": " "').replace('["status"] == ""', '["status"] in ("", " ")')
    verdict = await validate(sandbox, other, 5, LIMITS, domain="tools")
    assert verdict.stages[-1].reason == 'a meaningless call meets instruction 1: set_status(text="")'
