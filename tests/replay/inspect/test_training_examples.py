"""Won plays and admitted designs of a store, in tokens of nano's own conversations, as rows to fine-tune on."""

import json

import pytest

from actors.corpus import load as load_corpus
from actors.nano.demonstrations import make_demonstration
from actors.nano.games import GAMES
from replay.ledger.records import Environment, PlayRecord
from replay.store import open_reader, open_store
from spade.app.nano.simulation import SIMULATIONS
from spade.app.rundir import RunDir
from spade.codec import pack_floats, pack_ids
from spade.config import load
from spade.policy import model_folder
from spade.protocol import Trajectory
from spade.returns import is_won
from spade.tokens import Tokenizer
from tests.app.commands.test_pool import run_spade
from tests.replay.kept_world import keep_world

TOKENIZER = Tokenizer.load(model_folder.resolve("nano"))
[END] = TOKENIZER.end_ids


def tokens(chat):
    """The trajectory of a conversation, its answers sampled by version 1."""
    runs = [TOKENIZER.prompt_ids(chat[:1])]
    for place in range(1, len(chat), 2):
        runs.append([*TOKENIZER.encode(chat[place].content), END])
        if seen := chat[place + 1 : place + 2]:
            runs.append(TOKENIZER.turn_ids(runs[-1], seen))
    count = sum(map(len, runs[1::2]))
    ids, spans = [id for run in runs for id in run], tuple(map(len, runs))
    return Trajectory(pack_ids(ids), spans, pack_floats([-1.0] * count), ((1, count),), 1.0)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """(run, conversations by the key of their trajectory): a run in simulated time, in whose store everybody speaks."""
    run = RunDir(tmp_path_factory.mktemp("runs") / "run")
    run.create(load("nano"))
    keep_world(run.store, until=40.0)
    documents = load_corpus("builtin")
    shown = [make_demonstration(GAMES, SIMULATIONS["games"], 1, index, documents) for index in range(3)]
    chats = {}
    with open_store(run.store, "nosync") as store:
        plays = store.scan("plays", PlayRecord)
        for number, each in enumerate(store.scan("environments", Environment)):
            chats[each.job] = shown[number % 3].design.messages
        for number, play in enumerate(plays):
            if store.get("trajectories", play.id, Trajectory) is not None:
                [_, *others] = [each for one in shown for each in one.plays]
                chats[play.id] = others[number % len(others)].messages
        store.commit(store.encode([("trajectories", key, tokens(chat)) for key, chat in chats.items()]))
    return run, chats


def export(run, out, *words):
    code, told = run_spade("replay", "export", run.path, out, "--format", "messages", *words)
    file = out / "train.jsonl"
    return code, told, [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def plain(messages):
    return [{"role": each.role, "content": each.content} for each in messages]


def test_each_answer_of_a_won_play_and_each_admitted_design_is_a_row(kept, tmp_path):
    run, chats = kept
    code, told, rows = export(run, tmp_path / "out")
    assert code == 0, told
    with open_reader(run.store) as store:
        environments = {
            each.id: each for each in store.scan("environments", Environment) if each.state != "quarantined"
        }
        plays = [
            play for play in store.scan("plays", PlayRecord)
            if play.state == "finished" and not play.hinted and is_won(play.episode_return, 1.0)
            and play.environment in environments
        ]  # fmt: skip
    expected = {}
    for each in environments.values():
        chat = chats[each.job]
        expected[f"{each.id}/0"] = "designer", each.skill, plain(chat[:1]), plain(chat[1:])
    for play in plays:
        chat, skill = chats[play.id], environments[play.environment].skill
        for number, place in enumerate(range(1, len(chat), 2)):
            before, answer = plain(chat[:place]), plain(chat[place : place + 1])
            expected[f"{play.id}/{number}"] = "agent", skill, before, answer
    assert {row["id"]: (row["role"], row["skill"], row["prompt"], row["completion"]) for row in rows} == expected
    assert {row["role"] for row in rows} == {"agent", "designer"}
    assert {row["reward"] for row in rows if row["role"] == "agent"} == {1.0}
    assert f" and {len(environments)} designs of {run.path}\n" in told


def test_what_a_tool_trains_on_are_the_tokens_that_were_trained(kept, tmp_path):
    """Rendered and encoded by Transformers, with the mask that TRL makes of prompt and completion."""
    from transformers import AutoTokenizer

    run, chats = kept
    theirs = AutoTokenizer.from_pretrained(model_folder.resolve("nano"))
    _, _, rows = export(run, tmp_path / "out", "--role", "agent")
    trained = {}
    for row in rows:
        given = {"return_dict": False, **row["chat_template_kwargs"]}
        prompt = theirs.apply_chat_template(row["prompt"], add_generation_prompt=True, **given)
        whole = theirs.apply_chat_template(row["prompt"] + row["completion"], **given)
        assert whole[: len(prompt)] == prompt
        trained.setdefault(row["id"].partition("/")[0], []).append((prompt, whole[len(prompt) :]))
    for play, answers in trained.items():
        made = tokens(chats[play])
        ids, at = list(memoryview(made.ids).cast("i")), 0
        for read, sampled, (prompt, completion) in zip(made.spans[::2], made.spans[1::2], answers, strict=True):
            assert prompt == ids[: at + read]
            assert completion == ids[at + read : at + read + sampled]
            at += read + sampled
    assert trained


def test_roles_skills_and_returns_choose(kept, tmp_path):
    run, _ = kept
    _, _, every = export(run, tmp_path / "every")
    _, _, designs = export(run, tmp_path / "designs", "--role", "designer")
    assert designs == [row for row in every if row["role"] == "designer"]
    skill = every[0]["skill"]
    _, _, ours = export(run, tmp_path / "skill", "--skill", skill)
    assert ours == [row for row in every if row["skill"] == skill] != every
    _, _, lost = export(run, tmp_path / "lost", "--role", "agent", "--return", "-1")
    assert min(row["reward"] for row in lost) < 1
    assert [row for row in lost if row["reward"] == 1] == [row for row in every if row["role"] == "agent"]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--skill", "juggling"), "--skill 'juggling': is not a skill of "),
        (("--parquet",), "--parquet: --format messages writes only JSONL"),
        (("--role", "agent", "--return", "2"), "no answer was chosen; nothing was written"),
    ],
)
def test_what_cannot_be_exported_is_one_line_and_nothing_is_written(kept, tmp_path, words, line):
    code, told, rows = export(kept[0], tmp_path / "out", *words)
    assert (code, rows) == (1, [])
    assert line in told
    assert told.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_choices_without_messages_are_refused(kept, tmp_path):
    code, told = run_spade("replay", "export", kept[0].path, tmp_path / "out", "--role", "agent")
    assert (code, told.count("\n")) == (1, 1)
    assert "add --format messages" in told


def test_answers_whose_tokens_were_deleted_or_cut_are_counted(kept, tmp_path):
    run = RunDir(tmp_path / "run")
    run.create(load("nano"))
    keep_world(run.store, until=20.0)  # random tokens: no conversation
    code, told, _ = export(run, tmp_path / "out")
    assert code == 1
    assert "no answer was chosen; left out: " in told
    assert " cut off before their end" in told
