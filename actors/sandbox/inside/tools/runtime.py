"""Run a program with tools: the program simulates a service, and this runtime offers its tools and grades.

The runtime keeps the position in the instructions. After each executed call, if the criterion of the present
instruction holds, that instruction is done, and the call's result gives the next instruction. The player wins by
submitting `done` after the last instruction. A program's own grading methods are never called, and refused calls never
reach the program.
"""

from ..program import Answer, LoadedProgram, clean, described, guarded, is_a, shape
from .schema import LISTED, ArgumentsError, check_arguments, cut, read_arguments, shown
from .solution import calls
from .toolset import Criterion, Tool, agenda, tool_methods, toolset
from .values import blamed, canonical, result

DONE = "done"
SUBMIT = "Submit <answer>done</answer>."
NEXT = "User: "
FINISHED = f"All requests are done. {SUBMIT}"
NEITHER = "Call a tool, or submit <answer>done</answer> when all requests are done."
ERROR_CHARACTERS = 1_000
"""Most characters of a criterion's exception in the report to admission."""


class ToolProgram(LoadedProgram):
    """A loaded program that extends ToolUseBaseEnv. Its tools, instructions and criteria are read once, after `reset`.

    `position` counts the done instructions. `free` counts the done instructions that were met when they were given. The
    play ends at the program's own `max_turns`, if that is less than ours.
    """

    def __init__(self, kind: type, repairs: tuple[str, ...], max_turns: int, observation_bytes: int) -> None:
        super().__init__(kind, repairs, max_turns, observation_bytes)
        with guarded("interface"):
            self.methods = tool_methods(kind)
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
        # Programs in the paper's style append the result of their own method of this name to each result.
        self.instance._advance_if_done = str

    def reset(self, seed: int) -> Answer:
        answer = super().reset(seed)
        with guarded("schema"):
            self.tools = toolset(self.instance, self.methods)
        with guarded("play"):
            self.state()
            self.instructions, self.criteria = agenda(self.instance)
            if answer["text"] != self.instructions[0]:
                raise blamed("the observation of reset must be the first of _user_messages")
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
        with guarded("play"):
            results: list[Answer] = []
            size = 0
            for name, arguments in calls:
                text, refused = self.call(name, arguments)
                size += len(text.encode())
                if size > self.observation_bytes:
                    raise blamed(f"the results of a message are over {self.observation_bytes} bytes")
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
                raise ArgumentsError(f"there is no tool {shown(name)}; there are: {cut(', '.join(self.tools), LISTED)}")
            values = read_arguments(arguments)
            check_arguments(values, tool.parameters)
        except ArgumentsError as error:
            return clean(f"Error: {error}"), True
        if not self.begun:  # the first instruction was given before any call
            self.begun = True
            self.free += self.holds()
        told = [result(tool.name, tool.call(getattr(self.instance, tool.method), values)), *self.advance()]
        return "\n\n".join(told), False

    def advance(self) -> list[str]:
        """Move on while the present criterion holds. Returns the texts that tell the player."""
        told: list[str] = []
        while self.position < len(self.instructions) and self.holds():
            self.free += bool(told)
            self.position += 1
            over = self.position == len(self.instructions)
            told.append(FINISHED if over else f"{NEXT}{self.instructions[self.position]}")
        if told:
            self.instance._current_msg = self.position
        return told

    def holds(self) -> bool:
        """Return True if the present instruction is met."""
        return bool(self.criteria[self.position](self.state()))

    def state(self) -> object:
        """Return the state that criteria read. Raises ProgramError unless it is a dict."""
        state = self.instance._state
        if not is_a(state, dict):
            raise blamed(f"_state must be a dict, not {shape(state)}")
        return state

    # ------------------------------------------------------------ for admission

    def inspect(self) -> Answer:
        """Evaluate each criterion on the state. Returns the results and the state."""
        with guarded("play"):
            first = before = canonical(self.state())
            criteria = []
            for criterion in self.criteria:
                state, met, error = self.state(), False, ""
                try:
                    met = bool(criterion(state))
                except BaseException as raised:  # admission judges it
                    error = clean(described(raised))[:ERROR_CHARACTERS] or "error"
                after = canonical(self.state())
                criteria.append({"met": met, "error": error, "changes": after != before})
                before = after
            seen = {"instructions": self.instructions, "criteria": criteria, "state": first}
            return {"is": "inspected", **seen, "done": self.position, "free": self.free}

    def solve(self) -> Answer:
        """Return the reference solution as calls. They are empty if it lists no calls."""
        with guarded("play"):
            return {"is": "solved", "actions": None, "calls": calls(self.instance.solution(), self.tools)}
