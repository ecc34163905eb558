"""Print plays of programs with tools: the tools, the calls with their results, and the changes of the state."""

from collections.abc import Sequence

import msgspec

from actors.sandbox.wire import InspectReply, OfferedTool
from actors.text.conversation import Move
from actors.text.toolcalls.notation import list_argument_names, write_call, write_signature
from spade.app.screen.console import Screen
from spade.app.screen.differences import list_differences
from spade.decoding import try_decode
from spade.protocol import Observed
from spade.text import as_line, make_visible

LONGEST_TOOL = 300  # characters of a signature, or of a description

_offered = msgspec.json.Decoder(tuple[OfferedTool, ...])


def list_offered(observed: Observed) -> dict[str, list[str]]:
    """Return the arguments of each tool in a first observation, by tool name."""
    tools = try_decode(_offered.decode, observed.tools.encode())
    return {tool.function.name: list_argument_names(tool.function.parameters) for tool in tools}


def tell_tools(console: Screen, observed: Observed) -> None:
    """Print the tools in a first observation: each signature and description."""
    for tool in try_decode(_offered.decode, observed.tools.encode()):
        function = tool.function
        about = " ".join(function.description.split())
        console.tell(
            (as_line(write_signature(function.name, function.parameters), LONGEST_TOOL), "cyan"),
            (f"  {as_line(about, LONGEST_TOOL)}".rstrip(), "dim"),
        )


def tell_turn(console: Screen, move: Move, observed: Observed) -> None:
    """Print the calls of a message with their results, its unreadable parts, and the reply to its answer."""
    blocks = move.blocks or (None,) * len(move.calls)
    sent = iter(zip(move.calls, observed.results, strict=False))
    for block in blocks:
        if block is not None:
            console.tell(("malformed", "red"), f"  {block}")
        elif (pair := next(sent, None)) is not None:
            call, result = pair
            refused = [("refused ", "red")] if result.refused else []
            console.tell(*refused, (write_call(call.name, call.arguments), "cyan"))
            console.print(make_visible(result.text))
    if move.action:
        console.tell(("answer", "cyan"), f"  {move.action}")
    if observed.observation:
        console.print(make_visible(observed.observation))
    console.tell((f"done {observed.done} of {observed.instructions}, reward {observed.reward:g}", "dim"))


class StatePrinter:
    """Prints the changes of a program's state from message to message, and the state of its criteria."""

    def __init__(self, console: Screen) -> None:
        self._console = console
        self._before = "{}"

    def tell(self, seen: InspectReply) -> None:
        """Print the changes since the last time. The first time, print the whole state."""
        for line in list_differences(self._before, seen.state):
            self._console.tell((line, "yellow"))
        self._before = seen.state
        self._console.tell((f"criteria: {', '.join(_describe_criteria(seen))}", "dim"))


def _describe_criteria(seen: InspectReply) -> Sequence[str]:
    return [
        f"{number} {f'raises {each.error}' if each.error else 'met' if each.met else 'not met'}"
        + (" and changes the state" if each.changes else "")
        for number, each in enumerate(seen.criteria, 1)
    ]
