"""Programs with tools: two in the paper's style, which grade by themselves as well, and sound ones in ours."""

from spade.protocol import ToolCall

PARCELS = '''
import json
from typing import Tuple


class ParcelCounterEnv(ToolUseBaseEnv):
    """In the paper's style: `_tools` and `_current_msg` set, grading of its own, a solution in prose."""

    def __init__(self, max_turns=12, **kwargs):
        super().__init__(max_turns=max_turns, **kwargs)

    def reset(self, seed=None) -> Tuple[str, dict]:
        self.turn_count = 0
        self._call_history = []
        rng = random.Random(seed)
        shelves = rng.sample(["A1", "A2", "B1", "B2"], 3)
        self._state = {
            "parcels": {f"P{n}": {"shelf": shelf, "status": "stored"} for n, shelf in enumerate(shelves, 10)},
            "last_lookup": None,
            "log": [],
        }
        self._tools = {
            "lookup": {
                "description": "Show a parcel.",
                "parameters": {
                    "type": "object",
                    "properties": {"parcel": {"type": "string", "description": "Its number."}},
                    "required": ["parcel"],
                },
            },
            "move": {
                "description": "Move a parcel to a shelf.",
                "parameters": {
                    "type": "object",
                    "properties": {
                        "parcel": {"type": "string"},
                        "shelf": {"type": "string", "enum": ["A1", "A2", "B1", "B2", "C1"]},
                    },
                    "required": ["parcel", "shelf"],
                },
            },
            "hand_out": {
                "description": "Give a parcel to its owner.",
                "parameters": {"type": "object", "properties": {"parcel": {"type": "string"}}, "required": ["parcel"]},
            },
            "weigh": {
                "description": "Weigh a parcel.",
                "parameters": {"type": "object", "properties": {"parcel": {"type": "string"}}, "required": ["parcel"]},
            },
        }
        self._user_messages = [
            "Where does parcel P10 stand?",
            "Put it on shelf C1, please.",
            "Its owner is here: hand it out.",
        ]
        self._message_criteria = [
            lambda s: s["last_lookup"] == "P10",
            lambda s: s["parcels"]["P10"]["shelf"] == "C1",
            lambda s: s["parcels"]["P10"]["status"] == "gone",
        ]
        self._current_msg = 0
        self._expected_answer = "done"
        return (self._user_messages[0], {})

    def _advance_if_done(self) -> str:
        if self._current_msg >= len(self._user_messages):
            return ""
        if self._message_criteria[self._current_msg](self._state):
            self._current_msg += 1
            if self._current_msg >= len(self._user_messages):
                return "\\n[THAT IS ALL]"
            return "\\n[NEXT] " + self._user_messages[self._current_msg]
        return ""

    def _check_answer(self, answer: str) -> bool:
        return True

    def step(self, action):
        return "you win", 1.0, True, False, {}

    def tool_lookup(self, parcel="") -> str:
        found = self._state["parcels"].get(parcel)
        if found is None:
            return f"Error: no parcel {parcel}" + self._advance_if_done()
        self._state["last_lookup"] = parcel
        return json.dumps(found) + self._advance_if_done()

    def tool_move(self, parcel="", shelf="") -> str:
        if parcel not in self._state["parcels"]:
            return f"Error: no parcel {parcel}" + self._advance_if_done()
        self._state["parcels"][parcel]["shelf"] = shelf
        self._state["log"].append(("move", parcel, shelf))
        return f"{parcel} is on {shelf}" + self._advance_if_done()

    def tool_hand_out(self, parcel="") -> str:
        if self._state["parcels"].get(parcel, {}).get("shelf") != "C1":
            return "Error: only parcels on C1 are handed out" + self._advance_if_done()
        self._state["parcels"][parcel]["status"] = "gone"
        return f"{parcel} is handed out" + self._advance_if_done()

    def tool_weigh(self, parcel="") -> str:
        return "1.5 kg" + self._advance_if_done()

    def solution(self) -> str:
        return (
            "1. lookup(parcel='P10') shows its shelf 2. move(parcel='P10', shelf='C1') "
            "3. hand_out(parcel='P10') 4. <answer>done</answer>"
        )
'''

LAMPS = '''
class LampHouseEnv(ToolUseBaseEnv):
    """In the paper's style, OpenAI's list of tools; its first instruction is met at reset."""

    def reset(self, seed=None):
        self._state = {"lamps": {"hall": "on", "attic": "off", "cellar": "off"}, "checked": []}
        self._tools = [
            {"type": "function", "function": {
                "name": "switch", "description": "Switch a lamp.",
                "parameters": {"type": "object", "properties": {
                    "room": {"type": "string"}, "to": {"type": "string", "enum": ["on", "off"]}},
                    "required": ["room", "to"]}}},
            {"type": "function", "function": {
                "name": "check", "description": "Tell if a lamp is on.",
                "parameters": {"type": "object", "properties": {"room": {"type": "string"}}, "required": ["room"]}}},
        ]
        self._user_messages = ["The lamp in the hall should be on.", "Light the attic.", "Is the cellar dark?"]
        self._message_criteria = [
            lambda s: s["lamps"]["hall"] == "on",
            lambda s: s["lamps"]["attic"] == "on",
            lambda s: "cellar" in s["checked"],
        ]
        self._current_msg = 0
        return self._user_messages[0], {}

    def _advance_if_done(self):
        return "[this must not be shown]"

    def _check_answer(self, answer):
        return answer == "done" and self._current_msg == 3

    def tool_switch(self, room, to):
        if room not in self._state["lamps"]:
            return "Error: no such room" + self._advance_if_done()
        self._state["lamps"][room] = to
        return f"The lamp in the {room} is {to}." + self._advance_if_done()

    def tool_check(self, room):
        self._state["checked"].append(room)
        return f"It is {self._state['lamps'].get(room, 'missing')}." + self._advance_if_done()

    def solution(self):
        return "First switch(room='attic', to='on'), then check('cellar') and submit done."
'''

