"""Where an observation lists its actions: behind a label (`Available actions:`) or in a sentence (`Choose a or b.`).

Pure. A text is searched by lines, each once; a label has a bounded reach.
"""

import re
from collections.abc import Iterator, Sequence

from actors.environments.offers.items import items, marked
from actors.environments.offers.ranges import RANGE
from actors.environments.offers.words import vocabulary

MOST_ITEMS = 300
_LINES_BELOW = 100
_MOST_LABELS = 24

_NOUN = r"actions?|moves?|options?|choices?|commands?"
_OTHER_NOUN = (
    r"inputs?|answers?|responses?|replies|directions?|verbs?|tools?|operations?|controls?|keys?|values?|guess(?:es)?"
)
_OPEN = r"available|valid|possible|legal|allowed|permitted|accepted|supported|current"
_MARK = r"[*_`]{0,3} ?(?::|=(?!=)| - | – | — | ?→ ?|\bare\b ?:?|\binclude\b ?:?)[*_`]{0,3}(?!\S*//)"
_LABEL = re.compile(
    rf"\b(?P<noun>(?:{_NOUN})\b|(?:{_OPEN}) (?:{_OTHER_NOUN})\b"
    r"|(?:valid|available|allowed|usage|syntax|format)\b(?= ?:))"
    rf"(?P<after>[^:=.!?\n]{{0,50}}?){_MARK}",
    re.IGNORECASE,
)
_PICK = re.compile(
    r"\b(?:choose|pick|select|enter|type|use one of|reply with|respond with|answer with"
    r"|you (?:can|may|could))\b(?P<after>[^:.!?\n]{0,50}):[*_`]{0,3}",
    re.IGNORECASE,
)
_HEADING = re.compile(
    rf"\W*(?:(?:the|your|{_OPEN}) ){{0,3}}(?:{_NOUN})(?: (?:{_OPEN}|you can take))?\W*", re.IGNORECASE
)
_VERB = re.compile(r"(?:are|include) ?[*_`]*\Z", re.IGNORECASE)
_COMMON = re.compile(rf"{_OPEN}|the|your|these|following", re.IGNORECASE)
_NOT_BEFORE = vocabulary(
    "last previous past prior recent earlier invalid illegal unknown unrecognized unrecognised bad wrong no total "
    "remaining used opponent's her his their max maximum"
)
_NOT_AFTER = vocabulary(
    "left remaining taken made used so far history count point points budget limit log cost costs done tried performed "
    "executed chosen was were number"
)
_LAST_ONE = vocabulary("action move option choice command")
"""With one of these nouns a label names what was done, unless a word of _MEANT stands beside it."""
_MEANT = vocabulary("format syntax space valid available possible allowed legal set next")
_COUNTER = re.compile(r"\d+(?: ?/ ?| of | out of )\d+\b.*")
_NUMBER = re.compile(r"\d+\.?")
_LISTED_LINE = re.compile(r"(?:[-*+>–—•‣·●○▪►] ?|\(?\w{1,3}[).] |\[\w{1,3}\] |\w{1,2} ?[:=-] )\S")
_RULE = re.compile(r"[-=_~#*]{3,}")
_END = re.compile(r"(?<=[^\d.][.!?]) +(?=[A-Z])")

_ASKING = re.compile(
    r"\b(?:you (?:can|may|could)(?! ?not|'t)|do you|will you|would you|what (?:do|will)|choose|pick|select|enter"
    r"|type|say|reply|respond|answer|use|submit|guess|input|decide|either|name|call|(?:numbers?|integers?|digits?)\b)\b",
    re.IGNORECASE,
)
_OFFERING = re.compile(
    r"\b(?:you (?:can|may|could)(?! ?not|'t)|do you|will you|would you|choose|pick|select|enter|type|say|reply|respond"
    r"|answer|use|either|one of)\b(?: (?:now|also|only|then|with|by|one|of|from|between|among|either|to|the|following"
    r"|exactly|these|in|want to))*[: ]+(?P<rest>.+)",
    re.IGNORECASE,
)
_BRACKETED = re.compile(r"[(\[]([^()\[\]]{1,200})[)\]] ?[:?>.]* ?$")
_NUMBER_ASKED = re.compile(r"\b(?:number|integer|digit|guess|value|choose|pick|enter|what|how)", re.IGNORECASE)
_EXAMPLE = re.compile(r"(?:e\.g\.|for example|like|such as)[,:]? ", re.IGNORECASE)
_PLACE = re.compile(r"<[^<>]{1,40}>")


def labelled(lines: Sequence[str]) -> list[str]:
    """The items behind labels; if a label comes again, those of the last one."""
    found = dict[str, list[str]]()
    labels = [label for number, line in enumerate(lines) for label in _labels(number, line)]
    for at, name, text in labels[-_MOST_LABELS:]:
        items_told = _items(text, at, lines)
        if items_told:
            found[name] = items_told
    return [item for each in found.values() for item in each][:MOST_ITEMS]


