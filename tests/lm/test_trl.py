"""TRL's SFT reads our training examples, trains the sampled tokens alone, and saves a checkpoint that a run takes."""

import msgspec
import torch
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

from actors.text.profile import ChatMessage
from replay.inspect.training_examples import TRAIN, ExampleRow, write_rows
from spade.policy.checkpoint_files import check_files
from spade.policy.model import compute_parameters_digest, load
from spade.tokens import Tokenizer, write_example

OPENING = [
    ChatMessage("system", "You play."), ChatMessage("user", "4 + 3 = ?"), ChatMessage("assistant", "\\boxed{7}"),
]  # fmt: skip
ANSWERS = {
    "2 + 2 = ?": "\\boxed{4}",
    "Actions: left right": "Left it is.\n\\boxed{left}",
    "Écris 🙂": "def f():\n    pass",
}


def test_sft_trains_the_sampled_tokens_and_its_checkpoint_is_a_run_s(smollm2, tmp_path):
    tokenizer, rows, expected = Tokenizer.load(smollm2), [], []
    [end] = [id for id in tokenizer.end_ids if tokenizer.token_text(id) == "<|im_end|>"]
    for question, text in ANSWERS.items():
        prompt = tokenizer.prompt_ids([*OPENING, ChatMessage("user", question)])
        sampled = [*tokenizer.encode(text), end]
        example = write_example(tokenizer, prompt, sampled)
        assert example.exact
        rows.append(
            ExampleRow(question, "agent", "", 1.0, example.prompt, [example.completion], {"enable_thinking": False})
        )
        expected.append((prompt, sampled))
    (tmp_path / "data").mkdir()
    write_rows(tmp_path / "data" / TRAIN, rows)
    settings = SFTConfig(
        str(tmp_path / "out"), max_steps=1, per_device_train_batch_size=1, use_cpu=True, report_to="none",
        save_strategy="no", learning_rate=1e-4, model_init_kwargs={"dtype": torch.bfloat16},
    )  # fmt: skip
    data = load_dataset(str(tmp_path / "data"), cache_dir=str(tmp_path / "cache"))["train"]
    trainer = SFTTrainer(str(smollm2), args=settings, train_dataset=data)
    for row, (prompt, sampled) in zip(trainer.train_dataset, expected, strict=True):
        whole, trained = row["input_ids"], [label != -100 for label in row["labels"]]
        assert whole[: len(prompt) + len(sampled)] == [*prompt, *sampled]
        assert trained == [False] * len(prompt) + [True] * (len(whole) - len(prompt))
        assert tokenizer.decode(whole[len(prompt) + len(sampled) :]).strip() == ""  # the template's end of a line
    trainer.train()
    trainer.save_model()
    found, _ = check_files(tmp_path / "out")
    assert found.prompt_ids([ChatMessage("user", "Hi")]) == tokenizer.prompt_ids([ChatMessage("user", "Hi")])
    assert compute_parameters_digest(tmp_path / "out") != compute_parameters_digest(smollm2)
    load(tmp_path / "out", dtype="bfloat16", device=torch.device("cpu"))
    assert (
        msgspec.json.decode((tmp_path / "data" / TRAIN).read_bytes().splitlines()[0])["prompt"][0]["role"] == "system"
    )
