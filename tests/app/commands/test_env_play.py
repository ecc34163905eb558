"""`spade env play` and the transcripts of `spade env show`, on programs in the real sandbox."""

import pytest

from actors.text.trajectory import TrajectoryBuilder
from replay.ledger.records import Environment, PlayRecord, Source
from replay.store import open_store
from replay.store.load import open_run
from spade.app.rundir import RunDir
from spade.codec import pack_floats, pack_ids
from spade.protocol import Generated
from spade.tokens import Tokenizer
from tests.actors.odd_programs import SEARCH
from tests.actors.roles.agent.test_tool_plays import DESK, called
from tests.actors.small_services import actor_settings
from tests.spade import token_shapes

EVIL = "\x1b[2J\u202e"


@pytest.fixture
def desk(tmp_path):
    (tmp_path / "desk.py").write_text(DESK)
    return tmp_path


def plain(done, code=0):
    """The lines that a command without a fault printed."""
    assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr
    return done.stdout.splitlines()


def test_a_program_with_tools_is_played_by_calls_whatever_the_recipe(spade, desk):
    typed = 'find("new")\n{"name": "close", "arguments": {"ticket": "T-7"}}\ndone\n'
    said = plain(spade("env", "play", "desk.py", cwd=desk, typed=typed))
    assert said[:3] == [
        'find(status: "new" | "open")  List the tickets of a status.', "close(ticket: str)  Close a ticket.",
        "Find the new ticket.",
    ]  # fmt: skip
    assert said[3:] == [
        '> find(status="new")', "T-7", "", "User: Close it.", "done 1 of 2, reward 0.333333",
        '> close(ticket="T-7")', "closed", "", "All requests are done. Submit <answer>done</answer>.",
        "done 2 of 2, reward 0.666667",
        "> answer  done", "done 2 of 2, reward 1", "won in 3 turns",
    ]  # fmt: skip


def test_what_cannot_be_read_costs_nothing_and_what_is_refused_costs_a_turn(spade, desk):
    typed = 'hello\n\nfind(\nfind("new")' + '; find("new")' * 8 + '\nfind("old")\nfind("new"); close("T-7"); done\n'
    said = plain(spade("env", "play", "desk.py", cwd=desk, typed=typed))
    assert [line.split("  ")[0] for line in said].count("> not sent") == 4
    assert any("at most 8 calls, these are 9" in line for line in said)
    assert '> refused find(status="old")' in said
    assert said[-1] == "won in 2 turns"


def test_the_state_is_shown_as_it_changes(spade, desk):
    typed = 'find("open")\nfind("new"); close("T-7")\ndone\n'
    said = plain(spade("env", "play", "desk.py", "--state", cwd=desk, typed=typed))
    told = [line for line in said if line.startswith(("+", "-", "~", "criteria"))]
    assert told == [
        "+ closed = []", "+ seen = []", "criteria: 1 not met, 2 not met",
        '+ seen[0] = "open"', "criteria: 1 not met, 2 not met",
        '+ closed[0] = "T-7"', '+ seen[1] = "new"', "criteria: 1 met, 2 met",
    ]  # fmt: skip


def test_a_criterion_that_raises_or_changes_the_state_is_told(spade, desk):
    criteria = "[lambda state: 1 // 0, lambda state: state['seen'].append(1)]"
    start, end = DESK.index("[lambda"), DESK.index("\n", DESK.index("[lambda"))
    (desk / "desk.py").write_text(DESK[:start] + criteria + DESK[end:])
    said = plain(spade("env", "play", "desk.py", "--state", cwd=desk))
    raised = "1 raises ZeroDivisionError: integer division or modulo by zero (line 5)"
    assert said[-2] == f"criteria: {raised}, 2 not met and changes the state"


def test_input_that_ends_and_a_lost_play_end_it_cleanly(spade, desk):
    assert plain(spade("env", "play", "desk.py", cwd=desk))[-1] == "> left"
    settings = "--set", "play.max_turns=2"
    said = plain(spade("env", "play", "desk.py", *settings, cwd=desk, typed="done\ndone\n"))
    assert said[-1] == "lost in 2 turns"
    assert "Not done: 2 requests are left. The present one: Find the new ticket." in said


def test_a_game_has_no_state_to_show(spade, tmp_path):
    (tmp_path / "game.py").write_text(SEARCH)
    done = spade("env", "play", "game.py", "--state", cwd=tmp_path, typed="1\n")
    assert (done.returncode, done.stderr) == (
        1,
        "spade: --state: only programs with tools have a state to show\n",
    )


def test_a_program_that_fails_is_one_line(spade, desk):
    (desk / "desk.py").write_text(DESK.replace('return "closed"', "raise ValueError('no')"))
    done = spade("env", "play", "desk.py", cwd=desk, typed='find("new")\nclose("T-7")\n')
    why = "the environment failed in turn 2: exception: ValueError: no (line 16)"
    assert (done.returncode, done.stderr) == (1, f"spade: {why}\n")


# ---------------------------------------------------------------- transcripts


