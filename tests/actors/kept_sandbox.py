"""One sandbox for all tests of a file that leave it as they found it: it costs more to open than most of them take.

It lives in an event loop in a thread of its own, and these tests are run in that loop.
"""

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager

import trio

from actors.sandbox import open_sandbox
from actors.sandbox.host import Sandbox
from spade.config import Sandbox as Limits


class KeptSandbox:
    """The open sandbox and its event loop."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.over = trio.Event()
        self.token = trio.lowlevel.current_trio_token()

    def run(self, test, **how):
        """Run a test as `trio.run` does, in the loop of the sandbox."""
        assert how.get("clock") is None, "a test with a clock of its own needs `own_sandbox`"
        return trio.from_thread.run(test, trio_token=self.token)

    def tidy(self) -> None:
        """End what a test left open."""
        for episode in list(self.sandbox._episodes):
            self.sandbox.close(episode)


@contextmanager
def keep_sandbox(limits: Limits) -> Iterator[KeptSandbox]:
    """A sandbox until the context is left. Raises RunError where none holds."""
    opened: Future[KeptSandbox] = Future()

    async def live() -> None:
        try:
            async with open_sandbox(limits) as sandbox:
                kept = KeptSandbox(sandbox)
                opened.set_result(kept)
                await kept.over.wait()
        except BaseException as error:
            if opened.done():
                raise
            opened.set_exception(error)

    thread = threading.Thread(target=trio.run, args=(live,))
    thread.start()
    try:
        kept = opened.result()
        yield kept
        kept.token.run_sync_soon(kept.over.set)
    finally:
        thread.join()
