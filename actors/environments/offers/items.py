r"""A list of actions, split: its items, and the actions of each item as `step` takes them. Pure.

An item may be bare, in a box, in quotes, backticks or bold; numbered or lettered; followed by what it does; a range; or
have placeholders.
"""

import re
from collections.abc import Iterator

from actors.environments.offers.placeholders import filled
from actors.environments.offers.ranges import RANGE, numbers
from actors.environments.offers.words import Words, vocabulary

LONGEST = 80
"""Most characters of an action."""

# Python reads `\b` in an ordinary string as a control character, with which many boxes therefore begin.
_BOX = r"(?:(?<!\\)\\+b|\x08|\bb)oxed ?\{((?:[^{}]|\{[^{}]{0,40}\}){1,120})\}"
_QUOTES = (
    r"\"([^\"]{1,80})\"|(?<!\w)'([^']{1,80})'(?!\w)|`([^`]{1,80})`|“([^”]{1,80})”|(?<!\w)\u2018([^\u2019]{1,80})\u2019(?!\w)"
    r"|«([^»]{1,80})»|\*\*([^*]{1,80})\*\*|__([^_]{1,80})__"
)
_MARKED = re.compile(f"{_BOX}|{_QUOTES}")
_WHOLE = re.compile(
    rf"(?:{_BOX}|{_QUOTES})|\([^()]{{0,200}}\)|\[[^\[\]]{{0,200}}\]|\{{[^{{}}]{{0,200}}\}}|<[^<>]{{1,40}}>"
)

_AROUND = re.compile(r"(?:[a-z]{3,10}\()?[\[({](?P<inside>[^\[\]{}]*|[^\[\]()]*)[\])}]\)?")
_COMMA = re.compile(r" ?, | ,$|,$|、")
_TIGHT_COMMA = re.compile(r",")
_SEMICOLON = re.compile(r" ?; ?")
_PIPE = re.compile(r" ?\|+ ?")
_SLASH = re.compile(r" / |(?<!\d)/|/(?!\d)| // ")
_OR = re.compile(r" or (?:else )?| OR ")
_AND = re.compile(r" and ")
_SPACE = re.compile(r" (?![<{])")
_LETTERED = re.compile(r"(?:^| )(?=\(?(?:[A-Za-z]|\d{1,3})[).] \S)")

_LABEL = re.compile(
    r"(?:\((\w{1,3})\)|\[(\w{1,3})\]|([A-Za-z]|\d{1,3})[).]|([A-Za-z]|\d{1,3}) ?(?:[:=]|-{1,2}>?|–|—|→)) +(?=\S)"
)
_INITIAL = re.compile(r"[\[(](\w)[\])](\w{1,20})")
_BULLET = re.compile(r"\A(?:[-*+>–—] +|[•‣·●○▪►] *)")
_LEAD = re.compile(r"\A(?:(?:and|or|either|to|then|also|e\.g\.|i\.e\.|for example) )+", re.IGNORECASE)
_ABOUT = re.compile(r" ?: +| ?:$| (?:[-–—=→]|->|=>|--) | \(| where | with (?=\d)")
_NUMBERISH = vocabulary("a an any the number integer whole digit value from in inclusive of one single")
_NUMBERS = vocabulary("n number integer digit")
_META = vocabulary(
    "action actions answer choice command move option response reply text input here something x it this"
)
_PROSE = vocabulary("the you your is are a an of with will can must this that it be has have not from each its")
_OPENING = re.compile(r"[<{\[]")
_EDGES = " \t.;,:!?*\"`'\u2018\u2019“”"


def items(text: str, spaces: bool = True) -> list[str]:
    """The items of a list on one line. Spaces alone separate items only with `spaces`, and never in prose."""
    text = text.strip(" \t.;")
    around = _AROUND.fullmatch(text)
    text = around["inside"].strip() if around else text
    masked = _WHOLE.sub(lambda whole: "\0" * len(whole[0]), text)
    first, second = (_COMMA, _SEMICOLON) if _MARKED.match(text) else (_SEMICOLON, _COMMA)
    for separator in (first, _LETTERED, second, _PIPE, _TIGHT_COMMA):
        found = _cut(text, masked, separator)
        if len(found) > 1:
            listed = separator in (_COMMA, _SEMICOLON)
            return [part for at, each in enumerate(found) for part in _parted(each, listed and at == len(found) - 1)]
    found = _parted(text, False)
    ranged = RANGE.search(text)
    if len(found) > 1 or not spaces or (ranged and " " in ranged[0]):
        return found
    words = text.lower().split()
    # In `a b c` the first is no article.
    if _PROSE.intersection(words) and len(words) > 2 and max(map(len, words)) > 1:
        return [text] if text.count(" ") < 5 or _MARKED.search(text) else []
    return _cut(text, masked, _SPACE)


