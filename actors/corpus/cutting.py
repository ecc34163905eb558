"""Cuts long texts to a budget of tokens, at the end of a sentence."""

import re
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path

from spade.policy import model_folder
from spade.tokens import Tokenizer

BYTES_PER_TOKEN = 4  # without a tokenizer: about the ratio of instruct models' tokenizers for English prose
# A sentence ends at a mark such as "." with the quotes or brackets that follow it, at an empty line, or at the text's
# end.
_END = re.compile(
    r"[.!?\u2026][\"'\u201d\u2019)\]]*(?=\s)"
    r"|[\u3002\uff01\uff1f][\u201d\u2019\u300d\u300f\uff09]*"  # Chinese and Japanese have no space between sentences
    r"|(?=\n[^\S\n]*\n)|\Z"
)

Counter = Callable[[str], int]


def make_counter(tokenizer: str) -> Counter:
    """Return a function that counts the tokens of a text.

    `tokenizer` names the model that has the tokenizer, as in model.path. If it is "", tokens are estimated from bytes.

    Raises ConfigError or RunError if the tokenizer cannot be loaded.
    """
    if not tokenizer:
        return lambda text: -(-len(text.encode()) // BYTES_PER_TOKEN)
    loaded = Tokenizer.load(Path(model_folder.resolve(tokenizer)))
    return lambda text: len(loaded.encode(text))


def cut_at_sentence(text: str, tokens: int, count: Counter) -> str:
    """Return the longest beginning of `text` that has only whole sentences and fits into `tokens`.

    Returns "" if the first sentence is longer.
    """
    ends = [found.end() for found in _END.finditer(text)]
    high = 1  # number of sentences, doubled until they exceed the budget, so that little further text is read
    while high < len(ends) and count(text[: ends[high - 1]]) <= tokens:
        high = min(2 * high, len(ends))
    fitting = bisect_right(range(1, high + 1), tokens, key=lambda sentences: count(text[: ends[sentences - 1]]))
    return text[: ends[fitting - 1]].rstrip() if fitting else ""