TICKETS = '''
class TicketDeskEnv(ToolUseBaseEnv):
    """Tickets are found by status, closed by number."""

    def reset(self, seed: int):
        rng = random.Random(seed)
        numbers = rng.sample(range(100, 1000), 4)
        self._urgent = numbers[0]
        self._state = {
            "tickets": {n: {"status": "open", "urgent": n == self._urgent} for n in numbers},
            "notes": [],
            "viewed": set(),
        }
        self._user_messages = ["Which ticket is urgent? Look at it.", "Close it, with a note that says 'solved'."]
        self._message_criteria = [
            lambda s: self._urgent in s["viewed"],
            lambda s: s["tickets"][self._urgent]["status"] == "closed" and "solved" in s["notes"],
        ]
        return self._user_messages[0], {}

    def tool_find(self, status: Literal["open", "closed"], urgent: bool | None = None) -> list:
        """List the numbers of tickets of a status."""
        chosen = {n: t for n, t in self._state["tickets"].items() if t["status"] == status}
        return [n for n, t in chosen.items() if urgent is None or t["urgent"] == urgent]

    def tool_view(self, number: int) -> dict:
        """Show a ticket."""
        if number not in self._state["tickets"]:
            return {"error": f"no ticket {number}"}
        self._state["viewed"].add(number)
        return self._state["tickets"][number]

    def tool_close(self, number: int, note: str = "") -> str:
        """Close a ticket, with a note."""
        if number not in self._state["tickets"]:
            return f"There is no ticket {number}."
        self._state["tickets"][number]["status"] = "closed"
        self._state["notes"].append(note)
        return f"Ticket {number} is closed."

    def tool_delete(self, number: int) -> str:
        """Delete a ticket for ever."""
        return "Only an administrator may delete."

    def solution(self):
        return [
            ("find", {"status": "open", "urgent": True}),
            ("tool_view", {"number": self._urgent}),
            ("close", {"number": self._urgent, "note": "solved"}),
        ]
'''

BANK = '''
class BankEnv(ToolUseBaseEnv):
    """Bills are listed; the oldest is paid from the account that has enough."""

    def reset(self, seed: int):
        rng = random.Random(seed)
        days = rng.sample(range(1, 28), 3)
        self._state = {
            "bills": {f"B{n}": {"day": day, "amount": rng.randrange(5, 50)} for n, day in enumerate(days)},
            "accounts": {"daily": 10_000, "savings": 3},
            "paid": [],
        }
        self._oldest = min(self._state["bills"], key=lambda name: self._state["bills"][name]["day"])
        self._user_messages = ["Pay my oldest bill from the daily account."]
        self._message_criteria = [lambda s: s["paid"] == [self._oldest]]
        return self._user_messages[0], {}

    def tool_bills(self) -> dict:
        """List the bills with the day they came."""
        return self._state["bills"]

    def tool_pay(self, bill: str, account: Literal["daily", "savings"], split: list[int] | None = None) -> str:
        """Pay a bill from an account, at once or in parts."""
        if bill != self._oldest:
            return "Refused: an older bill is open."
        self._state["paid"].append(bill)
        return f"{bill} is paid from {account}."

    def solution(self):
        return ["bills()", f"tool_pay({self._oldest!r}, account='daily')"]
'''

SOUND = {"tickets": TICKETS, "bank": BANK}
PAPERS = {"parcels": PARCELS, "lamps": LAMPS}


def tools(
    module: str = "", reset: str = "", look: str = "", result: str = '"ok"', solution: str = "[]", extra: str = "",
    criteria: str = "[lambda s: s['done'], lambda s: s['done'] > 1]", state: str = "{'done': 0}",
    messages: str = "['One.', 'Two.']",
) -> str:  # fmt: skip
    """A program with tools that does something else than it should, in one place.

    Its tool `work` does an instruction, its tool `look` returns `result`.
    """
    reset, look = (line.replace("\n", "\n        ") or "pass" for line in (reset, look))
    return f"""
import ctypes, os, signal, sys, threading
{module}
class OddToolsEnv(ToolUseBaseEnv):
    def reset(self, seed):
        self._state = {state}
        self._user_messages = {messages}
        self._message_criteria = {criteria}
        {reset}
        return self._user_messages[0], {{}}
    def tool_work(self, times: int = 1) -> str:
        '''Do some work.'''
        self._state['done'] += times
        return f'done {{times}}'
    def tool_look(self, what: Literal['here', 'there'] = 'here', spots: list[int] | None = None) -> object:
        '''Look around.'''
        {look}
        return {result}
    def solution(self):
        return {solution}
    {extra}
"""


def call(name: str, arguments: str = "{}") -> ToolCall:
    return ToolCall(name, arguments)
