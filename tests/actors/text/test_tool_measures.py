"""Measures of programs with tools: their tools, the conditions of their criteria, guarded failures."""

from textwrap import indent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.text.measures.program import measure
from spade.protocol import Measures
from tests.actors import tool_programs


def desk(criteria="[]", close="self._state['closed'].append(ticket)\nreturn 'closed'", before="pass", more=""):
    return f"""class DeskEnv(ToolUseBaseEnv):
    def reset(self, seed):
{indent(before, " " * 8)}
        self._message_criteria = {criteria}
        return "Close it.", {{}}

    def tool_close(self, ticket):
{indent(close, " " * 8)}

    def tool_look(self):
        return "T-7"

{indent(more, " " * 4)}
"""


def measured(**parts):
    return measure(desk(**parts), "DeskEnv")


def test_tools_are_counted_and_their_state_is_no_hidden_variable():
    whole = measured(before="self._state = {'closed': [], 'rng': random.Random(seed)}")
    assert whole == Measures(lines=10, tools=2, guarded=False)
    assert measure("class AEnv:\n    def tool_x(self): pass\n", "AEnv") == Measures(2, 0)


@pytest.mark.parametrize(("criteria", "before", "more", "conditions"), [
    ("[lambda s: s['a'] == 1, lambda s: s['b']]", "", "", 0.5),
    ("[lambda s: 1 < s['a'] < 3 and not s['b']]", "", "", 4.0),
    ("[lambda s: s['a'] or s['b'] or s['c']]", "", "", 2.0),
    ("[lambda s, t=t: t in s['done'] and s['ok'] for t in names]", "names = ['x']", "", 2.0),
    ("[met, self.closed]", "def met(s):\n    if s['a'] == 1 and s['b'] > 2:\n        return True\n    return False",
     "def closed(self, s): return s['x'] is None", 2.0),
    ("[self.is_closed('T-7'), lambda s: True]", "", "def is_closed(self, t): return lambda s: t in s['x']", 0.5),
    ("found", "found = []\nfound.append(lambda s: s['a'] == 1)\nfound.extend([lambda s: 1 < s['b'] < 3])", "", 1.5),
    ("found", "found = other\nother = found", "", None),
    ("make()", "", "", None),
])  # fmt: skip
def test_conditions_are_the_comparisons_and_boolean_operators_of_a_criterion(criteria, before, more, conditions):
    assert measured(criteria=criteria, before=before or "pass", more=more).conditions == conditions


CHANGE = "self._state['closed'].append(ticket)\nreturn 'closed'"


@pytest.mark.parametrize(("close", "guarded"), [
    (CHANGE, False),
    (f"if ticket not in self._state['open']:\n    return 'no such ticket'\n{CHANGE}", True),
    (f"if ticket in self._state['open']:\n    {CHANGE.replace(chr(10), '; ')}\nelse:\n    return 'no'", True),
    ("found = self._state['open'].get(ticket)\nif not found: return 'no'\nfound['s'] = 'closed'\nreturn 'ok'", True),
    ("if (found := self._state.get(ticket)) is None: return 'no'\nfound.pop('x')\nreturn 'ok'", True),
    ("for each in self._state['all']:\n    if each == 1: return 'no'\n    each.update(x=1)\nreturn 'ok'", True),
    # Both ways change something, or nothing does.
    ("if ticket == 'T-7':\n    self._state['seen'] = ticket\n    return 'no'\n" + CHANGE, False),
    ("if ticket == 'T-7':\n    return 'no'\nreturn 'yes'", False),
    ("words = []\nif ticket == 'T-7':\n    return 'no'\nwords.append(ticket)\nreturn str(words)", False),
    ("if ticket == 'T-7':\n    note = 'no'\n" + CHANGE, False),
])  # fmt: skip
def test_a_guarded_failure_is_a_return_under_an_if_that_leaves_the_state_as_it_is(close, guarded):
    assert measured(close=close).guarded is guarded


def test_programs_of_every_style_are_measured():
    figures = {name: measure(getattr(tool_programs, name.upper()), kind) for name, kind in (
        ("parcels", "ParcelCounterEnv"), ("tickets", "TicketDeskEnv"),
    )}  # fmt: skip
    assert figures["parcels"] == Measures(95, tools=4, conditions=1.0, guarded=True)
    assert figures["tickets"].tools == 4


@given(st.text(alphabet="self._message_criteria=[]()\n :,lambda dx", max_size=200))
def test_no_text_of_a_method_stops_a_measurement(text):
    assert measured(before=text or "pass").lines is not None
