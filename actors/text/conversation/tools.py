"""Tool use: instructions are user messages, each result is a message of its own, and an answer submits."""

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from actors.text.actions import answer
from actors.text.conversation.chat_format import Move, Opening
from actors.text.profile import ChatMessage
from actors.text.toolcalls import Dialect, MalformedBlock, Schemas
from actors.text.toolcalls.schema import read_properties
from spade.decoding import UnreadableError, try_decode
from spade.protocol import Observed, ToolCall
from spade.tokens import THINK, THOUGHT, Tools


class CallFormat(NamedTuple):
    """A checkpoint's way to call tools."""

    dialect: Dialect
    """The checkpoint's notation of calls."""

    opened: bool = False
    """True if the prompt already opens the model's thinking. Then a message that does not close it is all thinking."""


class _Function(msgspec.Struct):
    name: str
    parameters: dict[str, Any]


class _Tool(msgspec.Struct):
    function: _Function


_tools = msgspec.json.Decoder(list[_Tool])


class ToolChatFormat:
    """The messages of a play of a program with tools.

    * opens: builds the messages before the model's first turn, from the first instruction and the hint
    * most: the largest number of calls in a message that are executed
    """

    def __init__(
        self, opens: Callable[[str, str | None], list[ChatMessage]], call_format: CallFormat, most: int
    ) -> None:
        self._opens = opens
        self._format = call_format
        self._most = most
        self._schemas: Schemas = {}
        self.marks = (*call_format.dialect.marks, THINK, THOUGHT)

    def open(self, observed: Observed, hint: str | None) -> Opening:
        """See ChatFormat."""
        if not observed.tools:
            raise UnreadableError("the program offers no tools")
        listed = try_decode(_tools.decode, observed.tools.encode())
        self._schemas = {tool.function.name: read_properties(tool.function.parameters) for tool in listed}
        return Opening(self._opens(observed.observation, hint), Tools.read(observed.tools))

    def act(self, text: str) -> Move:
        """See ChatFormat."""
        visible = answer(f"{THINK}{text}" if self._format.opened else text)
        read = self._format.dialect.read(visible, self._schemas)
        calls, blocks = list[ToolCall](), list[str | None]()
        for block in read.blocks:
            if isinstance(block, MalformedBlock):
                blocks.append(f"Error: this call cannot be read: {block.why}")
            elif len(calls) == self._most:
                blocks.append(f"Error: not executed: a message may have at most {self._most} calls")
            else:
                blocks.append(None)
                calls.append(ToolCall(block.name, block.arguments))
        return Move((read.answer or "").strip(), tuple(calls), tuple(blocks))

    def turn(self, observed: Observed, move: Move) -> list[ChatMessage]:
        """See ChatFormat. Each call block gets its result or error, in order.

        The program's observation follows if the message had an answer, or contained no call.
        """
        results = iter(observed.results)
        shown = [next(results).text if block is None else block for block in move.blocks]
        replied = observed.observation and (move.action or not move.blocks)
        reply = [ChatMessage("user", observed.observation)] if replied else []
        return [*(ChatMessage("tool", text) for text in shown), *reply]
