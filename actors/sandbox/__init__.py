"""Untrusted programs in killable processes: `open_sandbox` is the way in.

    host      the sandbox: episodes by name, turn counts, bounds
    process   one child and its channel: deadlines and typed faults
    zygote    the fork server as the host sees it
    wire      the frames between host and child
    inside/   what runs behind the wall

What holds today: one killable process for each episode, deadlines, limits of memory and processor time, no process or
thread of the program's own, not a byte written to any file, a private channel, an unprivileged user where the host is
root. What does not hold yet: a program can read files and use the network; and where the host is not root, it can
delete the user's files and signal the user's processes. So let a model's programs run in a container.
"""

from actors.sandbox.host import Sandbox, open_sandbox

__all__ = ["Sandbox", "open_sandbox"]
