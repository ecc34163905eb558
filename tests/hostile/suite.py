"""The whole suite: every hostile program beside a benign episode in the same sandbox.

    python -m tests.hostile.suite TIER [--as-nobody] [--without LAYER] [--libraries] [--share NUMBER/SHARES]

With --libraries every program runs in a child of the zygote that has loaded all libraries but verifiers. A share, counted from 0, is
every third program of three shares. "not 0/3" is all programs but those of the first share.

Prints a complaint a line, and how many programs were run; the exit code is 1 where there is a complaint. Without a
layer programs really do what they are not to do, to all that the user nobody has here; so that is for root alone.
"""

import argparse
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
import trio

from actors.sandbox.host import Sandbox
from actors.sandbox.inside.libraries import LIBRARIES
from actors.sandbox.inside.walls import NOBODY
from actors.sandbox.opening import open_layers
from actors.sandbox.tiers import TIERS, Layers
from spade.config import Sandbox as Limits
from spade.protocol import Faulted, Needs, Observed, ToolCall
from tests.actors.odd_programs import DOOR, children_of
from tests.hostile import calls, forged_answers, frames, hoards, lies, reach, sights, time_and_memory, tool_use
from tests.hostile.hostile import ANSWERED, BREACH, Hostile

FAMILIES = (time_and_memory, reach, calls, lies, sights, hoards, frames, tool_use, forged_answers)
PROGRAMS: Sequence[Hostile] = [program for family in FAMILIES for program in family.PROGRAMS]


class Meeting(NamedTuple):
    """The terms on which programs are met: `at_once` benign episodes, each beside `in_turn` programs."""

    limits: Limits
    at_once: int
    in_turn: int


ENDLESS = Meeting(Limits(load_s=1.0, step_s=0.1), 24, 1)
"""For programs that never answer, and take little of the machine while they wait for their limit.

The benign episode beside must load within `load_s` too, however busy the machine is. The limit of processor time,
twelve times `step_s`, must be above both."""

HASTY = Meeting(Limits(load_s=2.0, step_s=1.0), 12, 1)
"""For programs that may not answer at all, and that some other limit may stop first."""

PATIENT = Meeting(Limits(load_s=120.0, step_s=120.0), 12, 4)
"""For those that have to answer, however busy the machine is."""

PATIENCE = Needs(step_s=120.0)
"""Of a benign episode, whatever the limits of the programs beside it."""

OF_LIBRARIES = "\n# ChoiceEnv"
"""A program that names a base class is run in the zygote of libraries."""

ROOT = Path(__file__).parents[2]
TURNS = 3
BENIGN = [
    Observed("Which door? Actions: red blue"),
    Observed("The ? door is shut. Actions: red blue", 0.25),
    Observed("The ! door is shut. Actions: red blue", 0.25),
    Observed("The . door is shut. Actions: red blue", 0.25, terminated=True),
]


@contextmanager
def surroundings(found: list[str]) -> Iterator[dict[str, str]]:
    """Targets of attacks: files open to all, listeners, a process of the programs' user, a secret of ours.

    What was done to it is added to `found` in the end.
    """
    os.environ["SPADE_HOSTILE"] = "a secret"
    name = f"spade-hostile-{os.getpid()}"
    victim = subprocess.Popen(["/bin/sleep", "600"], user=NOBODY if os.geteuid() == 0 else None)
    with (
        tempfile.TemporaryDirectory() as path,
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_UNIX) as abstract,
        socket.socket(socket.AF_UNIX) as local,
        victim,
    ):
        folder = Path(path)
        (folder / "empty").mkdir()
        (folder / "secret").write_text("the secret")
        abstract.bind(f"\0{name}")
        local.bind(f"{folder}/socket")
        for listener in (tcp, abstract, local):
            listener.listen()
        for each in (folder, *folder.iterdir()):
            each.chmod(0o777)
        before = state(folder)
        try:
            around = {
                "FOLDER": path,
                "ROOT": str(ROOT),
                "VICTIM": str(victim.pid),
                "PORT": str(tcp.getsockname()[1]),
                "NAME": name,
            }
            yield around
            if state(folder) != before:
                found.append("the files: a program changed them")
            if victim.poll() is not None:
                found.append("the victim: a program killed it")
        finally:
            victim.kill()


def state(folder: Path) -> list[tuple[str, int, int, int]]:
    """The state of the files; their contents have not been written where the times have not changed."""
    return sorted((each.name, *each.stat()[0:2], each.stat().st_mtime_ns) for each in (folder, *folder.iterdir()))


async def complaints(layers: Layers, programs: Sequence[Hostile], libraries: Sequence[str] = ()) -> list[str]:
    """Everything that was not as it must be, over all programs; with `libraries`, all in their zygote."""
    found: list[str] = []
    endless = [hostile for hostile in programs if hostile.sees == {"timeout"}]
    silent = [hostile for hostile in programs if hostile.sees > {"timeout"}]
    heard = [hostile for hostile in programs if "timeout" not in hostile.sees]
    for meeting, some in ((ENDLESS, endless), (HASTY, silent), (PATIENT, heard)):
        if some:
            limits = msgspec.structs.replace(meeting.limits, libraries=tuple(libraries))
            found += await held(layers, meeting._replace(limits=limits), some)
    return found


