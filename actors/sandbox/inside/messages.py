"""Binary layouts that the host and the sandboxed processes share: messages of a zygote, frames of a child."""

import struct

MESSAGE = struct.Struct("<Bqi")
"""A message of a zygote: its kind, the child's name, and a value. Descriptors are sent along."""

FORK, READY, BORN, FAILED, ENDED = range(5)

LENGTH = struct.Struct("<I")
"""The head of a frame: the length of its body in bytes."""

FRAME_BYTES = 1 << 20
"""The largest size of a child's answer, in bytes, unless it carries the input or output of an execution."""

EXECUTION_BYTES = 32 << 20
"""The largest size of an answer with the input or output of an execution. A problem may have 16 MiB of tests."""

NAME_CHARACTERS = 100
"""The largest number of characters of the name of an environment's class."""

MOST_INSTRUCTIONS = 8
"""The largest number of instructions that a program with tools may give."""
