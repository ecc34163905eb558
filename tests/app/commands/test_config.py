"""`spade config check`: what a process of the run would refuse when it starts is refused before."""

import json

import numpy as np
import pytest
from safetensors.numpy import save_file
from typer.testing import CliRunner

from actors.corpus import load_grounds
from spade.app.cli import app
from spade.app.commands.config import check_config
from spade.config import load
from spade.errors import ConfigError
from spade.transport import keys
from tests.spade.token_shapes import llama3, qwen3_2507


def refused(*overrides: str) -> list[str]:
    with pytest.raises(ExceptionGroup) as caught:
        check_config("nano", overrides)
    return [str(error) for error in caught.value.exceptions]


def without_weights(folder, monkeypatch):
    """Make a checkpoint folder whole of which only the tokenizer is looked at."""
    monkeypatch.setattr("spade.policy.checkpoint_files.check_structure", lambda *_: None)
    (folder / "config.json").write_text("{}")
    save_file({"plain": np.zeros(1)}, folder / "model.safetensors")


def test_nano_is_looked_at_whole():
    assert check_config("nano", ()).endswith("; 192 items of nano to evaluate on; model nano")


def test_a_lease_that_leaves_programs_too_little_time_is_named():
    """Otherwise every play of a slow program would be void, and the program would be blamed."""
    short = (
        "a program has 7 s by the clock for its answers in a play (half of play.lease_s), but may need 15 s to begin"
    )
    assert short in check_config("nano", ("play.lease_s=14",))
    assert "by the clock" not in check_config("nano", ("play.lease_s=30",))
    assert "by the clock" in check_config("nano", ("sandbox.step_s=100",))


@pytest.mark.parametrize(("content", "says"), [
    (None, "No such file"),
    ("", "holds no document"),
    ('{"text": "A tide."}\n{"title": "no text"}\n', "line 2"),
    ('{"text": "A tide."}\n{"text": " "}\n', "line 2: the text is empty"),
])  # fmt: skip
def test_a_corpus_that_a_designer_would_refuse_is_refused(tmp_path, content, says):
    file = tmp_path / "corpus.jsonl"
    if content is not None:
        file.write_text(content)
    (said,) = refused(f"design.corpus={file}")
    assert said.startswith("design.corpus: ")
    assert says in said


def test_the_documents_of_an_own_corpus_are_counted(tmp_path):
    (tmp_path / "corpus.jsonl").write_text('{"text": "A tide."}\n\n{"text": "A moon."}\n')
    assert "; 2 documents (digest " in check_config("nano", (f"design.corpus={tmp_path / 'corpus.jsonl'}",))


def test_programs_of_an_evaluation_are_counted_or_refused(tmp_path):
    folder = (f"evaluation.suite=folder:{tmp_path}",)
    (said,) = refused(*folder)
    assert "has no environment program" in said
    (tmp_path / "tide.py").write_text("class TideEnv: ...")
    assert "; 192 items of programs to evaluate on; " in check_config("nano", folder)
    assert "; 1 items of programs to evaluate on; " in check_config("nano", (*folder, "evaluation.plays=0"))
    (tmp_path / "text.py").write_bytes(b"\xff\xfe")
    (said,) = refused(*folder)
    assert "cannot be read" in said


def test_keys_are_those_that_this_host_needs(tmp_path):
    folder = tmp_path / "keys"
    named, bound = f"bus.keys={folder}", "bus.bind=tcp://127.0.0.1:5555"
    assert "is missing or is not a key" in refused(named)[0]
    keys.create(folder, ["far"])
    assert "keys that let in far, local" in check_config("nano", (named, bound))
    far = f"bus.keys={folder / 'hosts' / 'far'}"
    assert "; keys of a client; " in check_config("nano", (far,))
    assert "server.key_secret is missing" in refused(far, bound)[0]
    (folder / "client.key_secret").chmod(0o644)
    assert "others may read this secret" in refused(named)[0]


def test_a_checkpoint_folder_is_opened_and_a_name_on_the_hub_is_not_looked_up(tmp_path):
    assert "give nano, nano-tools, a checkpoint folder" in refused(f"model.path={tmp_path / 'none'}")[0]
    (tmp_path / "empty").mkdir()
    assert "holds no config.json" in refused(f"model.path={tmp_path / 'empty'}")[0]
    for name in ("someone/something", f"someone/something@{'0' * 40}"):
        assert check_config("nano", (f"model.path={name}",)).endswith(f"; model {name} of the hub")
    assert "there is no folder 'something' here" in refused("model.path=something")[0]