async def held(layers: Layers, meeting: Meeting, programs: Sequence[Hostile]) -> list[str]:
    """The same, in one sandbox."""
    found: list[str] = []
    with surroundings(found) as around:
        async with open_layers(layers, meeting.limits) as sandbox:
            await sandbox.open("first", beside(DOOR, sandbox), 1, 3)
            zygotes = set(children_of(os.getpid()))
            places = trio.CapacityLimiter(meeting.at_once)

            async def judge(some: Sequence[Hostile]) -> None:
                async with places:
                    found.extend(await meet(sandbox, some, around))

            async with trio.open_nursery() as nursery:
                for first in range(0, len(programs), meeting.in_turn):
                    nursery.start_soon(judge, programs[first : first + meeting.in_turn])
            if not zygotes <= set(children_of(os.getpid())):
                found.append("the zygote died")
    return found


async def meet(sandbox: Sandbox, programs: Sequence[Hostile], around: dict[str, str]) -> list[str]:
    """Hostile programs in turn, and a benign one that begins before the first and ends after the last."""
    found = []
    names = ", ".join(hostile.name for hostile in programs)
    benign, door = f"benign {names}", beside(DOOR, sandbox)
    transcript = [await sandbox.open(benign, door, 1, TURNS, PATIENCE), await sandbox.step(benign, 1, "?")]
    for hostile in programs:
        source, enemy = beside(hostile.source, sandbox), f"hostile {hostile.name}"
        for word, value in around.items():
            source = source.replace(f"${word}", value)
        seen, said = await outcome(sandbox, enemy, source, hostile.calls)
        sandbox.close(enemy)
        if seen not in hostile.sees or BREACH in said:
            found.append(f"{hostile.name}: saw {seen} ({said[-200:]}), not {' or '.join(sorted(hostile.sees))}")
    transcript += [await sandbox.step(benign, 2, "!"), await sandbox.step(benign, 3, ".")]
    sandbox.close(benign)
    if transcript != BENIGN:
        found.append(f"{names}: the benign episode beside answered {transcript}")
    return found


def beside(source: str, sandbox: Sandbox) -> str:
    """The program, in the zygote of libraries where there is one."""
    return source + OF_LIBRARIES if sandbox.limits.libraries else source


async def outcome(sandbox: Sandbox, episode: str, source: str, calls: Sequence[ToolCall] = ()) -> tuple[str, str]:
    """The kind of fault, or ANSWERED, and all that was said."""
    answer, said = await sandbox.open(episode, source, 1, TURNS), ""
    for turn in range(1, TURNS + 1):
        if isinstance(answer, Faulted):
            return answer.kind, f"{said} {answer.detail}"
        said += heard(answer)
        if answer.terminated or answer.truncated:
            break
        await trio.sleep(0.05)  # for what a program does between two requests
        answer = await sandbox.step(episode, turn, "go", calls)
        if calls and isinstance(answer, Observed) and not (answer.terminated or answer.truncated):
            inspected = await sandbox.inspect(episode)
            answer = inspected if isinstance(inspected, Faulted) else answer
    return (answer.kind, answer.detail) if isinstance(answer, Faulted) else (ANSWERED, said + heard(answer))


def heard(answer: Observed) -> str:
    """The text that a player would read, each part cut to 1,000 characters."""
    return answer.observation[:1000] + "".join(result.text[:1000] for result in answer.results)


def share_of(programs: Sequence[Hostile], share: str) -> Sequence[Hostile]:
    """The programs of a share, "NUMBER/SHARES", or all others, "not NUMBER/SHARES"."""
    number, shares = map(int, share.removeprefix("not ").split("/"))
    others = share.startswith("not ")
    return [program for index, program in enumerate(programs) if (index % shares == number) != others]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tier", choices=list(TIERS))
    parser.add_argument("--as-nobody", action="store_true")
    parser.add_argument("--without", action="append", default=[], metavar="LAYER")
    parser.add_argument("--libraries", action="store_true")
    parser.add_argument("--share", default="0/1", metavar="NUMBER/SHARES")
    arguments = parser.parse_args()
    if arguments.without and os.geteuid() != 0:
        parser.error("--without is for root, whose programs run as nobody: they may kill all processes of their user")
    if arguments.as_nobody:
        os.setgroups([])
        os.setresgid(NOBODY - 1, NOBODY - 1, NOBODY - 1)
        os.setresuid(NOBODY - 1, NOBODY - 1, NOBODY - 1)
    libraries = tuple(LIBRARIES.keys() - {"verifiers"}) if arguments.libraries else ()
    tier = [hostile for hostile in PROGRAMS if arguments.tier in hostile.tiers]
    programs = share_of([hostile for hostile in tier if libraries or not hostile.libraries], arguments.share)
    found = trio.run(complaints, TIERS[arguments.tier] - set(arguments.without), programs, libraries)
    print(*found, f"{len(programs)} programs", sep="\n")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
