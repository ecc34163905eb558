"""A build is reproducible and makes a folder that every loader reads."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from actors.nano.demonstrations import demonstrate
from actors.nano.prompts import NanoProfile
from actors.text.profile import Document
from spade.app.nano import build as building
from spade.app.nano.build import Build, build, schedule
from spade.app.nano.tokens import encode
from spade.tokens import Tokenizer

TIDES = Document("s1", "science", "Tides", "")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(building, "TOKENIZER_DEMONSTRATIONS", 50)
        patch.setattr(building, "DEMONSTRATIONS_PER_STEP", 1)
        patch.setattr(building, "ECHO_STEPS", 3)
        folders = (tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("two"))
        for folder in folders:
            assert build(folder, 7, 2 / building.STEPS_PER_MINUTE) == Build(7, 2)
    return folders


def test_a_build_is_the_same_from_the_same_seed(built: tuple[Path, Path]) -> None:
    one, two = built
    for name in ("model.safetensors", "tokenizer.json", "config.json"):
        assert (one / name).read_bytes() == (two / name).read_bytes()


def test_transformers_loads_the_folder_and_renders_as_we_do(built: tuple[Path, Path]) -> None:
    model = AutoModelForCausalLM.from_pretrained(built[0])
    assert model.dtype == torch.float32
    assert 500_000 < model.num_parameters() < 1_900_000
    theirs = AutoTokenizer.from_pretrained(built[0])
    ours = Tokenizer.load(built[0])
    messages = NanoProfile().play("Which lever? Actions: 1..9", "Think.")
    chat = [{"role": message.role, "content": message.content} for message in messages]
    rendered = theirs.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
    assert rendered == f"<|user|>{messages[0].content}<|end|><|assistant|>"
    assert theirs(rendered)["input_ids"] == ours.prompt_ids(messages)
    assert ours.end_ids == {model.generation_config.eos_token_id} == {theirs.eos_token_id}


def test_only_tokens_of_the_assistant_are_imitated(built: tuple[Path, Path]) -> None:
    tokenizer = Tokenizer.load(built[0])
    play = demonstrate(0, 1, [TIDES], NanoProfile()).plays[0]
    ids, imitated = encode(tokenizer._bpe, play)
    assert ids == tokenizer.encode("".join(f"<|{message.role}|>{message.content}<|end|>" for message in play))
    said = "".join(message.content + "<|end|>" for message in play if message.role == "assistant")
    assert tokenizer.encode(said) == [id for id, mark in zip(ids, imitated, strict=True) if mark]


def test_an_episode_is_tokenised_as_its_rendering(built: tuple[Path, Path]) -> None:
    tokenizer = Tokenizer.load(built[0])
    play = list(demonstrate(0, 2, [TIDES], NanoProfile()).plays[1])
    ids = tokenizer.prompt_ids(play[:1])
    for place in range(1, len(play) - 1, 2):
        sampled = [*tokenizer.encode(play[place].content), *tokenizer.end_ids]
        ids += sampled + tokenizer.turn_ids(sampled, [play[place + 1]])
    assert ids == tokenizer.prompt_ids(play[:-1])


def test_the_learning_rate_rises_stays_and_falls() -> None:
    assert [round(schedule(at), 3) for at in (0.01, 0.02, 0.2, 0.6, 1.0)] == [0.5, 1.0, 1.0, 0.5, 0.0]
