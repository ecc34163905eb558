"""The keys of the live view: what each does, and how they are read."""

import os
import sys
import termios
import tty
from contextlib import suppress
from typing import Literal, NamedTuple

import trio

WINDOWS = (0, 100, 25)
"""Numbers of learner steps that the charts can show, in the order of the key `w`. 0 shows all steps of the status."""

BEHIND_S = 0.5
"""Seconds between two checks whether a process in the background has come to the foreground."""

KEYS = (
    ("p", "pause the view; the run goes on"),
    ("w", "charts of all, the last 100 or the last 25 learner steps"),
    ("e", "the newest environment that was played, with its last play"),
    ("?", "these keys"),
    ("Esc", "back to the view"),
)
"""Each key with what it does."""


class Controls(NamedTuple):
    """The choices of a person who looks at the view."""

    paused: bool = False
    """True if the view keeps showing the same status."""

    window: int = 0
    """Learner steps that the charts show. One of WINDOWS."""

    page: Literal["view", "newest", "keys"] = "view"
    """The page that is shown."""


def press_key(controls: Controls, key: str) -> Controls:
    """Return the choices after a key. Unknown keys change nothing."""
    match key:
        case "p":
            return controls._replace(paused=not controls.paused)
        case "w":
            return controls._replace(window=WINDOWS[(WINDOWS.index(controls.window) + 1) % len(WINDOWS)])
        case "e":
            return controls._replace(page="view" if controls.page == "newest" else "newest")
        case "?":
            return controls._replace(page="view" if controls.page == "keys" else "keys")
        case "\x1b":
            return controls._replace(page="view")
    return controls


class Keyboard:
    """Reads keys of the terminal, if this process is in its foreground."""

    def __init__(self) -> None:
        self.controls = Controls()
        """The choices so far."""
        self.pressed = trio.Event()
        """A key press sets this event and replaces it with a new one."""

    async def read(self) -> None:
        """Read keys until cancelled, or until the terminal is gone. Then restore the terminal's mode.

        Ctrl-C still sends a signal. In the background nothing is read, because the system would stop this process.
        """
        if sys.stdin is None:  # standard input was closed before the start
            return
        with suppress(OSError, termios.error):  # the terminal is gone, or belongs to another session
            descriptor = sys.stdin.fileno()
            if os.isatty(descriptor) and _is_in_front(descriptor):
                await self._read_terminal(descriptor)

    async def _read_terminal(self, descriptor: int) -> None:
        mode = termios.tcgetattr(descriptor)
        tty.setcbreak(descriptor, termios.TCSANOW)
        try:
            while True:
                await trio.lowlevel.wait_readable(descriptor)
                if not _is_in_front(descriptor):
                    await trio.sleep(BEHIND_S)
                    continue
                if not (keys := os.read(descriptor, 64)):
                    return
                for key in keys.decode(errors="replace"):
                    self.controls = press_key(self.controls, key)
                self.pressed.set()
                self.pressed = trio.Event()
        finally:
            if _is_in_front(descriptor):
                termios.tcsetattr(descriptor, termios.TCSANOW, mode)


def _is_in_front(descriptor: int) -> bool:
    """Return True if this process is in the foreground of its terminal.

    Raises OSError if `descriptor` is not the terminal of this process's session.
    """
    return os.tcgetpgrp(descriptor) == os.getpgrp()