def _parted(text: str, last: bool) -> list[str]:
    """The parts between "or" and slashes; in a `last` item "and" divides too.

    `go north/south` gives `go north`, `go south` and `south`, since either may be meant.
    """
    masked = _WHOLE.sub(lambda whole: "\0" * len(whole[0]), text)
    for separator in (_OR, _AND) if last else (_OR,):
        found = _cut(text, masked, separator)
        if len(found) > 1:
            return found
    found = _cut(text, masked, _SLASH)
    if len(found) < 2:
        return [text]
    verb = found[0].rpartition(" ")[0]
    single = verb and ":" not in verb and all(" " not in each for each in found[1:])
    return [found[0], *(f"{verb} {each}" for each in found[1:]), *found[1:]] if single else found


def _cut(text: str, masked: str, separator: re.Pattern[str]) -> list[str]:
    """`text` at the separators of `masked`."""
    parts, end = [], 0
    for match in separator.finditer(masked):
        parts.append(text[end : match.start()])
        end = match.end()
    return [part for part in (*parts, text[end:]) if part.strip(_EDGES)]


def marked(text: str) -> list[str]:
    """The text in boxes, quotes, backticks or bold, except words that stand for any action, such as "action"."""
    found = (next(filter(None, match.groups()), "").strip() for match in _MARKED.finditer(text))
    return [each for each in found if each.strip(" .…<>[]_").lower().removeprefix("your ") not in _META]


def actions(item: str, words: Words) -> Iterator[str]:
    """The actions of one item, each of one line and at most LONGEST characters."""
    for action in _spelled(item, words):
        action = action.strip()
        if action and len(action) <= LONGEST and action.isprintable():
            yield action


def _spelled(item: str, words: Words) -> Iterator[str]:
    item = _LEAD.sub("", _BULLET.sub("", item.strip())).strip()
    label = _LABEL.match(item)
    if label:
        yield next(filter(None, label.groups()))
        item = item[label.end() :]
    boxes = _MARKED.search(item)
    if boxes:
        insides = marked(item) if boxes.start() else marked(boxes[0])
        for inside in insides:
            yield from _bare(f"<{inside}>" if inside.lower() in _NUMBERS else inside, item[boxes.end() :], words)
        if insides:
            return
        item = item[: boxes.start()]
    about = _ABOUT.search(item)
    name = item[: about.start()] if about else item
    yield from _bare(name, item[len(name) :], words)


def _bare(name: str, about: str, words: Words) -> Iterator[str]:
    """The actions of a name without marks around it."""
    name = name.strip() if name.rstrip().endswith((" ...", " …")) else name.strip(_EDGES + "…")
    initial = _INITIAL.fullmatch(name)
    ranged = RANGE.search(name)
    if initial:
        yield from (initial[1], initial[1] + initial[2])
    elif ranged and not _OPENING.search(name[: ranged.start()] + name[ranged.end() :]):
        yield from _ranged(name, ranged)
    elif name.startswith("[") and name.find("]") == len(name) - 1 and not _numeric(name):
        yield from _bare(name[1:-1].replace("[", ""), about, words)
    elif len(name.split()) <= 8:
        yield from filled(name, words, about)


def _numeric(name: str) -> bool:
    return bool(_NUMBERS.intersection(name.lower().strip("[]").split()))


def _ranged(name: str, ranged: re.Match[str]) -> Iterator[str]:
    """The numbers of `1..20`; of `guess 1-20`, which may mean either, also the numbers behind the word."""
    found = numbers(ranged)
    before = name[: ranged.start()].strip(" :=(")
    if "-" in ranged[0].lstrip("-") and (not found or len(found[-1]) < 2):  # which may be a place in a grid
        yield ranged[0]
    yield from found
    if before and len(before.split()) <= 3 and not _NUMBERISH.issuperset(before.lower().split()):
        join = name[len(before) : ranged.start()].strip(" (") or " "
        yield from (f"{before}{join}{number}" for number in found)
