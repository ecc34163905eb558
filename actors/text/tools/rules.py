"""The fixed parts of the designer's prompt in tool use: skills, variants, interface, rules of a sound service."""

SKILLS = {
    "API orchestration": "putting several tools together so that the result of one becomes the input of another",
    "data retrieval": "finding a fact in what the tools show: by searching, filtering, comparing and paging",
    "state modification": "changing exactly what was asked for, in the right record, and nothing beside it",
    "error recovery": "reading why a call was refused, removing the obstacle, and trying again in the right way",
    "tool selection": "telling the tool that serves a request from others that only look as if they did",
    "multi-step workflows": "carrying a request through several steps that build on each other and have their order",
}
"""Each skill's meaning."""

VARIANTS = {
    "execute": "Each request asks for something that the tools can do once the right record is found.",
    "read then write": (
        "At least two requests depend on what the data says: the player has to query it, test a condition on what "
        "comes back (the cheapest, any that is overdue, only if less than so much is left), and then write "
        "accordingly. Which write is right differs from seed to seed."
    ),
    "missing value": (
        "At least two requests need a value that nobody states, such as an identifier, a code or a version: a tool "
        "that reads has to be asked for it. The tool that writes refuses any other value, and its refusal does not "
        "give the right one away."
    ),
    "irrelevant": (
        "One of the requests, not the first one, is for something that none of the tools can do. It is to be declined "
        "by a tool `decline_request(reason)` whose `reason` is an enumeration; the criterion of this request is that "
        "it was declined, with the fitting reason, while it was the present one. Note in the state which request is "
        "present when one is declined (`self._current_msg` counts the requests that are done). All other requests can "
        "be served."
    ),
}
"""Each variant's demands on the requests."""

DESIGNER = (
    "You build small simulated services on which an agent learns to use tools. Each is a complete Python program that "
    "runs unattended: it offers tools, keeps a state, and makes one request after another. You write correct code, and "
    "you care that a request can be met by looking things up and acting on them, and in no other way."
)

INTERFACE = r'''
Write exactly this interface:

```python
import random  # whatever the program uses is imported by the program
from typing import Literal


class DescriptiveNameEnv(ToolUseBaseEnv):  # this base is given; do not define or import it
    def reset(self, seed: int) -> tuple[str, dict]:
        """Start the instance that belongs to `seed`."""
        rng = random.Random(seed)
        self._state = {}  # a dict with all data of the service and all that criteria read
        self._user_messages = ["first request", "second request"]
        self._message_criteria = [lambda state: False, lambda state: False]  # for each request: is it done?
        return self._user_messages[0], {}

    def tool_some_name(self, record: str, kind: Literal["one", "other"], limit: int = 5) -> str:
        """One sentence that tells the player what this tool is for."""

    def solution(self) -> list[tuple[str, dict]]:
        """The calls, in order, that meet all requests of the instance of the latest reset."""
        return [("some_name", {"record": "R1", "kind": "one"})]
```

Everything else is done for you: each method `tool_<name>` becomes the tool `<name>`, its schema is read off its
annotations and its docstring, the arguments of a call are checked against that schema before your method runs, the
requests are shown one at a time, and after each call the criterion of the present request is read. As soon as it
holds, the next request is shown with the result of that call. The player has {max_turns} messages, of which the last
one says that all is done, and wins by doing every request. Write neither `step` nor a reward, nor anything that judges
an answer or counts turns.
'''

PROGRAM = r"""
The program:
- Everything is in one class that depends on no other file. Its name says what the service is and ends in Env.
- Import the standard library only. There are no files, no network, no threads, no clock, no sleeping, no `input()`.
- All chance comes from `random.Random(seed)`, made in `reset`; tools are deterministic. The same seed gives the same
  instance. Another seed gives other values, other names and identifiers, and records in another order.
- Every argument of a tool is annotated with `str`, `int`, `float`, `bool`, `list[...]`, `dict`, `Literal[...]`, or one
  of these `| None`. One without a default has to be given by the player.
- A tool returns text, or dicts and lists of plain values. Text is short: a few lines, no decoration.
- No call raises an exception, whatever its arguments. A criterion never raises and never changes the state; on the
  fresh state it can be read as well.
"""

TOOLS = r"""
The tools:
- Three to eight of them. At least one takes a `Literal[...]` of several values, and using it well needs the right one.
- One or two look right for a request and are not: their description, read with care, says why.
- Each tool that takes an identifier checks it. Where a tool refuses, it changes nothing and says why in words from
  which the player can go on.
- In the way of at least one request stands a guard: something has to be done first, and the tool that refuses says so.
- What a request is about can be found with tools that read: a player who knows only the requests and the results comes
  to every name, number and identifier that any call needs.
"""

REQUESTS = r"""
The requests:
- There are {requests}, each short, one wish, as a person says it. They name people, things and goals; they name no
  tool, no argument and no field of the state.
- Each later request may build on what was done before ("the same one", "her other booking").
- Each criterion is False when its request is shown, even for a player who did nothing but what came before; it becomes
  True by the right calls alone. It demands the result that the request asks for, not one way to it.
- A request to look something up is checked by what the reading tool notes in the state, for example by adding the
  identifier to a list of records that were looked at.
- A criterion reads the state in the very form in which the tools write it: the same keys, the same spelling, the same
  type.
- Everything that a criterion demands is said in its request, or follows from what a tool shows.
"""

SOLUTION = r"""
The solution:
- A list of calls, worked out from the state of this instance; it is replayed and has to meet every request in turn.
- It is honest: before it uses an identifier or a value that no request states, it makes the call whose result shows it,
  as a player would have to.
- About {calls} calls.
"""

EXAMPLE = (
    "Here is a small service that keeps these rules. It shows the form alone: give yours its own data, its own tools "
    "and its own obstacles, and let it ask for more."
)

LAST = (
    "Think first about the records, about what each request needs to know and which tool shows it, and about the "
    "mistakes that a careless player makes. Then trace your solution through your tools, call by call, with the result "
    "and with the criterion of the present request before and after each call: False, until the call that does it. "
    "Check that no request is done before it is shown. Mend what does not come out as it should. Then write the whole "
    "program in one ```python block, and nothing after it."
)
