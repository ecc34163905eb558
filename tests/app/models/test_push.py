"""`spade model push`, `env push` and `corpus push`: the hub's own client against a hub on loopback."""

import json
import shutil
from xml.etree import ElementTree

import msgspec
import pytest
from huggingface_hub import ModelCard

from actors.corpus import load as load_corpus
from replay.inspect.journal import EvaluationRow, StepRow
from spade.app.models.sources import open_source
from spade.app.pools.cards import render
from spade.app.pools.tables import read_table
from spade.app.rundir import RunDir
from spade.app.supervisor import kept
from spade.app.supervisor.kept import KeptPolicy
from spade.app.supervisor.pools import read_run_programs
from spade.config import load
from spade.policy import manifest
from tests.app.commands.test_pool import run_spade
from tests.replay.kept_world import keep_world
from tests.spade.hub_server import READER, TOKEN, use_hub

REPOSITORY = "someone/thing"
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")  # of the hub's client


@pytest.fixture(scope="module")
def run(tmp_path_factory, tiny_checkpoint):
    """A run with environments, curves and a policy."""
    made = RunDir(tmp_path_factory.mktemp("runs") / "my run")
    made.create(load("nano", ("endpoint.url=http://10.9.8.7/v1", "learner.lr=0.00125")))
    keep_world(made.store)
    shutil.copytree(tiny_checkpoint, made.weights / manifest.verify_parameters(tiny_checkpoint))
    return made


