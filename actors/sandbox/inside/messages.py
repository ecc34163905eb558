"""The layouts that both sides of the wall use: messages of the zygote, frames of a child."""

import struct

MESSAGE = struct.Struct("<Bqi")
"""Kind, the child's name, a value. Descriptors ride along."""

FORK, READY, BORN, FAILED, ENDED = range(5)

LENGTH = struct.Struct("<I")
"""The head of a frame: bytes of its body."""

FRAME_BYTES = 1 << 20
"""The longest body."""

EXECUTION_BYTES = 32 << 20
"""The longest body with the input of an execution, or with its output; a problem may have 16 MiB of tests."""

NAME_CHARACTERS = 100
"""The longest name of an environment's class."""

MOST_INSTRUCTIONS = 8
"""The most instructions of a program with tools."""
