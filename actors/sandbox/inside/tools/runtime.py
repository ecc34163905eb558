"""Run a program with tools: the program simulates a service, and this runtime offers its tools and grades.

The runtime keeps the position in the instructions. After each executed call, if the criterion of the present
instruction holds, that instruction is done, and the call's result gives the next instruction. The player wins by
submitting `done` after the last instruction. A program's own grading methods are never called, and refused calls never
reach the program.
"""

from ..program import Answer, LoadedProgram, describe_exception, describe_type, escape_surrogates, guard_calls, is_a
from .schema import LISTED, ArgumentsError, check_arguments, cut_text, format_value, read_arguments
from .solution import read_calls
from .toolset import Criterion, Tool, find_tool_methods, make_toolset, read_agenda
from .values import format_canonical, format_result, make_blamed_error

DONE = "done"
SUBMIT = "Submit <answer>done</answer>."
NEXT = "User: "
FINISHED = f"All requests are done. {SUBMIT}"
NEITHER = "Call a tool, or submit <answer>done</answer> when all requests are done."
ERROR_CHARACTERS = 1_000
"""The exception of a criterion is cut to this many characters in the report to admission."""


class ToolProgram(LoadedProgram):
    """A loaded program that extends ToolUseBaseEnv. Its tools, instructions and criteria are read once, after `reset`.

    `position` is the number of done instructions. `free` counts the done instructions with a criterion that already
    held when the instruction was given. The play ends at the program's own `max_turns`, if that is less than ours.
    """

    def __init__(self, kind: type, repairs: tuple[str, ...], max_turns: int, observation_bytes: int) -> None:
        super().__init__(kind, repairs, max_turns, observation_bytes)
        with guard_calls("interface"):
            self.methods = find_tool_methods(kind)
        self.most_turns = self.arguments.get("max_turns", max_turns)
        self.tools: dict[str, Tool] = {}
        self.instructions: list[str] = []
        self.criteria: list[Criterion] = []
        self.position = self.free = self.turn = 0
        self.begun = False

    def loaded(self) -> Answer:
        return super().loaded() | {"domain": "tools"}

    def build(self) -> None:
        super().build()
        # Programs in the paper's style append the result of `_advance_if_done` to each result of a tool. `str` returns
        # "", so that they append nothing.
        self.instance._advance_if_done = str

    def reset(self, seed: int) -> Answer:
        answer = super().reset(seed)
        with guard_calls("schema"):
            self.tools = make_toolset(self.instance, self.methods)
        with guard_calls("play"):
            self.state()
            self.instructions, self.criteria = read_agenda(self.instance)
            if answer["text"] != self.instructions[0]:
                raise make_blamed_error("the observation of reset must be the first of _user_messages")
            self.position = self.free = self.turn = 0
            self.begun = False
            self.instance._current_msg = 0
        return answer | {"tools": [tool.offered() for tool in self.tools.values()]} | self.progress()

    def progress(self) -> Answer:
        return {"done": self.position, "instructions": len(self.instructions), "free": self.free}

    # ------------------------------------------------------------ a turn

    def step(self, action: str) -> Answer:
        """Play a message without calls."""
        return self.act([], action)

    def act(self, calls: list[tuple[str, str]], answer: str) -> Answer:
        """Play one message: its calls (name, arguments as JSON) in order, then its answer, "" without one."""
        with guard_calls("play"):
            results: list[Answer] = []
            size = 0
            for name, arguments in calls:
                text, refused = self.call(name, arguments)
                size += len(text.encode())
                if size > self.observation_bytes:
                    raise make_blamed_error(f"the results of a message are over {self.observation_bytes} bytes")
                results.append({"text": text, "refused": refused})
            self.turn += 1
            total = len(self.instructions)
            won = self.position == total and answer.strip().lower() == DONE
            said = "" if won else self.reply(answer) if answer else "" if calls else NEITHER
            reward = 1.0 if won else self.position / (total + 1)
            seen = self.observed("step", said, {}, reward, won, not won and self.turn >= self.most_turns)
            return seen | {"results": results} | self.progress()

    def reply(self, answer: str) -> str:
        """Return the reply to an answer that does not win."""
        left = len(self.instructions) - self.position
        if not left:
            return FINISHED
        requests = "1 request is" if left == 1 else f"{left} requests are"
        return f"Not done: {requests} left. The present one: {self.instructions[self.position]}"

    def call(self, name: str, arguments: str) -> tuple[str, bool]:
        """Call a tool. Returns the result, and True if the call was refused."""
        tool = self.tools.get(name)
        try:
            if tool is None:
                raise ArgumentsError(
                    f"there is no tool {format_value(name)}; there are: {cut_text(', '.join(self.tools), LISTED)}"
                )
            values = read_arguments(arguments)
            check_arguments(values, tool.parameters)
        except ArgumentsError as error:
            return escape_surrogates(f"Error: {error}"), True
        if not self.begun:  # the first instruction was given before any call
            self.begun = True
            self.free += self.holds()
        texts = [format_result(tool.name, tool.call(getattr(self.instance, tool.method), values)), *self.advance()]
        return "\n\n".join(texts), False

    def advance(self) -> list[str]:
        """Go to the next instruction while the present criterion holds.

        Returns a text for the player at each step: the next instruction, or that all instructions are done.
        """
        texts: list[str] = []
        while self.position < len(self.instructions) and self.holds():
            self.free += bool(texts)
            self.position += 1
            over = self.position == len(self.instructions)
            texts.append(FINISHED if over else f"{NEXT}{self.instructions[self.position]}")
        if texts:
            self.instance._current_msg = self.position
        return texts

    def holds(self) -> bool:
        """Return True if the criterion of the present instruction holds."""
        return bool(self.criteria[self.position](self.state()))

    def state(self) -> object:
        """Return the state that criteria read. Raises ProgramError unless it is a dict."""
        state = self.instance._state
        if not is_a(state, dict):
            raise make_blamed_error(f"_state must be a dict, not {describe_type(state)}")
        return state

    # ------------------------------------------------------------ for admission

    def inspect(self) -> Answer:
        """Evaluate each criterion on the state. Returns the results and the state."""
        with guard_calls("play"):
            first = before = format_canonical(self.state())
            criteria = []
            for criterion in self.criteria:
                state, met, error = self.state(), False, ""
                try:
                    met = bool(criterion(state))
                except BaseException as raised:  # admission decides what an exception of a criterion means
                    error = escape_surrogates(describe_exception(raised))[:ERROR_CHARACTERS] or "error"
                after = format_canonical(self.state())
                criteria.append({"met": met, "error": error, "changes": after != before})
                before = after
            seen = {"instructions": self.instructions, "criteria": criteria, "state": first}
            return {"is": "inspected", **seen, "done": self.position, "free": self.free}

    def solve(self) -> Answer:
        """Return the reference solution as calls. The list is empty if the solution contains no calls."""
        with guard_calls("play"):
            return {"is": "solved", "actions": None, "calls": read_calls(self.instance.solution(), self.tools)}
