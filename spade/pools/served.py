"""Programs that a server of OpenEnv runs. Their text names the server and is never executed."""

import ast
from collections.abc import Sequence
from typing import Any

import msgspec

SERVED_CLASS = "OpenEnvServerEnv"
"""The base of programs that a server runs. Their attributes name the server and the form of actions."""
TEXT_CHARACTERS = 1 << 16
"""Most characters of a program to parse. Parsing a longer program would hold up all plays."""


class ServedProgram(msgspec.Struct, frozen=True):
    """A program that a server runs."""

    name: str
    """Name of the class."""
    server: str
    """Address of the server, as in `sandbox.servers`."""
    start: dict[str, Any] = {}
    """The arguments of `reset` other than the seed."""
    action: str = ""
    """Field of the action that gets the text, or "" if the text is the whole action as JSON."""
    plain: bool = True
    """True if the field that `action` names gets a text, False if it gets a JSON value."""
    observation: str = ""
    """Field of the observation that is shown, or "" for the whole observation as JSON."""
    note: str = ""
    """Text after each observation, which tells the form of an action."""


def read_served(source: str, servers: Sequence[str]) -> ServedProgram | None:
    """Read a program that one of these servers runs. Returns None for any other program.

    The text may be hostile. Any error in it means that it is another program.
    """
    if not servers or SERVED_CLASS not in source or len(source) > TEXT_CHARACTERS:
        return None
    try:
        [kind] = ast.parse(source).body
        assert isinstance(kind, ast.ClassDef)
        assert [ast.unparse(base) for base in kind.bases] == [SERVED_CLASS]
        given = {line.targets[0].id: ast.literal_eval(line.value) for line in kind.body}  # type: ignore[attr-defined]
        program = msgspec.convert({"name": kind.name, **given}, ServedProgram)
        msgspec.json.encode(program.start)
    except Exception:  # the parser and the literals raise many kinds, MemoryError and TypeError among them
        return None
    return program if program.server in servers else None
