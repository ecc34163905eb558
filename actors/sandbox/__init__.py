"""Run untrusted programs in killable processes. Enter by `open_sandbox`. docs/sandbox.md states the guarantees.

opening     open a sandbox of the strongest tier that holds on this machine
tiers       the restrictions of each tier, and the attacks that test them
host        the sandbox: episodes by name, turn counts, bounds
budget      the memory of all children together
programs    programs by digest, fetched once
process     one child and its channel: deadlines and typed faults
judging     a child that judges code, which further children execute
served      a session of an environment server in the place of a child
zygote      the host's end of a fork server, which forks the children
wire        the frames between host and child
inside/     the code of fork servers and children; `inside/tools/` plays programs with tools
"""

from actors.sandbox.host import Sandbox
from actors.sandbox.opening import open_sandbox
from actors.sandbox.programs import Programs

__all__ = ["Programs", "Sandbox", "open_sandbox"]
