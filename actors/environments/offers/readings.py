"""Read a list of actions that is not in the exact form, or a sentence that asks for an action. Pure.

The author may have meant any of several readings, so random play draws from all of them.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from actors.environments.offers.words import (
    MARKED,
    PLACE,
    RANGE,
    SPREAD,
    choose_some,
    draw_decimals,
    expand_commands,
    expand_ranges,
    read_marked,
    spread,
)

LONGEST = 80
"""The largest number of characters of an action."""
_MOST_LABELS = 4
"""Of labels, of lines with a question, and of sentences that ask for an action, only this many are read: the last ones
of each kind."""
_MOST = 200
"""The largest number of actions of a reading."""

_ANY = re.compile(r"(?:your )?(?:action|answer|choice|command|move)|[.…]*", re.IGNORECASE)
"""Text in a box that stands for any action."""
_LABEL = re.compile(
    r"\b(?:actions?|moves?|commands?|options?|choices?|inputs?|ask about|one of|you (?:can|may))\b"
    r"[^.!?:=→\n]{0,50}[:=→](?![^\s*])|^#+ .*\b(?:actions|moves|commands|options)\b",
    re.IGNORECASE,
)
_UNMEANT = re.compile(
    r"[^:=→]*\b(?:last|previous|past|made|left|taken|remaining|invalid|unknown|illegal|used)\b"
    r"|[^:=→]*[:=→]\W*\d+(?: ?/ ?\d| of | out of |$)",
    re.IGNORECASE,
)
"""A label of past or refused actions, or of a counter."""
_SENTENCE = re.compile(r"(?<=[^\d.][.!?]) +(?=[A-Z])")
_ASKS = re.compile(
    r"\b(?:you (?:can|may|could)|(?:do|will|would) you|choose|pick|select|enter|type|say|reply|respond|answer|use|guess"
    r"|submit|either|include|number|integer)\b(?: (?:now|only|with|by|one|of|from|among|either|to|the)\b)*[: ]*",
    re.IGNORECASE,
)
_ASIDE = re.compile(r"[(\[{]([^()\[\]{}]{1,200})[)\]}]\W{0,9}$")
_OUTSIDE = r"(?![^<>\n]{0,40}>)"
_SEPARATORS = [re.compile(each) for each in ("\n", ";", "[,\uff0c、]", rf"\|{_OUTSIDE}", f"/{_OUTSIDE}", " or ")]
_ENUMERATED = re.compile(r"(?:^|(?<=[ ,]))[(\[]?([A-Za-z]|\d{1,2})[).:\]](?=[^\d\W]| )", re.MULTILINE)
_BULLET = re.compile(r"\A(?:[-*+>–•‣·●○▪►] ?|(?:and|or|either|to) )+", re.IGNORECASE)
_ABOUT = re.compile(r": | [-–—=→(]| where | with ")
_EDGES = " \t.;,:!?*\"'`“”\u2018\u2019«»"


def find_readings(lines: Sequence[str], listed: str, draw: int) -> list[Sequence[str]]:
    """Return the readings of `listed`, else of the lists after labels, else of the sentences that ask for an action.

    `draw` decides which numbers of a long range are read, and which actions of a long list.
    """
    for texts, spaces in (
        (_SENTENCE.split(listed)[:1], True),
        (_find_labelled(lines), True),
        (_find_asking(lines), False),
    ):
        found = dict.fromkeys(
            tuple(filter_sendable(reading, draw)) for text in texts for reading in _read(text, spaces, draw)
        )
        several = [each for each in found if len(each) > 1 or (each and PLACE.search(each[0]))]
        if several:
            return list(several)
    return []


def filter_sendable(actions: Iterable[str], draw: int) -> Sequence[str]:
    """Return the distinct actions that a player could send: of one line, and of at most LONGEST characters."""
    stripped = (action.strip() for action in actions)
    return choose_some((each for each in stripped if 0 < len(each) <= LONGEST and each.isprintable()), _MOST, draw)


def _find_labelled(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lists after labels, on the line of the label or on the lines below."""
    labels = [(at, label) for at, line in enumerate(lines) for label in _LABEL.finditer(line)]
    for at, label in labels[-_MOST_LABELS:]:
        said = re.split(r"[.:!?]", lines[at][: label.start()])[-1][-20:] + label[0]
        text = _SENTENCE.split(lines[at][label.end() :].strip(" *_`"), maxsplit=1)[0]
        if not _UNMEANT.match(f"{said} {text}"):
            below = "\n".join(_read_block(lines[at + 1 :])) if not text or _ASIDE.match(text) else ""
            yield below or text


def _read_block(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines of the first block of text. The block ends before an empty line or a line with a label."""
    begun = False
    for line in lines:
        if begun and (not line or _LABEL.search(line)):
            return
        begun = begun or bool(line)
        if line:
            yield line


def _find_asking(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lists below lines that end with a question mark, and the lists in sentences that ask for an action."""
    for at in [at for at, line in enumerate(lines) if line.endswith("?")][-_MOST_LABELS:]:
        below = list(_read_block(lines[at + 1 :]))
        if all(_BULLET.match(each) or _ENUMERATED.match(each) for each in below):
            yield "\n".join(below)
    sentences = (sentence for line in lines for sentence in _SENTENCE.split(line))
    asking = [sentence[asks.end() :] for sentence in sentences if (asks := _ASKS.search(sentence))]
    yield from asking[-_MOST_LABELS:]


def _read(text: str, spaces: bool, draw: int) -> Iterator[Iterable[str]]:
    """Yield the readings of a list: its marked texts, its labels, its items with and without explanations.

    With `spaces`, a list without a separator is split into words.
    """
    marks = [mark for mark in MARKED.finditer(text) if not _ANY.fullmatch(read_marked(mark).strip("<>[]_ "))]
    yield map(read_marked, marks)
    text = MARKED.sub(lambda mark: "" if _ANY.fullmatch(read_marked(mark).strip("<>[]_ ")) else read_marked(mark), text)
    aside = _ASIDE.search(RANGE.sub("", text))
    inside = _split_items(aside[1]) if aside else []
    if len(inside) > 1:
        yield inside
    elif (RANGE.search(text) or SPREAD.search(text)) and not PLACE.search(text):
        rest = [each for each in _split_items(SPREAD.sub("", RANGE.sub("", text))) if " " not in each]
        yield (*expand_ranges(text, _MOST, draw), *spread(text, draw), *rest)
        yield draw_decimals(text, draw)
        if with_verbs := list(expand_commands(text, _MOST, draw)):
            yield (*with_verbs, *(each for each in _split_items(text) if not RANGE.search(each)))
    elif len(labels := _ENUMERATED.findall(text)) > 1:
        yield labels
        yield (_ABOUT.split(each)[0].strip(_EDGES) for each in _ENUMERATED.split(text)[2::2] if each[:1] == " ")
    else:
        items = _split_items(text)
        yield (_ABOUT.split(each)[0].strip(_EDGES) for each in items)
        yield (each.strip(_EDGES) for each in items)
        if spaces and len(items) == 1:
            yield _ABOUT.split(text)[0].rstrip(" .").split()


def _split_items(text: str) -> list[str]:
    """Split a list at its strongest separator. If that is ";" or ",", split the last item at "or" and "and" as well."""
    separator = next((each for each in _SEPARATORS if each.search(text)), _SEPARATORS[0])
    items = [_BULLET.sub("", part.strip()) for part in separator.split(text)]
    if separator in _SEPARATORS[1:3]:
        items[-1:] = re.split(" or | and ", items[-1])
    return [each for each in items if each.strip(_EDGES)]
