"""The signals that end a command, and its exit code after Ctrl-C."""

import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import trio

INTERRUPTED = 130
"""Exit code of a command that Ctrl-C ended. A shell reports the same code for a process that SIGINT killed."""

_received: set[int] = set()


def list_ending_signals() -> list[signal.Signals]:
    """Return SIGINT, SIGTERM and SIGHUP. SIGHUP is left out if it is ignored, as under `nohup`."""
    hang_up = [] if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [signal.SIGHUP]
    return [signal.SIGINT, signal.SIGTERM, *hang_up]


async def interrupt_at_signal(task_status: "trio.TaskStatus[None]") -> None:
    """Raise KeyboardInterrupt at the first signal that ends a command. Other tasks are cancelled and clean up."""
    import trio  # a slow import. `spade` imports this module before it handles Ctrl-C

    with trio.open_signal_receiver(*list_ending_signals()) as signals:
        task_status.started()
        async for _ in signals:
            raise KeyboardInterrupt


def note_signal(number: int) -> None:
    """Note a signal at which the command drains."""
    _received.add(number)


def was_interrupted() -> bool:
    """Return True if the command drains, or has drained, after Ctrl-C."""
    return signal.SIGINT in _received
