"""Sound programs with tools, two of each of the ten settings. They are short: a frame, and what makes each its own."""

from textwrap import indent


def service(name: str, *, setup: str, state: str, ask: str, met: str, tools: str, solution: str) -> str:
    """The program of a class; each part is Python text, `setup` runs first in `reset` and may use `rng`."""
    return f"""
class {name}Env(ToolUseBaseEnv):
    def reset(self, seed: int):
        rng = random.Random(seed)
{indent(setup.strip(), " " * 8)}
        self._state = {state}
        self._user_messages = {ask}
        self._message_criteria = {met}
        return self._user_messages[0], {{}}
{indent(tools.rstrip(), " " * 4)}

    def solution(self):
        return {solution}
"""


TABLE = """
ids = [f"{mark}-{{n}}" for n in rng.sample(range(100, 1000), 4)]
names = rng.sample({names}, 4)
self.wanted, self.name = ids[2], names[2]
"""
"""Four records, of which one is meant: its id is `wanted`, its `name` is told."""

FIND = '''
def tool_find(self, {by}: str) -> str:
    """Find the id of what has this {by}."""
    for key, row in self._state["rows"].items():
        if row["{by}"] == {by}:
            self._state["seen"].append(key)
            return f"The id is {{key}}."
    return f"Nothing has the {by} {{{by}!r}}."
'''


def desk(name, mark, by, names, fields, ask, verb, kinds, shut):
    """A service of records: find one by a name, then set its status by a tool that refuses what is unknown.

    `shut` is the status that cannot be changed any more: that of the first record.
    """
    return service(
        name,
        setup=TABLE.format(mark=mark, names=names)
        + f"self.to = rng.choice({kinds})\n"
        + f"rows = {{key: {{'{by}': who, 'status': 'open', {fields}}} for key, who in zip(ids, names)}}\n"
        + f"rows[ids[0]]['status'] = {shut!r}",
        state="{'rows': rows, 'seen': [], 'notes': {}}",
        ask=f'["{ask[0]}".format(name=self.name), "{ask[1]}".format(to=self.to), "{ask[2]}"]',
        met="[lambda s: self.wanted in s['seen'], lambda s: s['rows'][self.wanted]['status'] == self.to, "
        "lambda s: 'thanks' in s['notes'].get(self.wanted, '').lower()]",
        tools=FIND.format(by=by)
        + f'''
def tool_{verb}(self, key: str, status: Literal{kinds}) -> str:
    """Set the status of the record with this id."""
    if key not in self._state["rows"]:
        return f"There is no id {{key}}."
    if self._state["rows"][key]["status"] == {shut!r}:
        return f"{{key}} is {shut} and stays so."
    self._state["rows"][key]["status"] = status
    return f"{{key}} is {{status}}."

def tool_note(self, key: str, text: str) -> str:
    """Leave a note on the record with this id."""
    if key not in self._state["rows"]:
        return f"There is no id {{key}}."
    self._state["notes"][key] = text
    return "The note is kept."

def tool_remove(self, key: str) -> str:
    """Remove a record for ever."""
    return "Only an administrator may remove records."
''',
        solution=f'[("find", {{"{by}": self.name}}), ("{verb}", {{"key": self.wanted, "status": self.to}}), '
        '("note", {"key": self.wanted, "text": "Thanks"})]',
    )


def shelf(name, things, unit, ask, read, write, least):
    """A service of amounts: read one thing's, and give another the same and some more; too little is refused."""
    return service(
        name,
        setup=f"one, other = self.pair = rng.sample({things}, 2)\n"
        f"self.amounts = {{name: rng.randrange({least}, {least} + 900) for name in {things}}}\n"
        "self.more = rng.randrange(11, 99)",
        state="{'amounts': self.amounts, 'read': [], 'set': {}}",
        ask=f'["{ask[0]}".format(one=one), "{ask[1]}".format(one=one, other=other, more=self.more)]',
        met="[lambda s: self.pair[0] in s['read'], "
        "lambda s: s['set'].get(self.pair[1]) == self.amounts[self.pair[0]] + self.more]",
        tools=f'''
def tool_{read}(self, name: str) -> dict:
    """Read the {unit} of one."""
    if name not in self._state["amounts"]:
        return {{"error": f"unknown: {{name}}", "known": sorted(self._state["amounts"])}}
    self._state["read"].append(name)
    return {{"name": name, "{unit}": self._state["amounts"][name]}}

def tool_{write}(self, name: str, {unit}: int, mode: Literal["now", "later"] = "now") -> str:
    """Set the {unit} of one."""
    if name not in self._state["amounts"]:
        return f"Unknown: {{name}}."
    if {unit} < {least}:
        return "That is less than {least}."
    if mode == "later":
        return "Nothing is set before tomorrow."
    self._state["set"][name] = {unit}
    return f"{{name}}: {{{unit}}}."

def tool_average(self) -> float:
    """The average {unit}."""
    return sum(self._state["amounts"].values()) / len(self._state["amounts"])
''',
        solution=f'[("{read}", {{"name": self.pair[0]}}), '
        f'("{write}", {{"name": self.pair[1], "{unit}": self.amounts[self.pair[0]] + self.more}})]',
    )


