"""Read the tasks of a running OpenEnv server. Each task becomes a short program that leaves the play to the server."""

import re
from collections import Counter
from typing import Any, TypeVar
from urllib.parse import quote

import httpx2
import msgspec
import trio

from actors.sandbox.served import HIDDEN
from actors.suites.programs import make_class_name, write_program
from spade.app.pools.tables import choose_name
from spade.config.addresses import is_server
from spade.decoding import UnreadableError, try_decode
from spade.errors import RunError, format_reason
from spade.pools import MOST_PROGRAMS, PoolProgram, refuse_oversize
from spade.pools.served import SERVED_CLASS
from spade.text import as_line

SERVER = "openenv"
ANSWER_S = 20.0
READ_S = 120.0
"""Most seconds to wait for one answer, even if its bytes keep coming."""
ANSWER_BYTES = 64 << 20
MOST_SPLITS = 64
NOTE_CHARACTERS = 4_000
_ABSENT = {404, 405, 501}
"""Statuses for a path that a server does not have, or that its environment does not implement."""
_ENDS = {"done", "reward", "truncated"}
"""Fields of an observation that state the outcome of a step."""
_T = TypeVar("_T")


class Fields(msgspec.Struct, frozen=True):
    """The part of a JSON schema that this module reads."""

    properties: dict[str, dict[str, Any]] = {}
    """The JSON schemas of the fields, by name."""


class ServerSchemas(msgspec.Struct, frozen=True):
    """The schemas of a server's messages."""

    action: Fields
    """The schema of an action."""
    observation: Fields
    """The schema of an observation."""


class Split(msgspec.Struct, frozen=True):
    """A part of a server's tasks."""

    name: str
    """The name of the split."""


class TaskList(msgspec.Struct, frozen=True):
    """The tasks of a split."""

    tasks: list[Any]
    """The description of each task."""


def read_server(address: str) -> tuple[str, list[PoolProgram]]:
    """Return the address without a final slash, and a program for each task of the server.

    A server that lists no tasks gets one program.

    Raises RunError if the address is malformed, nothing answers there, or the answer is not OpenEnv's.
    """
    server = address.rstrip("/")
    if not is_server(server):
        raise RunError(f"{as_line(address, 80)!r}: write openenv:http://HOST:PORT, or https://")
    return server, trio.run(_read_programs, server)


async def _read_programs(server: str) -> list[PoolProgram]:
    async with httpx2.AsyncClient(base_url=server, timeout=ANSWER_S) as client:
        schemas = await _ask(client, "GET", "/schema", ServerSchemas)
        if schemas is None:
            raise RunError(f"{server}: is not a server of OpenEnv (it lacks /schema)")
        form = _describe_actions(schemas.action) | _describe_observations(schemas.observation)
        starts = await _list_starts(client)
    taken = Counter[str]()
    return [_make_program(choose_name(name, taken), server, start, form) for name, start in starts]


async def _list_starts(client: httpx2.AsyncClient) -> list[tuple[str, dict[str, Any]]]:
    """Return a name and the `reset` arguments of each task, or one pair without arguments if no task is listed."""
    name, *others = await _ask(client, "GET", "/list_environments", list[str]) or ["environment"]
    if others:
        raise RunError(f"{client.base_url}: has {len(others) + 1} environments; give a server with one")
    place = quote(name, safe="")
    splits = await _ask(client, "GET", f"/{place}/splits", list[Split]) or []
    if len(splits) > MOST_SPLITS:
        raise RunError(f"{client.base_url}: has {len(splits)} splits; at most {MOST_SPLITS} are read")
    starts: list[tuple[str, dict[str, Any]]] = []
    for split in splits:
        listed = await _ask(client, "POST", f"/{place}/tasks", TaskList, {"split": split.name})
        for index, task in enumerate(listed.tasks if listed else ()):
            given = task.get("id") if isinstance(task, dict) else None
            starts.append((str(given or f"{split.name}-{index}"), {"split": split.name, "index": index}))
        if len(starts) > MOST_PROGRAMS:
            raise RunError(f"{client.base_url}: has more than {MOST_PROGRAMS} tasks, too many for a pool")
    return starts or [(name, {})]


def _make_program(name: str, server: str, start: dict[str, Any], form: dict[str, Any]) -> PoolProgram:
    kind = make_class_name("Task_" + re.sub(r"\W", "_", name, flags=re.ASCII))
    attributes = {"server": server} | ({"start": start} if start else {}) | form
    program = PoolProgram(name, write_program(SERVED_CLASS, kind, **attributes), origin=f"{SERVER}:{server}")
    refuse_oversize(server, program)
    return program


def _describe_actions(schema: Fields) -> dict[str, Any]:
    """Return the attributes of a program that say how the player's text becomes an action.

    If an action has one field, the text fills it. Otherwise the text is a JSON object with all fields.
    """
    fields = {name: each for name, each in schema.properties.items() if name not in HIDDEN}
    if len(fields) != 1:
        return {"note": f"Send an action as a JSON object with these fields: {_format(fields)}"}
    [(name, field)] = fields.items()
    low, high, known = field.get("minimum"), field.get("maximum"), field.get("enum")
    attributes = {"action": name} if field.get("type") == "string" else {"action": name, "plain": False}
    if known and isinstance(known, list):
        return attributes | {"note": f"Actions: {' '.join(map(str, known))}"}
    if field.get("type") == "integer" and isinstance(low, int) and isinstance(high, int):
        return attributes | {"note": f"Actions: {low}..{high}"}
    return attributes | ({} if field.get("type") == "string" else {"note": f"Send an action as JSON: {_format(field)}"})


def _describe_observations(schema: Fields) -> dict[str, Any]:
    """Return the attribute that names the field to show, if an observation has one field and it is a text.

    Otherwise return no attribute, so that all fields are shown.
    """
    fields = {name: each for name, each in schema.properties.items() if name not in HIDDEN | _ENDS}
    if [each.get("type") for each in fields.values()] == ["string"]:
        return {"observation": next(iter(fields))}
    return {}


def _format(schema: object) -> str:
    return as_line(msgspec.json.encode(schema).decode(), NOTE_CHARACTERS)


async def _ask(client: httpx2.AsyncClient, method: str, path: str, kind: type[_T], body: object = None) -> _T | None:
    """Ask the server. Returns None if it does not have this path.

    Raises RunError if the server cannot be reached or refuses, or if its answer is late, too long or malformed.
    """
    data = bytearray()
    try:
        with trio.fail_after(READ_S):
            async with client.stream(method, path, json=body) as answer:
                async for chunk in answer.aiter_bytes():
                    data += chunk
                    if len(data) > ANSWER_BYTES:
                        raise RunError(f"{client.base_url}: the answer to {path} is over {ANSWER_BYTES >> 20} MiB")
    except trio.TooSlowError:
        raise RunError(f"{client.base_url}: the answer to {path} takes longer than {READ_S:g} s") from None
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        reason = as_line(format_reason(error) or type(error).__name__, 120)
        raise RunError(f"{client.base_url}: no server of OpenEnv answers ({reason})") from None
    if answer.status_code in _ABSENT:
        return None
    if answer.status_code != 200:
        raise RunError(f"{client.base_url}: does not give {path} (status {answer.status_code})")
    try:
        return try_decode(msgspec.json.Decoder(kind).decode, bytes(data))
    except UnreadableError as error:
        raise RunError(f"{client.base_url}: the answer to {path} is not OpenEnv's: {error}") from None
