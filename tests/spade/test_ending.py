"""The signals that end a command."""

import signal

from spade.processes.ending import list_ending_signals


def test_a_hang_up_ends_a_command_but_where_it_is_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        assert list_ending_signals() == [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        assert list_ending_signals() == [signal.SIGINT, signal.SIGTERM]
    finally:
        signal.signal(signal.SIGHUP, before)