@pytest.fixture
def hub(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    with use_hub(tmp_path / "cache", monkeypatch) as served:
        yield served


@pytest.fixture
def data_set(run, tmp_path):
    code, told = run_spade("env", "export", run.path, tmp_path / "data", "--format", "hub")
    assert code == 0, told
    return tmp_path / "data"


@pytest.fixture
def corpus(tmp_path):
    file = tmp_path / "notes.jsonl"
    rows = [{"id": f"n{n}", "title": f"Note {n}", "field": "tides | moons", "text": f"Tide {n}."} for n in range(3)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


@pytest.fixture
def policy(run, tiny_checkpoint, monkeypatch):
    digest = manifest.verify_parameters(tiny_checkpoint)
    monkeypatch.setattr(
        kept, "find_newest_policy", lambda run: KeptPolicy(7, "published", run.weights / digest, (digest,))
    )
    return digest


def get_files(hub, name=REPOSITORY):
    return hub.files[hub.commits[name]]


def test_a_data_set_of_environments_comes_back_as_the_same_pool(run, hub, data_set):
    code, told = run_spade("env", "push", data_set, REPOSITORY)
    programs = list(read_run_programs(run))
    assert (code, told) == (0, f"datasets/{REPOSITORY}: {len(programs)} environments of {data_set}\n")
    assert hub.visibility == {REPOSITORY: "private"}
    assert get_files(hub).keys() == {".gitattributes", "README.md", "train.parquet"}
    back = read_table(f"hub:{REPOSITORY}")
    assert [(each.name, each.source, each.hint) for each in back] == [
        (each.name, each.source, each.hint) for each in programs
    ]


def test_a_corpus_comes_back_with_its_digest(hub, corpus, tmp_path):
    code, told = run_spade("corpus", "push", corpus, REPOSITORY, "--licence", "cc0-1.0", "--public")
    assert code == 0, told
    assert hub.visibility == {REPOSITORY: "public"}
    (tmp_path / "back.jsonl").write_bytes(get_files(hub)["train.jsonl"])
    assert load_corpus(str(tmp_path / "back.jsonl")).digest == load_corpus(str(corpus)).digest
    card = ModelCard(get_files(hub)["README.md"].decode())
    assert card.data.license == "cc0-1.0"
    assert "| tides \\| moons | 3 |" in card.text


def test_a_policy_is_pushed_with_a_card_and_its_curves(run, hub, policy):
    rows = [
        StepRow(learner_step=step, win_rate_unhinted=step / 10, win_rate_error=0.05, regret=0.1) for step in range(1, 5)
    ]
    measured = [EvaluationRow(step=step, win_rate=0.2 * step, error=0.03, plays=64, suite="s1") for step in (1, 4)]
    lines = [{"kind": "step", **msgspec.to_builtins(row)} for row in rows]
    lines += [{"kind": "evaluation", **msgspec.to_builtins(row)} for row in measured]
    run.metrics_path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    code, told = run_spade("model", "push", run.path, REPOSITORY)
    assert (code, told) == (0, f"{REPOSITORY}: the newest policy of {run.path}, after step 7\n")
    files = get_files(hub)
    assert {"config.json", "model.safetensors", "tokenizer.json", "README.md"} <= files.keys()
    for name in ("held-out-win-rate-on-s1", "unhinted-win-rate", "regret"):
        picture = ElementTree.fromstring(files[f"curves/{name}.svg"])
        assert picture.find(".//{http://www.w3.org/2000/svg}polyline") is not None
    card = ModelCard(files["README.md"].decode())
    assert card.data.license == "mit", "the licence of nano"
    for words in (policy, "`learner.lr` | `0.00125`", "to 80 % (", "environments", "## Limits", "curves/regret.svg"):
        assert words in card.text, words
    assert "10.9.8.7" not in card.text, "an address is no recipe"
    assert str(run.path) not in card.text
    with open_source(REPOSITORY) as found:
        assert manifest.verify_parameters(found) == policy


def test_a_repository_with_files_is_replaced_only_with_update(hub, data_set, corpus):
    assert run_spade("corpus", "push", corpus, REPOSITORY)[0] == 0
    before = hub.commits[REPOSITORY]
    code, told = run_spade("env", "push", data_set, REPOSITORY)
    assert (code, told.count("\n")) == (1, 1)
    assert f"{REPOSITORY}: has files already; give another name, or --update" in told
    assert hub.commits[REPOSITORY] == before
    code, told = run_spade("env", "push", data_set, REPOSITORY, "--update", "--public")
    assert code == 0, told
    assert get_files(hub).keys() == {".gitattributes", "README.md", "train.parquet"}
    assert hub.visibility == {REPOSITORY: "private"}, "a repository that exists stays as it is"
    assert "train.jsonl" in hub.files[before], "the older commit is kept"


@pytest.mark.parametrize(
    ("token", "name", "fault", "says"),
    [
        (None, REPOSITORY, "", "no token for the hub; run `hf auth login`"),
        ("hf_of_nobody", REPOSITORY, "", "the hub does not know the token"),
        (READER, REPOSITORY, "", "the token may not write there"),
        (TOKEN, "another/thing", "", "the token may not write there"),
        (TOKEN, "thing", "", "'thing' does not name a repository of the hub"),
        (TOKEN, f"{REPOSITORY}@{'0' * 40}", "", "does not name a repository of the hub"),
        (TOKEN, REPOSITORY, "create", "the hub at 127.0.0.1 did not accept it: "),
        (TOKEN, REPOSITORY, "html", "the hub at 127.0.0.1 did not accept it: "),
        (TOKEN, REPOSITORY, "gone", "the hub at 127.0.0.1 did not accept it: "),
    ],
)
def test_a_hub_that_does_not_take_it_is_one_line_and_stays_as_it_is(
    token, name, fault, says, hub, data_set, monkeypatch, tmp_path
):
    monkeypatch.setenv("HF_TOKEN", token or "")
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "none"))
    if fault == "gone":
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    hub.fault = fault
    code, told = run_spade("env", "push", data_set, name)
    assert (code, told.count("\n")) == (1, 1), told
    assert says in told
    assert not hub.commits
    assert not token or token not in told


