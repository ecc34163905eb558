"""Untrusted programs in killable processes: `open_sandbox` is the way in. What it promises: docs/sandbox.md.

opening     the way in: the strongest tier that holds here
tiers       which walls stand together, and the attacks that prove them
host        the sandbox: episodes by name, turn counts, bounds
budget      the memory of all together
programs    programs by digest, fetched once
process     one child and its channel: deadlines and typed faults
judging     a child that judges code, which further children execute
zygote      the fork server as the host sees it
wire        the frames between host and child
inside/     what runs behind the walls, and raises them; `inside/tools/` plays programs with tools
"""

from actors.sandbox.host import Sandbox
from actors.sandbox.opening import open_sandbox
from actors.sandbox.programs import Programs

__all__ = ["Programs", "Sandbox", "open_sandbox"]
