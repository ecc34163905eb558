"""What commands print: a line at once, a value as JSON that a person or a script reads."""

from typing import Any

import msgspec

from spade.codec import named


def say(line: str) -> None:
    """Print a line that whoever reads our output through a pipe sees now."""
    print(line, flush=True)


def print_json(value: Any) -> None:
    """Print a value as indented JSON, structs by field name."""
    print(msgspec.json.format(msgspec.json.encode(named(value)), indent=2).decode())