@pytest.mark.parametrize("fault", ["preupload", "batch", "large", "commit"])
def test_after_a_fault_the_repository_is_empty_and_the_same_command_goes_on(fault, hub, data_set):
    hub.fault = fault
    code, told = run_spade("env", "push", data_set, REPOSITORY)
    assert (code, told.count("\n")) == (1, 1), told
    assert TOKEN not in told
    assert "signature" not in told
    assert get_files(hub).keys() == {".gitattributes"}
    hub.fault = ""
    assert run_spade("env", "push", data_set, REPOSITORY)[0] == 0
    assert "train.parquet" in get_files(hub)


def test_what_is_no_data_set_or_corpus_is_refused_before_the_hub_is_asked(hub, data_set, tmp_path):
    (data_set / "train.parquet").write_bytes(b"PAR1")
    (tmp_path / "plain.txt").write_text("words")
    (tmp_path / "broken.jsonl").write_text("{}\n")
    for words, says in (
        (("env", "push", tmp_path), "is no data set with a card"),
        (("env", "push", data_set), "train.parquet, row 1: "),
        (("corpus", "push", tmp_path / "plain.txt"), "is not a JSON Lines file"),
        (("corpus", "push", tmp_path / "broken.jsonl"), "line 1: "),
        (("model", "push", tmp_path), "no run here"),
    ):
        code, told = run_spade(*words, REPOSITORY)
        assert (code, told.count("\n")) == (1, 1), told
        assert says in told
    assert not hub.asked


def test_a_card_names_no_folder_and_no_address(hub, policy, tmp_path, tiny_checkpoint):
    home = tmp_path / "home" / "alice"
    for number, settings in enumerate(
        (
            ("design.source=pool", f"pool.source=folder:{home}/po:ol", 'sandbox.servers=["http://10.9.8.7:1"]'),
            (
                f"model.path={home}/mo:del",
                f"design.corpus={home}/documents.jsonl",
                f"evaluation.suite=folder:{home}/suite",
            ),
            ('endpoint.roles=["designer"]', "endpoint.url=http://10.9.8.7/v1"),
        )
    ):
        run = RunDir(tmp_path / f"run-{number}")
        run.create(load("nano", settings))
        keep_world(run.store)
        shutil.copytree(tiny_checkpoint, run.weights / policy)
        code, told = run_spade("model", "push", run.path, f"someone/model-{number}")
        assert code == 0, told
        code, told = run_spade("env", "export", run.path, tmp_path / f"data-{number}", "--format", "hub")
        assert code == 0, told
        for card in (get_files(hub, f"someone/model-{number}")["README.md"].decode(),
                     (tmp_path / f"data-{number}" / "README.md").read_text()):  # fmt: skip
            assert str(tmp_path) not in card
            assert "alice" not in card
            assert "10.9.8.7" not in card


@pytest.mark.parametrize(
    ("model", "author"),
    [
        ("", "a model behind an endpoint"),
        ("http://secret@10.9.8.7", "a model behind an endpoint"),
        ("/home/alice/big", "the model `big` behind an endpoint"),
    ],
)
def test_a_card_of_an_endpoints_programs_states_neither_its_address_nor_the_licence_of_the_agents_model(model, author):
    settings = ("endpoint.url=http://secret@10.9.8.7/v1", f"endpoint.model={model}")
    text = render("data_set.md", load("nano", settings), run="run-1", count=1)
    assert f"Their programs were written by {author}." in text
    assert "secret" not in text
    assert "10.9.8.7" not in text
    assert "alice" not in text
    assert "No licence of the programs is stated" in text


@pytest.mark.parametrize("name", [".env", "notes", "link"])
def test_a_push_publishes_nothing_beside_the_data_set(name, hub, data_set, tmp_path):
    (tmp_path / "key").write_text("secret")
    if name == "link":
        (data_set / "README.md").unlink()
        (data_set / "README.md").symlink_to(tmp_path / "key")
    else:
        (data_set / name).write_text("secret")
    code, told = run_spade("env", "push", data_set, REPOSITORY)
    assert (code, told.count("\n")) == (1, 1), told
    assert "a push publishes only these two" in told
    assert not hub.asked
