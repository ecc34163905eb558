"""Check the files of a checkpoint before anything of a run starts. No torch here: a check takes milliseconds.

It finds what the files alone show. Loading finds the rest (`spade.policy.model.load`), and so do the engine's and the
learner's comparisons with the model's own forward.
"""

from pathlib import Path

from safetensors import SafetensorError, safe_open

from spade.decoding import printable
from spade.errors import RunError
from spade.policy import model_folder
from spade.policy.parameter_files import parameter_files
from spade.tokens import Tokenizer


def check_files(folder: Path, *, thinking: bool = False) -> Tokenizer:
    """Check the files of a checkpoint folder, and return its tokenizer.

    Raises RunError if a file is missing, cannot be read or does not fit the others.
    """
    facts = model_folder.facts(folder)
    tokenizer = Tokenizer.load(folder, thinking=thinking)
    if facts.vocabulary is not None and tokenizer.size > facts.vocabulary:
        raise RunError(
            f"{folder}: its tokenizer has {tokenizer.size} tokens, and its model embeds {facts.vocabulary}; give a "
            "checkpoint whose tokenizer.json and config.json belong together"
        )
    for file in parameter_files(folder):
        try:
            with safe_open(file, framework="numpy"):
                pass
        except (OSError, SafetensorError) as error:
            raise RunError(f"{file}: {printable(error)}; give a whole checkpoint") from None
    return tokenizer
