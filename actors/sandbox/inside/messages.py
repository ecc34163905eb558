"""The two layouts that both sides of the wall share: messages with the zygote, frames with a child."""

import struct

MESSAGE = struct.Struct("<Bqi")
"""Kind, the child's name, a value. Descriptors ride along."""

FORK, READY, BORN, FAILED, ENDED = range(5)

LENGTH = struct.Struct("<I")
"""The beginning of a frame: the size of its body, bytes."""

FRAME_BYTES = 1 << 20
"""The longest body."""

NAME_CHARACTERS = 100
"""The longest name of an environment's class."""
