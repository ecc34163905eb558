"""SmolLM2 as a GGUF file: its tokenizer, its template, its heads. Two layers, since Transformers reads slowly."""

import json
import shutil

from safetensors.torch import load_file, save_file
from transformers import PreTrainedTokenizerFast

from spade.app.models.gguf_export import write_gguf
from spade.policy.manifest import PARAMETERS
from spade.tokens.files import read_settings, read_template, read_tokenizer

LAYERS = 1


def test_its_gguf_file_has_its_log_probabilities_and_its_tokens(smollm2, tmp_path):
    folder, file = shutil.copytree(smollm2, tmp_path / "model"), tmp_path / "model.gguf"
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"num_hidden_layers": LAYERS}))
    kept = {
        name: value
        for name, value in load_file(folder / PARAMETERS).items()
        if not name.startswith("model.layers.") or int(name.split(".")[2]) < LAYERS
    }
    save_file(kept, folder / PARAMETERS)
    assert write_gguf(folder, file, "smollm2") == "", "it compares the log-probabilities"
    tokenizer = PreTrainedTokenizerFast.from_pretrained(tmp_path, gguf_file=file.name)
    text = "<|im_start|>user\nWhat is 12 + 345?  It's café time.<|im_end|>\n"
    assert tokenizer(text).input_ids == read_tokenizer(folder / "tokenizer.json").encode(text).ids
    assert tokenizer.chat_template == read_template(folder, read_settings(folder))
    assert tokenizer.eos_token == "<|im_end|>"
