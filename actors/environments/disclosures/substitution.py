"""Put other words in place of certain words. If players without the hint made the same moves, their words are taken."""

import dataclasses
import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec

from actors.environments.gifts import Acted, contain
from actors.environments.tools.evidence import read_arguments
from actors.text.actions import read_typed_action
from actors.text.conversation import Move
from actors.text.leaks import normalise_visible
from spade.protocol import ToolCall

_VALUE_WORD = re.compile(r'[^\W_]++(?!"\s*:)')
"""A word that is not the end of a key in JSON."""


class Substitution:
    """One substitute for each word of a play, and for each value of an argument.

    The same word gets the same substitute in all moves, so that a name which a player invents stays a name, and another
    word gets another one. But two arguments of one call may get different substitutes for one value, since other
    players give them different values.
    """

    def __init__(
        self, words: Sequence[str], drawn: Mapping[str, str], unaided: Sequence[Sequence[str | Move]], first: int
    ) -> None:
        """Prepare the substitutes.

        `drawn` has a substitute for each part of the words. `unaided` are the moves of plays without the hint. Play
        number `first` comes before the other ones, if there are so many.
        """
        self._words, self._substitutes = words, dict(drawn)
        moves = [move for play in (*unaided[first:], *unaided[:first]) for move in play]
        actions = [move.action if isinstance(move, Move) else move for move in moves]
        calls = [call for move in moves if isinstance(move, Move) for call in move.calls]
        self._actions = list(map(read_typed_action, actions))
        self._others = defaultdict[tuple[str, str], list[object]](list)
        for call in calls:
            for name, value in read_arguments(call).items():
                others = self._others[call.name, name]
                if isinstance(value, str | int | float) and value not in others:
                    others.append(value)
        self._values = dict[str, object]()
        self._left = set(drawn)

    def replace(self, move: Acted) -> Acted:
        """Return a move with substitutes in place of the words and of their parts."""
        if not contain([move], self._words):
            return move
        if isinstance(move, Move):
            calls = tuple(map(self._replace_call, move.calls))
            return dataclasses.replace(move, action=self._replace_action(move.action), calls=calls)
        return self._replace_action(move)

    def _replace_action(self, action: str) -> str:
        """Replace the words of an action of a game.

        If players without the hint sent an action that differs only in the words, the first such action tells them.
        """
        found = [each for each in _VALUE_WORD.finditer(action) if normalise_visible(each[0]) in self._substitutes]
        parts = [normalise_visible(each[0]) for each in found]
        if not self._left.isdisjoint(parts):
            pattern, end = "", 0
            for each in found:
                pattern += re.escape(action[end : each.start()]) + (r"(\d+)" if each[0].isdecimal() else r"([^\W_]+)")
                end = each.end()
            form = re.compile(pattern + re.escape(action[end:]), re.IGNORECASE)
            if sent := next(filter(None, map(form.fullmatch, self._actions)), None):
                self._actions.remove(sent[0])
                self._substitutes |= dict(zip(parts, sent.groups(), strict=True))
        self._left -= set(parts)
        return self._replace_words(action)

    def _replace_call(self, call: ToolCall) -> ToolCall:
        """Replace the values that have one of the words, if possible by values of players without the hint."""
        try:
            replaced = self._replace_values(call)
        except (ValueError, RecursionError):  # a substitute that is no JSON, or deeply nested arguments
            replaced = call
        if contain([Move("", (replaced,))], self._words):
            return msgspec.structs.replace(call, arguments=self._replace_words(call.arguments))
        return replaced

    def _replace_values(self, call: ToolCall) -> ToolCall:
        changed, known = dict[str, object](), dict(self._values)
        for name, value in read_arguments(call).items():
            changed[name], text = value, json.dumps(value)
            if contain([Move("", (msgspec.structs.replace(call, arguments=json.dumps({name: value})),))], self._words):
                others = self._others[call.name, name]
                if text in known:
                    changed[name] = known[text]
                else:
                    changed[name] = others.pop(0) if others else json.loads(self._replace_words(text))
                self._values[text] = changed[name]
        return msgspec.structs.replace(call, arguments=json.dumps(changed)) if changed else call

    def _replace_words(self, text: str) -> str:
        return _VALUE_WORD.sub(lambda word: self._substitutes.get(normalise_visible(word[0]), word[0]), text)