def test_a_domain_that_a_model_or_its_prompts_do_not_have_is_refused():
    (said,) = refused("run.domain=tools", "evaluation.suite=")
    assert said.startswith("run.domain = 'tools': the chat template of nano drops the tools; use a model whose")


def test_a_design_prompt_without_room_is_refused():
    (said,) = refused("model.profile=full", "play.max_turns=12")
    assert said.startswith("engine.context_tokens: a design prompt does not fit the 512 tokens")


def test_a_key_of_an_endpoint_is_read(tmp_path):
    endpoint = "endpoint.url=http://127.0.0.1:8000/v1", f"endpoint.key={tmp_path / 'key'}"
    assert refused(*endpoint)[0].startswith("endpoint.key: ")
    (tmp_path / "key").write_text("secret\n")
    assert "; endpoint http://127.0.0.1:8000/v1; " in check_config("nano", endpoint)


def test_all_that_is_wrong_is_said_at_once_and_a_setting_alone_first(tmp_path):
    said = refused(f"design.corpus={tmp_path / 'none'}", "evaluation.suite=nano-tools", "bus.keys=/none")
    for line, named in zip(said, ("design.corpus: ", "/none/client.key_secret ", "suite nano-tools: "), strict=True):
        assert line.startswith(named)
    with pytest.raises(ConfigError, match=r"learner\.lr"):
        check_config("nano", ("learner.lr=-1", "design.corpus=none"))


def test_differing_settings_are_listed_with_both_values(tmp_path):
    own = tmp_path / "own.toml"
    own.write_text('extends = "nano"\n[learner]\nlr = 1e-3\n[run]\nseed = 7\n')
    listed = CliRunner().invoke(app, ["config", "diff", "nano", str(own)])
    assert [each.split(maxsplit=1) for each in listed.stdout.splitlines()] == [
        ["run.seed", "left out  7"], ["learner.lr", "0.0003    0.001"],
    ]  # fmt: skip
    found = json.loads(CliRunner().invoke(app, ["config", "diff", "nano", str(own), "--json"]).stdout)
    assert found == {"run.seed": {"a": None, "b": 7}, "learner.lr": {"a": 3e-4, "b": 1e-3}}
    assert "same settings" in CliRunner().invoke(app, ["config", "diff", "nano", "nano"]).stdout


def test_a_missing_file_is_put_down_to_the_config_that_names_it(tmp_path):
    (tmp_path / "base.toml").write_text('extends = "nano"\n[design]\ncorpus = "no.jsonl"\n')
    (tmp_path / "own.toml").write_text('extends = "base.toml"\n')
    with pytest.raises(ExceptionGroup) as caught:
        check_config(str(tmp_path / "own.toml"), ())
    (said,) = map(str, caught.value.exceptions)
    assert said.endswith(f"(design.corpus is set in {tmp_path / 'base.toml'})")


TOOLS = ("run.domain=tools", "model.profile=full", "play.max_turns=12", "engine.context_tokens=30000")


def test_a_model_whose_template_shows_no_tools_is_refused_for_them_with_those_that_work(tmp_path, monkeypatch):
    llama3(tmp_path)
    without_weights(tmp_path, monkeypatch)
    (said,) = refused(*TOOLS, f"model.path={tmp_path}")
    assert said == (
        f"run.domain = 'tools': the chat template of {tmp_path} drops the tools; use a model whose template shows "
        "tools and results and writes calls as Qwen3 (hermes), or as Qwen3-Coder, Qwen3.5 and Nemotron 3 (xml)"
    )


def test_a_prompt_of_tool_use_has_its_room_checked_and_its_settings_read(tmp_path, monkeypatch):
    qwen3_2507(tmp_path)
    without_weights(tmp_path, monkeypatch)
    given = (*TOOLS, f"model.path={tmp_path}")
    assert f"; 106 documents (digest {load_grounds(load('nano', TOOLS)).digest[:12]})" in check_config("nano", given)
    (said,) = refused(*given, "engine.context_tokens=2000")
    assert said.startswith("engine.context_tokens: a design prompt does not fit")
    file = tmp_path / "settings.txt"
    file.write_text("\n")
    assert refused(*given, f"tools.settings={file}") == [f"tools.settings: {file} holds no setting; write one per line"]
