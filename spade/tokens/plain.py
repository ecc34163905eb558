"""A checkpoint's tokenizer without its control tokens. It encodes every text as plain text.

Control tokens are the added tokens, special or not, except tokens of white space alone (some vocabularies add runs of
spaces and newlines). They are removed from the added tokens, the vocabulary and the merges, so that no text can produce
their ids.
"""

import json
from collections.abc import Callable
from typing import Any

import tokenizers

from spade.errors import RunError

LONG_TEXT = 16_384
"""Longer texts, in characters, are encoded with Python's lock released. For shorter texts this costs more than it
gains."""

_READ_AHEAD = 4
"""Of a long text, only this many characters for each token of `room` are encoded at first. Most texts have fewer
characters per token, so this part usually exceeds `room`, and the rest need not be read."""


def list_control_ids(bpe: tokenizers.Tokenizer) -> frozenset[int]:
    """Return the ids of the control tokens."""
    return frozenset(id for id, token in bpe.get_added_tokens_decoder().items() if not _is_blank(token.content))


def encode_within(encode: Callable[[str], list[int]], text: str, room: int) -> list[int]:
    """Encode `text` with `encode`, in a time that `room` bounds, however long the text is.

    If the text's beginning alone exceeds `room`, this may return only the ids of the beginning.
    """
    end = _READ_AHEAD * (max(room, 0) + 1)
    while end < len(text):
        beginning = encode(text[:end])
        if len(beginning) > room:
            return beginning
        end *= _READ_AHEAD
    return encode(text)


class PlainText:
    """An encoder of the text that stands between two control tokens."""

    def __init__(self, bpe: tokenizers.Tokenizer) -> None:
        """Raise RunError unless `bpe` is a byte-pair encoding.

        Tokens cannot be removed safely from other models.
        """
        tree = json.loads(bpe.to_str())
        if tree["model"]["type"] != "BPE":
            raise RunError(
                f"tokenizer.json: a model of type {tree['model']['type']} may read control tokens in the "
                "text of a program; use a checkpoint with a byte-pair encoding (BPE)"
            )
        _take_out_controls(tree)
        tree["pre_tokenizer"] = _never_first(tree["pre_tokenizer"])
        self._bpe = tokenizers.Tokenizer.from_str(json.dumps(tree))
        if list_control_ids(bpe) & set(self._bpe.get_vocab().values()):
            raise RunError("tokenizer.json: a control token has the id of another token; the file is damaged")

    def ids(self, text: str, room: int) -> list[int]:
        """Encode `text`. If its beginning alone exceeds `room`, this may return only the ids of the beginning."""
        return encode_within(self._encode, text, room)

    def _encode(self, text: str) -> list[int]:
        if len(text) <= LONG_TEXT:
            encoding = self._bpe.encode(text, add_special_tokens=False)
        else:
            [encoding] = self._bpe.encode_batch_fast([text], add_special_tokens=False)
        ids: list[int] = encoding.ids
        return ids


def _is_blank(content: str) -> bool:
    return content.replace("▁", " ").isspace()


def _take_out_controls(tree: dict[str, Any]) -> None:
    controls = {token["content"] for token in tree["added_tokens"] if not _is_blank(token["content"])}
    tree["added_tokens"] = [token for token in tree["added_tokens"] if _is_blank(token["content"])]
    model = tree["model"]
    model["vocab"] = {text: id for text, id in model["vocab"].items() if text not in controls}
    # An added token that is not in the vocabulary would get the next free id.
    model["vocab"].update((token["content"], token["id"]) for token in tree["added_tokens"])
    model["merges"] = [merge for merge in model["merges"] if not controls & {*merge, "".join(merge)}]
    if model["unk_token"] in controls:
        model["unk_token"] = None


def _never_first(tree: Any) -> Any:
    """Adapt the pre-tokenizer to text that follows a token.

    The scheme `first` prepends a space, which is right only at the beginning of a conversation.
    """
    match tree:
        case dict():
            never = {"prepend_scheme": "never"} if tree.get("prepend_scheme") == "first" else {}
            return {**{name: _never_first(value) for name, value in tree.items()}, **never}
        case list():
            return [_never_first(value) for value in tree]
    return tree
