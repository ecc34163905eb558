"""Programs for the sandbox to hold, and a look at the processes it leaves."""

import textwrap
from collections.abc import Callable
from pathlib import Path

import trio

from actors.sandbox import Sandbox
from actors.sandbox.host import TWINS
from spade.config import Sandbox as Limits
from spade.protocol import Faulted, Observed

LIMITS = Limits(load_s=60.0, step_s=60.0)
"""For programs that have to answer, however busy the machine is."""
DOOR = """
class DoorEnv:
    def __init__(self, max_turns: int = 3) -> None:
        self.max_turns = max_turns

    def reset(self, seed):
        self.goal = random.Random(seed).choice(["red", "blue"])
        self.turn = 0
        return "Which door? Actions: red blue", {}

    def step(self, action):
        self.turn += 1
        over = self.turn >= self.max_turns
        if action == self.goal:
            return "It opens.", 1.0, True, False, {}
        return f"The {action} door is shut. Actions: red blue", 0.25, over, False, {}

    def solution(self):
        return [self.goal]

    def close(self):
        pass
"""


SEARCH = """
class SearchEnv:
    def __init__(self, max_turns: int = 4) -> None:
        self.max_turns = max_turns

    def reset(self, seed):
        self.rng = random.Random(seed)
        self.goal = self.rng.randrange(1, 31)
        self.turn = 0
        return "Find the number. Actions: 1..30", {}

    def step(self, action):
        self.turn += 1
        over = self.turn >= self.max_turns
        if not action.isascii() or not action.isdigit():
            return "A number, please. Actions: 1..30", 0.0, over, False, {}
        if int(action) == self.goal:
            return "Found.", 1.0, True, False, {}
        reply = "Higher." if int(action) < self.goal else "Lower."
        return reply + " Actions: 1..30", 0.2, over, False, {}

    def solution(self):
        return [str(self.goal)]

    def close(self):
        pass
"""


VAULT = """
class VaultEnv:
    def __init__(self, max_turns: int = 6) -> None:
        self.max_turns = max_turns

    def reset(self, seed):
        rng = random.Random(seed)
        self.goal = [rng.choice(["red", "blue", "green"]) for _ in range(3)]
        self.turn = self.at = 0
        return "Open the vault. Actions: red blue green", {}

    def step(self, action):
        self.turn += 1
        over = self.turn >= self.max_turns
        if action not in ("red", "blue", "green"):
            return "A colour, please. Actions: red blue green", 0.0, False, over, {}
        self.at = self.at + 1 if action == self.goal[self.at] else 0
        if self.at == len(self.goal):
            return "Open.", 1.0, True, False, {}
        return f"Lights: {self.at}. Actions: red blue green", 0.0, False, over, {}

    def solution(self):
        return "Find the first colour, then the second, then the third."
"""
"""Luck wins it now and then, it pays nothing on the way, and its solution is only described."""


BOXED = """
import re

class BoxedEnv:
    def __init__(self, max_turns: int = 4) -> None:
        self.max_turns = max_turns

    def reset(self, seed):
        self.goal = random.Random(seed).randrange(1, 31)
        self.turn = 0
        return "Find the number from 1 to 30. Answer in the form \\\\boxed{7}. Actions: 1..30", {}

    def step(self, action):
        self.turn += 1
        over = self.turn >= self.max_turns
        found = re.search(r"\\\\boxed{([^{}]*)}", action)
        if found is None:
            return f"You said {action!r}. Use the form \\\\boxed{action}. Actions: 1..30", -0.1, over, False, {}
        said = found.group(1)
        if not said.isascii() or not said.isdigit():
            return "A number, please. Actions: 1..30", 0.0, over, False, {}
        if int(said) == self.goal:
            return "Found.", 1.0, True, False, {}
        return ("Higher." if int(said) < self.goal else "Lower.") + " Actions: 1..30", 0.0, over, False, {}

    def solution(self):
        return [str(self.goal)]
"""
"""Reads the box itself, as the programs of the paper's authors do."""


def program(reset: str = "", step: str = "", init: str = "", module: str = "", result: str = "") -> str:
    """An environment that does something else than it should, in one place."""
    init, reset, step = (textwrap.indent(text or "pass", " " * 8) for text in (init, reset, step))
    result = result or '"on", 0.0, False, False, {}'
    return f"""
import ctypes, os, signal, sys, threading
{module}
class OddEnv:
    def __init__(self):
{init}
    def reset(self, seed):
        text = "start"
{reset}
        return text, {{}}
    def step(self, action):
{step}
        return {result}
    def solution(self):
        return ""
    def close(self):
        pass
"""


async def play(
    sandbox: Sandbox, source: str, *actions: str, name: str = "e", seed: int = 1
) -> list[Observed | Faulted]:
    """The answers to reset and each action, up to the first fault."""
    answers = [await sandbox.open(name, source, seed, 8)]
    for turn, action in enumerate(actions, 1):
        if isinstance(answers[-1], Faulted):
            break
        answers.append(await sandbox.step(name, turn, action))
    return answers


async def fault(sandbox: Sandbox, source: str) -> Faulted:
    """The fault of the first turn or of the opening."""
    last = (await play(sandbox, source, "go"))[-1]
    assert isinstance(last, Faulted), last
    return last


async def zygotes_started(sandbox: Sandbox, source: str = DOOR) -> None:
    """Start all that a program may come from."""
    for twin in TWINS:
        process = await sandbox.child(source, twin)
        assert not isinstance(process, Faulted), process
        process.kill()


def children_of(pid: int) -> dict[int, str]:
    """State by pid of the processes whose parent is `pid`."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, parent = (entry / "stat").read_text().rsplit(")", 1)[1].split()[:2]
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(parent) == pid:
                found[int(entry.name)] = state
    return found


def zygotes_of(host: int) -> set[int]:
    """The fork servers of a sandbox; each may stand behind a process of bubblewrap."""
    found = set()
    for child in children_of(host):
        behind = Path(f"/proc/{child}/comm").read_text() == "bwrap\n"
        found |= set(children_of(child)) if behind else {child}
    return found


def offspring(pid: int) -> set[int]:
    """All processes that come of `pid`."""
    children = set(children_of(pid))
    return children.union(*(offspring(child) for child in children))


async def until(holds: Callable[[], bool]) -> None:
    with trio.fail_after(60):
        while not holds():  # noqa: ASYNC110 - nobody tells us of the ends of others' children
            await trio.sleep(0.01)


async def dead(*pids: int) -> None:
    """Wait until none of the processes lives; the zombie of an orphan is init's to reap."""
    await until(lambda: not any(running(pid) for pid in pids))


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def childless(zygotes: set[int]) -> None:
    """Wait until the zygotes have no child, dead or alive."""
    await until(lambda: not any(children_of(zygote) for zygote in zygotes))
