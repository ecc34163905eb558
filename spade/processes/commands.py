"""Run commands of other programs, such as pip, that do not outlive this process."""

import ctypes
import signal
import subprocess
from collections.abc import Sequence
from functools import partial
from typing import Any

_PR_SET_PDEATHSIG = 1
_die_with_parent = partial(ctypes.CDLL(None).prctl, _PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def run_child(command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[Any]:
    """Run a command to its end, as subprocess.run does. The kernel kills it if this process is killed first."""
    return subprocess.run(command, preexec_fn=_die_with_parent, **options)
