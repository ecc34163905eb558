"""Plays of library environments in real sandboxes."""

from contextlib import asynccontextmanager

import trio

from actors.sandbox.inside.libraries import LIBRARIES
from actors.sandbox.wire import LoadProgram, Reset, Solve, Step
from spade.config import Sandbox as Limits
from spade.protocol import Faulted

AT_ONCE = 4
NONSENSE = "nonsense"
OURS = tuple(name for name in LIBRARIES if name != "verifiers")  # `make test-interop` has that one


def limits(*libraries, step_s=60.0):
    """Patient limits with these libraries, or with all."""
    return Limits(load_s=60.0, step_s=step_s, libraries=libraries or OURS)


def program(base, **attributes):
    """A program of three lines: a subclass with these attributes."""
    return "\n".join([f"class GivenEnv({base}):", *(f"    {name} = {value!r}" for name, value in attributes.items())])


@asynccontextmanager
async def asked(sandbox, source, seed):
    """The first answer (a fault, perhaps) of a fresh process of this program, and a function that asks it on."""
    process = await sandbox.child(source)
    most = sandbox.limits
    try:
        first = await process.request(LoadProgram(source, 100), most.load_s)
        if not isinstance(first, Faulted):
            first = await process.request(Reset(seed), most.step_s)

        async def ask(request):
            return await process.request(request, most.step_s)

        yield first, ask
    finally:
        process.kill()


async def oracle(sandbox, source, seed=1):
    """The first observation, the reference actions (None: there are none) and the return for them and for nonsense."""
    async with asked(sandbox, source, seed) as (first, ask):
        if isinstance(first, Faulted):
            return first, None, None, None
        actions = (await ask(Solve())).actions
        won = None
        for action in actions or ():
            won = await ask(Step(action))
        await ask(Reset(seed))
        return first, actions, won, await ask(Step(NONSENSE))


async def play(sandbox, source, *actions, seed=1):
    """The answers to reset and to each action, up to the end."""
    answers = [await sandbox.open("play", source, seed, 100)]
    for turn, action in enumerate(actions, 1):
        if isinstance(answers[-1], Faulted) or answers[-1].terminated:
            break
        answers.append(await sandbox.step("play", turn, action))
    return answers


async def opening(sandbox, source, seed=1):
    """The first observation alone."""
    async with asked(sandbox, source, seed) as (first, _):
        return (first,)


async def every(sandbox, sources, seed=1, look=oracle):
    """The results of `look` for all programs, by their names."""
    found = {}
    places = trio.CapacityLimiter(AT_ONCE)

    async def one(name, source):
        async with places:
            found[name] = await look(sandbox, source, seed)

    async with trio.open_nursery() as nursery:
        for name, source in sources.items():
            nursery.start_soon(one, name, source)
    return found
