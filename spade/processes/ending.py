"""The signals that end a command, and its exit code after Ctrl-C."""

import signal

INTERRUPTED = 130
"""Exit code of a command that Ctrl-C ended, as a shell has it for a process that SIGINT killed."""

_received: set[int] = set()


def list_ending_signals() -> list[signal.Signals]:
    """Return SIGINT, SIGTERM and SIGHUP. SIGHUP is left out if it is ignored, as under `nohup`."""
    hang_up = [] if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [signal.SIGHUP]
    return [signal.SIGINT, signal.SIGTERM, *hang_up]


def note_signal(number: int) -> None:
    """Note a signal at which the command drains."""
    _received.add(number)


def was_interrupted() -> bool:
    """Return True if the command drains, or has drained, after Ctrl-C."""
    return signal.SIGINT in _received
