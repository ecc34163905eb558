"""Play a program in the sandbox and print each turn."""

from actors.sandbox import Sandbox
from actors.sandbox.wire import InspectReply
from actors.text.conversation import Conversation, Move
from spade.app.screen.console import Screen
from spade.app.screen.tool_use import StatePrinter, tell_tools, tell_turn
from spade.errors import RunError
from spade.protocol import Faulted, Observed
from spade.text import make_visible

NAME = "play"


class PrintedPlay:
    """A play of one program that prints each turn.

    With `state`, it prints the program's state too. `tools` is True if the opened program has tools.
    """

    def __init__(self, sandbox: Sandbox, console: Screen, state: bool) -> None:
        self.tools = False
        self._sandbox = sandbox
        self._console = console
        self._state = StatePrinter(console) if state else None

    async def open(self, source: str, seed: int, max_turns: int) -> Observed | Faulted:
        """Begin the play. Print the tools, if the program has any, and the first observation."""
        first = await self._sandbox.open(NAME, source, seed, max_turns)
        if isinstance(first, Faulted):
            return first
        self.tools = bool(first.tools)
        if self.tools:
            tell_tools(self._console, first)
        self._console.print(make_visible(first.observation))
        return await self._show_state(first)

    async def step(self, turn: int, move: Move) -> Observed | Faulted:
        """Play a turn, and print the program's answer."""
        seen = await self._sandbox.step(NAME, turn, move.action, move.calls)
        if isinstance(seen, Faulted):
            return seen
        if self.tools:
            tell_turn(self._console, move, seen)
            return await self._show_state(seen)
        self._console.print(make_visible(seen.observation))
        self._console.tell((f"reward {seen.reward:g}", "dim"))
        return seen

    async def _show_state(self, seen: Observed) -> Observed | Faulted:
        """Print the program's state, if wanted and the play goes on. Return `seen`, or a fault if the state is lost."""
        if self._state is None or not self.tools or seen.terminated or seen.truncated:
            return seen
        inspected = await self._sandbox.inspect(NAME)
        if not isinstance(inspected, InspectReply):
            return inspected
        self._state.tell(inspected)
        return seen


def count_finished_turns(played: Conversation[Move]) -> int:
    """Return the number of turns of a finished play. Raises RunError if the program failed."""
    turns, last = len(played.actions), played.answers[-1]
    if isinstance(last, Faulted):
        raise RunError(f"the environment failed in turn {turns}: {last.kind}: {last.detail}")
    return turns
