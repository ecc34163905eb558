"""The signals that end a command."""

import signal


def list_ending_signals() -> list[signal.Signals]:
    """Return SIGINT, SIGTERM and SIGHUP. SIGHUP is left out if it is ignored, as under `nohup`."""
    hang_up = [] if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [signal.SIGHUP]
    return [signal.SIGINT, signal.SIGTERM, *hang_up]
