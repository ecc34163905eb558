"""The signals that end a command."""

import signal


def ending() -> list[signal.Signals]:
    """SIGINT, SIGTERM and SIGHUP; without SIGHUP where it is ignored, as `nohup` has it."""
    hang_up = [] if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [signal.SIGHUP]
    return [signal.SIGINT, signal.SIGTERM, *hang_up]