@pytest.fixture
def shape(tmp_path):
    shape = token_shapes.TOOL_SHAPES[0]
    shape.build(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    return shape


class Kept:
    """A run with an environment; `play` keeps a finished play of it, in which the model said these words."""

    def __init__(self, folder, source, *overrides):
        self.settings = actor_settings(folder, "play.context_tokens=4000", "engine.context_tokens=4096", *overrides)
        self.run, self.tokenizer = RunDir(folder / "run"), Tokenizer.load(folder)
        self.run.create(self.settings)
        made = Environment("e000000", "j000000", 0, "data retrieval", "DeskEnv", "", 1, True, 1, 0.0, 9.0)
        with open_store(self.run.store, "nosync") as store:
            open_run(store, self.settings)
        self.keep(("environments", made.id, made), ("sources", made.id, Source(source, f"Look{EVIL}.", "Go.")))

    def keep(self, *changes):
        with open_store(self.run.store, "nosync") as store:
            store.commit(store.encode(changes))

    def play(self, *words, hinted=False, value=1.0, terminated=True, **fields):
        builder = TrajectoryBuilder(1.0)
        for text in words:
            ids = self.tokenizer.encode(text)
            builder.read([1, 2])
            builder.sampled(Generated(pack_ids(ids), pack_floats([-1.0] * len(ids)), ((1, len(ids)),), "stop"))
        id = f"e000000-0{'uh'[hinted]}000"
        fields = {"state": "finished", "turns": len(words), "episode_return": value, "terminated": terminated} | fields
        self.keep(("plays", id, PlayRecord(id, "e000000", 0, 0, hinted, **fields)))
        self.keep(("trajectories", id, builder.trajectory()))
        return id


def test_the_transcript_has_calls_results_changes_and_criteria(spade, shape, tmp_path):
    kept = Kept(tmp_path, DESK, "run.domain=tools", "evaluation.suite=", "play.max_turns=5")
    find, close = called(shape, "find", status="new"), called(shape, "close", ticket="T-7")
    words = f"Look. {called(shape, 'find', status='old')}<tool_call>?</tool_call>{find}", close, "<answer>done</answer>"
    id = kept.play(*words, hinted=True)
    said = plain(spade("env", "show", "run", id, cwd=tmp_path))
    assert said[:2] == [f"{id}  DeskEnv  hinted, instance 0", r"hint  Look\x1b[2J\u202e."]
    parts = (
        "turn 1", "Look. <tool_call>", 'refused find(status="old")', 'Error: status: must be one of "new", "open"',
        "malformed  Error: this call cannot be read: ", 'find(status="new")', "T-7", "User: Close it.",
        '+ seen[0] = "new"', "criteria: 1 met, 2 not met", "turn 2", 'close(ticket="T-7")', "closed",
        '+ closed[0] = "T-7"', "criteria: 1 met, 2 met", "turn 3", "answer  done", "ended in 3 turns, return 1",
    )  # fmt: skip
    text, at = "\n".join(said), 0
    for part in parts:
        at = text.index(part, at) + len(part)
    assert "it ended differently" not in text


def test_an_environment_names_a_play_of_its_best_and_one_of_its_worst_return(spade, shape, tmp_path):
    kept = Kept(tmp_path, DESK, "run.domain=tools", "evaluation.suite=")
    kept.play("<answer>done</answer>", value=0.0, terminated=False)
    kept.play("<answer>done</answer>", hinted=True)
    said = plain(spade("env", "show", "run", "e000000", cwd=tmp_path))
    assert [line.split() for line in said[-2:]] == [
        ["a", "play", "e000000-0h000,", "return", "1", "in", "1", "turns"],
        ["a", "play", "e000000-0u000,", "return", "0", "in", "1", "turns"],
    ]


def test_the_transcript_of_a_game_has_its_actions_and_rewards(spade, shape, tmp_path):
    kept = Kept(tmp_path, SEARCH)
    id = kept.play("I guess \\boxed{1}", "Then \\boxed{nothing}", value=0.5)
    said = plain(spade("env", "show", "run", id, cwd=tmp_path))
    assert "I guess \\boxed{1}" in said
    assert sum(line.startswith("reward ") for line in said) >= 1
    # The return that the store has is not the program's: the play is not what it says.
    assert any(line.startswith("it ended differently when it was played again: return ") for line in said)


@pytest.mark.parametrize(("fields", "says"), [
    ({"state": "void", "fault": f"exception: {EVIL}"}, r"is void: exception: \x1b[2J\u202e; only a finished play"),
    ({"state": "leased"}, "is leased; only a finished play"),
    ({"turns": 3}, "has 3 turns, but tokens of only 1"),
])  # fmt: skip
def test_a_play_that_cannot_be_shown_is_refused_in_one_line(spade, shape, tmp_path, fields, says):
    kept = Kept(tmp_path, DESK, "run.domain=tools", "evaluation.suite=")
    id = kept.play("<answer>done</answer>", **fields)
    done = spade("env", "show", "run", id, cwd=tmp_path)
    assert done.returncode == 1
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_play_without_its_tokens_or_of_no_such_id_is_refused_in_one_line(spade, shape, tmp_path):
    kept = Kept(tmp_path, DESK, "run.domain=tools", "evaluation.suite=")
    id = kept.play("<answer>done</answer>")
    kept.keep(("trajectories", id, None))
    assert "were deleted (replay.retain_s" in spade("env", "show", "run", id, cwd=tmp_path).stderr
    assert "no play 'e000000-0u009'" in spade("env", "show", "run", "e000000-0u009", cwd=tmp_path).stderr