def _labels(at: int, line: str) -> Iterator[tuple[int, str, str]]:
    """The labels of a line: line number, name, and the text up to the next label; a heading has no text."""
    if _HEADING.fullmatch(line) and ":" not in line:
        yield at, line.lower(), ""
    matches = [match for match in _LABEL.finditer(line) if _lists(match)] or list(_PICK.finditer(line))[:1]
    ends = [*(match.start() for match in matches[1:]), len(line)]
    for match, end in zip(matches, ends, strict=False):
        text = line[match.end() : end].strip()
        plain = match.re is _LABEL and match["noun"].lower() == "actions"
        said = _VERB.search(match[0]) and len(items(text, spaces=False)) < 2  # "moves are limited" lists none
        if not said and not _COUNTER.fullmatch(text) and (plain or not _NUMBER.fullmatch(text)):
            yield at, _named(match), text


def _before(label: re.Match[str]) -> list[str]:
    """Up to three words of the same sentence before a label."""
    return re.split(r"[.:!?]", label.string[max(0, label.start() - 45) : label.start()])[-1].split()[-3:]


def _named(label: re.Match[str]) -> str:
    """The label's noun, with the word before it that tells it from other labels (`Item commands`)."""
    if label.re is _PICK:
        return "pick"
    kind = _before(label)[-1:]
    own = kind and kind[0].istitle() and not _COMMON.fullmatch(kind[0])
    return f"{kind[0] if own else ''} {label['noun'].lower().split()[-1]}"


def _lists(label: re.Match[str]) -> bool:
    """True if a label introduces possible actions: not past ones, not a counter."""
    before, after = _before(label), label["after"].split()
    around = {word.lower().strip("*_([") for word in (*before, *after)}
    last_one = label["noun"].lower() in _LAST_ONE and not _MEANT.intersection(around)
    denied = _NOT_BEFORE.intersection(map(str.lower, before)) or _NOT_AFTER.intersection(map(str.lower, after))
    return not last_one and not denied


def _items(text: str, at: int, lines: Sequence[str]) -> list[str]:
    """The items on a label's own line, else those on the lines below it."""
    own = text if _LISTED_LINE.match(text) else _END.split(text, maxsplit=1)[0]
    aside = own.startswith("(") and own.endswith(")")
    below = _below(at, lines, listed=aside) if aside or not own.strip(" .*_`") else []
    return below or items(own)


def _below(at: int, lines: Sequence[str], listed: bool) -> list[str]:
    """The items on the lines below one: bulleted or numbered; unless `listed`, also one line's list, or short lines."""
    block: list[str] = []
    for line in lines[at + 1 : at + 1 + _LINES_BELOW]:
        if _RULE.fullmatch(line) or (not line and not block):
            continue
        if not line or (block and _LABEL.match(line)):
            break
        block.append(line)
    bulleted = [line for line in block if _LISTED_LINE.match(line)]
    if bulleted and block and bulleted[0] == block[0]:
        return bulleted
    if listed or not block:
        return []
    if len(block) == 1 or len(items(block[0], spaces=False)) > 1:
        return items(block[0])
    short = next((at for at, line in enumerate(block) if len(line) > 60 or line.endswith(".")), len(block))
    return block[:short]


def told(lines: Sequence[str]) -> list[str]:
    """The items in sentences that ask for an action."""
    found: list[str] = []
    for at in [at for at, line in enumerate(lines) if line.endswith(("?", ":"))][-_MOST_LABELS:]:
        found += _below(at, lines, listed=True)
    for line in lines:
        for sentence in _END.split(line):
            if _ASKING.search(sentence):
                found += _asked(sentence)
    return found[:MOST_ITEMS]


def _asked(sentence: str) -> list[str]:
    marks = marked(sentence)
    if marks:
        return [f'"{mark}"' for mark in marks]
    ranged = RANGE.search(sentence)
    if ranged and _NUMBER_ASKED.search(sentence):
        return [ranged[0]]
    bracketed = _BRACKETED.search(sentence)
    example = _EXAMPLE.match(bracketed[1]) if bracketed else None
    if bracketed and example:
        return [re.sub(r"\d+", "<n>", bracketed[1][example.end() :])]
    inside = items(bracketed[1], spaces=False) if bracketed else []
    if len(inside) > 1 and all(each.count(" ") < 4 for each in inside):
        return inside
    offering = _OFFERING.search(sentence)
    offers = items(offering["rest"], spaces=False) if offering else []
    if len(offers) > 1 or _PLACE.search("".join(offers)):
        return offers if all(each.count(" ") < 5 for each in offers) else []
    return []
