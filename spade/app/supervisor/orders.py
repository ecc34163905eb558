"""Orders to the supervisors of a live run, repeated until they take effect."""

import re
from collections.abc import Callable, Sequence

import trio

from spade.app.screen.observe import ask_status
from spade.app.screen.reach import AGAIN_S, ANSWER_S, CONNECT_S, ReachedRun, connect_observer
from spade.app.supervisor.actors import compute_longest_lease_s
from spade.errors import ConfigError, RunError
from spade.protocol import MOST_ACTORS, Orders, Process, Role, Status
from spade.text import quote
from spade.transport import Client

ROLES: dict[str, Role] = {
    "agents": "agent", "designers": "designer", "curators": "curator", "runners": "env-runner", "engines": "engine",
}  # fmt: skip
_UP = ("waiting", "starting", "ready", "restarting")
LOOK_S = 0.2


def parse(words: Sequence[str]) -> dict[Role, int]:
    """Parse counts such as "agents=8". Raises ConfigError if a word is malformed."""
    counts: dict[Role, int] = {}
    for word in words:
        name, _, number = word.partition("=")
        if name not in ROLES or not re.fullmatch("[0-9]{1,9}", number) or int(number) > MOST_ACTORS:
            raise ConfigError(
                f"{word!r}: write ROLE=COUNT with one of the roles {', '.join(ROLES)} and a count of 0 to {MOST_ACTORS}"
            )
        counts[ROLES[name]] = int(number)
    return counts


def choose(status: Status, on: str | None) -> str:
    """Return `on`, or the name of the only supervisor that keeps actors.

    Raises RunError if `on` does not keep actors, or if several supervisors keep actors and `on` was not given.
    """
    names = sorted(status.wanted)
    if not names:
        raise RunError(f"{status.run}: no supervisor keeps actors; `spade up` or `spade actors up` starts one")
    if on is None and len(names) > 1:
        raise RunError(f"{status.run}: several supervisors keep actors; choose one with --on: {', '.join(names)}")
    if on is not None and on not in names:
        raise RunError(f"{status.run}: no supervisor {on!r} keeps actors; there are {', '.join(names)}")
    return on or names[0]


async def scale(at: ReachedRun, counts: dict[Role, int], on: str | None) -> str:
    """Set counts of actors at the supervisor `on`. Return a line with the counts that run now.

    Raises RunError if the supervisor is not unique, or if the actors are not ready in time.
    """
    async with connect_observer(at, CONNECT_S) as client:
        name = choose(await ask_status(client), on)

        def wanted(status: Status) -> bool:
            return counts.items() <= status.wanted.get(name, {}).items()

        def there(status: Status) -> bool:
            if name not in status.wanted:
                return False  # the replay service restarted and has not received a report yet
            if not wanted(status):
                failed = [f"{each.name}: {each.detail}" for each in list_kept(status, name) if each.state == "failed"]
                raise RunError("; ".join(failed) or f"{name}: another order changed the counts meanwhile")
            up = [each.role for each in list_kept(status, name) if each.state not in ("draining", "stopped", "failed")]
            ready = [each.role for each in list_kept(status, name) if each.state == "ready"]
            return all(up.count(role) == ready.count(role) == count for role, count in counts.items())

        settings = at.config.supervise
        patience_s = settings.ready_s + settings.drain_s
        await _order(client, Orders(name, counts), wanted, patience_s)
        await _wait_until(client, there, patience_s, name)
    return f"{name}: {', '.join(f'{word} {counts[role]}' for word, role in ROLES.items() if role in counts)}"


async def drain(at: ReachedRun, name: str) -> str:
    """Drain the actor `name`. Return a line about its end. Raises RunError if it is unknown or did not end in order."""
    async with connect_observer(at, CONNECT_S) as client:
        actors = [each for each in (await ask_status(client)).processes if each.role in ROLES.values()]
        found = [each for each in actors if each.name == name and each.state != "silent"]
        if not found:
            raise RunError(f"{at.name}: no actor {name!r}; there are {', '.join(each.name for each in actors)}")
        supervisor = found[0].supervisor

        def gone(status: Status) -> bool:
            return all(
                each.state in ("stopped", "failed") for each in list_kept(status, supervisor) if each.name == name
            )

        config = at.config
        patience_s = compute_longest_lease_s(config) + config.supervise.drain_s
        status = await _order(client, Orders(supervisor, drain=(name,)), gone, patience_s)
    (left,) = [each for each in list_kept(status, supervisor) if each.name == name]
    if left.detail != "left in order":
        raise RunError(
            f"{name}: {left.detail}; its log is in the folder `logs` of the command that started it, on the host of "
            "that command"
        )
    others = any(each.role == left.role and each.state in _UP for each in status.processes)
    word = next(word for word, role in ROLES.items() if role == left.role)
    missing = f"no {left.role} is left; `spade actors scale {quote(at.name)} {word}=1` starts one"
    return f"{name}: {left.detail}" if others else f"{name}: {left.detail}; {missing}"


def list_kept(status: Status, supervisor: str) -> list[Process]:
    """Return the actors that a supervisor keeps or kept, by role and name."""
    order = list(ROLES.values())
    kept = [each for each in status.processes if each.supervisor == supervisor and each.role in order]
    return sorted(kept, key=lambda each: (order.index(each.role), len(each.name), each.name))


async def _order(client: Client, orders: Orders, met: Callable[[Status], bool], patience_s: float) -> Status:
    """Repeat orders until they take effect. Raises RunError at the deadline."""
    until = trio.current_time() + patience_s
    while trio.current_time() < until:
        await client.call(orders, deadline_s=ANSWER_S)
        with trio.move_on_after(AGAIN_S):
            return await _look(client, met)
    raise RunError(f"{orders.supervisor}: the order did not take effect; `spade actors ls` shows the state")


async def _wait_until(client: Client, met: Callable[[Status], bool], patience_s: float, supervisor: str) -> None:
    """Wait for `met`. Raises RunError at the deadline, with the reasons why the supervisor's processes wait."""
    with trio.move_on_after(patience_s):
        await _look(client, met)
        return
    all_ = list_kept(await ask_status(client), supervisor)
    waiting = "".join(f"{each.name} waits for {each.detail}; " for each in all_ if each.state == "waiting")
    raise RunError(f"not all actors are ready yet; {waiting}`spade actors ls` shows the state")


async def _look(client: Client, met: Callable[[Status], bool]) -> Status:
    while True:
        status = await ask_status(client)
        if met(status):
            return status
        await trio.sleep(LOOK_S)