PEOPLE = ["Ada", "Bo", "Cleo", "Dan", "Eva", "Finn"]

SOUND = {
    "retail orders": (
        desk("Orders", "ORD", "buyer", PEOPLE, "'total': 20", ("Look up the order of {name}.", "Mark it {to}, please.",
             "Leave a note on it that says thanks."), "mark", ["packed", "sent"], "cancelled"),
        shelf("Stockroom", ["lamps", "chairs", "desks", "shelves"], "pieces", ("How many {one} are there?",
              "Order {more} more of the {other} than there are {one}."), "count", "order", 10),
    ),
    "flights and hotels": (
        desk("Bookings", "BK", "guest", PEOPLE, "'nights': 2", ("Find the booking of {name}.", "Make it {to}.",
             "Thank the guest in a note: thanks."), "change", ["confirmed", "moved"], "departed"),
        shelf("Fares", ["Oslo", "Rome", "Lima", "Cairo"], "fare", ("What is the fare to {one}?",
              "Offer {other} for {more} more than {one}."), "fare", "offer", 50),
    ),
    "telecom accounts": (
        desk("Lines", "TEL", "owner", PEOPLE, "'plan': 'basic'", ("Which line is that of {name}?", "Have it {to}.",
             "Note thanks on it."), "switch", ["roaming", "paused"], "closed"),
        shelf("Allowances", ["north", "south", "east", "west"], "minutes", ("Tell me the minutes of {one}.",
              "Give {other} {more} minutes more than {one}."), "usage", "grant", 100),
    ),
    "banking and payments": (
        desk("Transfers", "TX", "payee", PEOPLE, "'amount': 75", ("Find the transfer to {name}.", "It is to be {to}.",
             "Put thanks into its note."), "settle", ["approved", "held"], "booked"),
        shelf("Limits", ["daily", "travel", "family", "office"], "limit", ("What is the limit of {one}?",
              "Set that of {other} to {more} more than {one}."), "limit_of", "set_limit", 100),
    ),
    "calendar": (
        desk("Meetings", "EV", "host", PEOPLE, "'room': 4", ("Find the meeting of {name}.", "Have it {to}.",
             "Add a note to it: thanks."), "plan", ["accepted", "declined"], "over"),
        shelf("Reminders", ["gym", "rent", "dentist", "garden"], "minute", ("At which minute is the one for {one}?",
              "Put the one for {other} {more} minutes behind {one}."), "when", "remind", 60),
    ),
    "file system": (
        desk("Documents", "F", "title", ["plan", "draft", "report", "budget", "minutes"], "'size': 9",
             ("Which file is titled {name}?", "Make it {to}.", "Note thanks on it."), "flag", ["shared", "private"],
             "locked"),
        shelf("Quotas", ["music", "photos", "mail", "backup"], "megabytes", ("How large is {one}?",
              "Give {other} a quota of {more} more than {one}."), "size", "quota", 100),
    ),
    "shopping cart": (
        desk("Wishes", "W", "item", ["mug", "tent", "rope", "stove", "map"], "'price': 12",
             ("Find the {name} on my list.", "Have it {to}.", "Write thanks into its note."), "move",
             ["bought", "saved"], "sold"),
        shelf("Baskets", ["apples", "plums", "pears", "figs"], "grams", ("How many grams of {one} are in the basket?",
              "I want {more} grams more of {other} than of {one}."), "weigh", "put", 100),
    ),
    "support tickets": (
        desk("Tickets", "T", "caller", PEOPLE, "'urgent': False", ("Find the ticket of {name}.", "Set it to {to}.",
             "Close with a note: thanks."), "triage", ["waiting", "escalated"], "solved"),
        shelf("Hours", ["printers", "phones", "logins", "network"], "hours", ("How many hours went to {one}?",
              "Plan {more} hours more for {other} than for {one}."), "hours_of", "plan", 10),
    ),
    "smart home": (
        desk("Devices", "DEV", "room", ["hall", "attic", "cellar", "kitchen", "porch"], "'watts': 40",
             ("Which device is in the {name}?", "Put it on {to}.", "Say thanks in its note."), "set",
             ["eco", "boost"], "broken"),
        shelf("Heaters", ["bath", "study", "nursery", "lounge"], "watts", ("How many watts has the {one}?",
              "Set the {other} to {more} watts more than the {one}."), "measure", "heat", 100),
    ),
    "task tracker": (
        desk("Tasks", "TASK", "title", ["paint", "mow", "sweep", "bake", "file"], "'points': 3",
             ("Find the task called {name}.", "It is {to} now.", "Leave a note with thanks."), "move",
             ["started", "blocked"], "archived"),
        shelf("Budgets", ["alpha", "beta", "gamma", "delta"], "points", ("How many points has {one}?",
              "Let {other} have {more} points more than {one}."), "points_of", "assign", 10),
    ),
}  # fmt: skip
"""Two a setting."""
